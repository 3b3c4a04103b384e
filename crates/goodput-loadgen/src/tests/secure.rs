//! TLS and HTTP/2.

use std::{convert::Infallible, path::PathBuf, pin::Pin};

use bytes::Bytes;
use goodput_record::Outcome;
use http_body_util::BodyExt;
use hyper::{body::Frame, service::service_fn};
use hyper_util::rt::TokioIo;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::HttpVersion;

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/tls")
        .join(name)
}

fn acceptor(alpn: &[u8]) -> TlsAcceptor {
    let chain = CertificateDer::pem_file_iter(fixture("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(fixture("server.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain.map(Result::unwrap).collect(), key)
        .unwrap();
    config.alpn_protocols = vec![alpn.to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

type Io = Pin<Box<dyn Duplex>>;
trait Duplex: tokio::io::AsyncRead + tokio::io::AsyncWrite {}
impl<T: tokio::io::AsyncRead + tokio::io::AsyncWrite> Duplex for T {}

/// An answer of three tokens, `first` after the request.
fn answer(first: Duration) -> impl hyper::body::Body<Data = Bytes, Error = Infallible> {
    let token = "data: {\"id\":\"a\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" tok\"},\"finish_reason\":null}]}\n\n";
    let end = "data: {\"id\":\"a\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let (sender, receiver) = tokio::sync::mpsc::channel(4);
    tokio::task::spawn_local(async move {
        for (wait, text) in [
            (first, token),
            (ms(10), token),
            (ms(10), token),
            (ms(0), end),
        ] {
            tokio::time::sleep(wait).await;
            if sender.send(text).await.is_err() {
                return;
            }
        }
    });
    Received(receiver)
}

struct Received(tokio::sync::mpsc::Receiver<&'static str>);

impl hyper::body::Body for Received {
    type Data = Bytes;
    type Error = Infallible;
    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0
            .poll_recv(cx)
            .map(|text| Some(Ok(Frame::data(Bytes::from_static(text?.as_bytes())))))
    }
}

#[derive(Clone, Copy)]
struct Server {
    tls: bool,
    http2: bool,
    handshake: Duration,
    first_token: Duration,
}

impl Server {
    /// Its address. The handshake of every connection is put off.
    async fn start(self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::task::spawn_local(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                tcp.set_nodelay(true).unwrap();
                tokio::task::spawn_local(self.connection(tcp));
            }
        });
        address
    }

    async fn connection(self, tcp: TcpStream) {
        tokio::time::sleep(self.handshake).await;
        let io: Io = if self.tls {
            let alpn: &[u8] = if self.http2 { b"h2" } else { b"http/1.1" };
            match acceptor(alpn).accept(tcp).await {
                Ok(tls) => Box::pin(tls),
                Err(_) => return,
            }
        } else {
            Box::pin(tcp)
        };
        let service = service_fn(
            move |request: hyper::Request<hyper::body::Incoming>| async move {
                request.into_body().collect().await?;
                let answer = hyper::Response::builder()
                    .header("content-type", "text/event-stream")
                    .body(answer(self.first_token));
                Ok::<_, hyper::Error>(answer.unwrap())
            },
        );
        let io = TokioIo::new(io);
        let _ = if self.http2 {
            hyper::server::conn::http2::Builder::new(crate::http2::LocalExecutor)
                .serve_connection(io, service)
                .await
        } else {
            hyper::server::conn::http1::Builder::new()
                .serve_connection(io, service)
                .await
        };
    }

    async fn target(self) -> Target {
        let scheme = if self.tls { "https" } else { "http" };
        let url = format!("{scheme}://{}/v1", self.start().await);
        let mut target = Target::new(Endpoint::parse(&url).unwrap(), "m");
        target.authorities = Some(fixture("authority.pem"));
        target.http = if self.http2 {
            HttpVersion::Http2
        } else {
            HttpVersion::Http1
        };
        target
    }
}

const PLAIN: Server = Server {
    tls: false,
    http2: false,
    handshake: Duration::ZERO,
    first_token: Duration::from_millis(20),
};

/// O-CL-02: a handshake that takes 80 ms is in `connect`, not in TTFT.
#[test]
fn a_slow_handshake_is_not_in_ttft() {
    run(async {
        let server = Server {
            tls: true,
            handshake: ms(80),
            ..PLAIN
        };
        let (report, heard) =
            drive(server.target().await, &counted(closed(1), 2), &Stop::new()).await;
        let all = heard.summaries(Phase::Measured);
        assert!(
            all.iter().all(|s| s.outcome() == Outcome::Ok),
            "{:?}",
            heard.ended
        );
        let connect = all[0].connect().unwrap();
        assert!(connect >= ms(80), "{connect:?}");
        assert!(all[0].ttft().unwrap() >= ms(20));
        assert!(
            all[0].sent().unwrap() >= report.span.start,
            "sent once connected"
        );
        // The connection was opened before the request was due.
        assert!(all[0].send_lag().unwrap() < connect);
        assert_eq!(
            (all[1].connect(), report.traffic.connections_opened),
            (None, 1)
        );
    });
}

#[test]
fn a_stranger_is_not_trusted() {
    run(async {
        let mut target = Server { tls: true, ..PLAIN }.target().await;
        target.authorities = None;
        let ended = one(target).await;
        assert_eq!(ended.record.summary.outcome(), Outcome::Failed);
        assert!(ended.error.unwrap().contains("certificate"));
    });
}

#[test]
fn http2_is_spoken_with_and_without_tls() {
    run(async {
        for tls in [false, true] {
            let server = Server {
                tls,
                http2: true,
                ..PLAIN
            };
            let plan = counted(closed(150), 300);
            let (report, heard) = drive(server.target().await, &plan, &Stop::new()).await;
            let all = heard.summaries(Phase::Measured);
            assert!(
                all.iter().all(|s| s.outcome() == Outcome::Ok),
                "tls {tls}: {:?}",
                heard.ended.borrow()[0].error
            );
            assert!(
                all.iter()
                    .all(|s| s.events() == 3 && s.ttft() >= Some(ms(20)))
            );
            // 100 streams a connection: the 101st must not wait behind the server's limit.
            assert_eq!(
                (report.traffic.connections_opened, report.peak_in_flight),
                (2, 150)
            );
        }
    });
}
