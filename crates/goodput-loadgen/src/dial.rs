//! Opening a connection: TCP, then TLS where the URL says so.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::{
    error::TargetError,
    socket::{Socket, Sockets},
    target::{HttpVersion, Target},
};

/// A byte stream to the server.
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(Socket),
    Tls(Box<TlsStream<Socket>>),
}

/// How connections are opened.
pub(crate) struct Dialer {
    addresses: Vec<SocketAddr>,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    http: HttpVersion,
    sockets: Sockets,
}

impl Dialer {
    /// Looks the host up, once for the run, and reads the certificate authorities.
    pub(crate) async fn new(target: &Target) -> Result<Self, TargetError> {
        let endpoint = &target.endpoint;
        let lookup = |source| TargetError::Lookup {
            host: endpoint.host.clone(),
            source,
        };
        let addresses: Vec<_> = tokio::net::lookup_host((endpoint.host.as_str(), endpoint.port))
            .await
            .map_err(lookup)?
            .collect();
        if addresses.is_empty() {
            return Err(lookup(io::ErrorKind::NotFound.into()));
        }
        let tls = if endpoint.tls {
            Some(tls(target)?)
        } else {
            None
        };
        Ok(Self {
            addresses,
            tls,
            http: target.http,
            sockets: Sockets::default(),
        })
    }

    /// The addresses the host stands for.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The sockets that are open.
    pub(crate) fn sockets(&self) -> &Sockets {
        &self.sockets
    }

    /// Opens a connection, trying the addresses in the resolver's order.
    pub(crate) async fn dial(&self) -> io::Result<Stream> {
        let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in &self.addresses {
            match TcpStream::connect(address).await {
                Ok(tcp) => return self.dress(tcp).await,
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    async fn dress(&self, tcp: TcpStream) -> io::Result<Stream> {
        // Small writes must not wait for the acknowledgement of earlier ones (40 ms each).
        tcp.set_nodelay(true)?;
        let tcp = Socket::new(tcp)?;
        self.sockets.add(&tcp);
        let Some((connector, name)) = &self.tls else {
            return Ok(Stream::Plain(tcp));
        };
        let tls = connector.connect(name.clone(), tcp).await?;
        let agreed = tls.get_ref().1.alpn_protocol();
        if self.http == HttpVersion::Http2 && agreed != Some(b"h2") {
            return Err(io::Error::other(
                "the server does not agree to HTTP/2 (ALPN h2)",
            ));
        }
        Ok(Stream::Tls(Box::new(tls)))
    }
}

fn tls(target: &Target) -> Result<(TlsConnector, ServerName<'static>), TargetError> {
    let host = &target.endpoint.host;
    let name = ServerName::try_from(host.clone())
        .map_err(|_| TargetError::ServerName { host: host.clone() })?;
    let mut roots = RootCertStore {
        roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
    };
    if let Some(path) = &target.authorities {
        let bad = |why: String| TargetError::Authorities {
            path: path.clone(),
            why,
        };
        let found = CertificateDer::pem_file_iter(path).map_err(|e| bad(e.to_string()))?;
        let mut count = 0;
        for certificate in found {
            let certificate = certificate.map_err(|e| bad(e.to_string()))?;
            roots.add(certificate).map_err(|e| bad(e.to_string()))?;
            count += 1;
        }
        if count == 0 {
            return Err(bad("there is none in it".to_owned()));
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("invariant: ring speaks the default versions of TLS")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![match target.http {
        HttpVersion::Http1 => b"http/1.1".to_vec(),
        HttpVersion::Http2 => b"h2".to_vec(),
    }];
    Ok((TlsConnector::from(Arc::new(config)), name))
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(s) => Pin::new(s).poll_read(cx, buf),
            Self::Tls(s) => Pin::new(s).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(s) => Pin::new(s).poll_write(cx, buf),
            Self::Tls(s) => Pin::new(s).poll_write(cx, buf),
        }
    }
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(s) => Pin::new(s).poll_flush(cx),
            Self::Tls(s) => Pin::new(s).poll_flush(cx),
        }
    }
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(s) => Pin::new(s).poll_shutdown(cx),
            Self::Tls(s) => Pin::new(s).poll_shutdown(cx),
        }
    }
}
