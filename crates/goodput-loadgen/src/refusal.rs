//! What a failed request means and what to do, in one sentence.

use std::{io, time::Duration};

use rustix::{
    io::Errno,
    process::{Resource, getrlimit},
};

/// What to do about an answer with this status; `said` is the server's own word.
pub(crate) fn advice(status: u16, said: &str) -> &'static str {
    let about_model = said.to_ascii_lowercase().contains("model");
    match status {
        401 => "the key is missing or wrong: name the environment variable that holds it",
        403 => "the key may not use this model or server",
        404 if about_model => "ask for a model that the server lists under /v1/models",
        404 | 405 => "the URL should be the server's base as clients know it: http://HOST:PORT/v1",
        400 | 422 => {
            "the server does not take such a request: a prompt beyond its context, or a field it does not know"
        }
        413 => "the prompt is too large for the server or for a proxy before it",
        429 => "the server limits its clients",
        503 => "the server is loading or overloaded",
        300..=399 => "redirects are not followed: use the final URL",
        _ => "",
    }
}

/// Why a socket could not be had, where that is a matter of this machine and nothing the server
/// did, and what to do.
pub(crate) fn ours(error: &io::Error) -> Option<String> {
    let code = error.raw_os_error()?;
    let said = match Errno::from_raw_os_error(code) {
        Errno::MFILE => format!(
            "this process may have {} open files; raise that (ulimit -n 65536)",
            getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
        ),
        Errno::NFILE => "this machine has no open files left; raise fs.file-max".to_owned(),
        Errno::NOBUFS | Errno::NOMEM => {
            "this machine has no memory left for sockets; ask for less load".to_owned()
        }
        Errno::ADDRNOTAVAIL => "this machine has no free port left to the server; widen \
             net.ipv4.ip_local_port_range, or let connections be reused"
            .to_owned(),
        _ => return None,
    };
    Some(said)
}

/// Why there is no connection to `authority`.
pub(crate) fn no_connection(authority: &str, error: &io::Error) -> String {
    let advice = match error.kind() {
        io::ErrorKind::ConnectionRefused => ": is the server up, and is this its port?",
        io::ErrorKind::InvalidData => certificate_advice(&error.to_string()),
        _ if ours(error).is_some() => ": a limit of this machine, not the server's doing",
        _ => "",
    };
    format!("no connection to {authority}: {error}{advice}")
}

/// Why there is none yet after `limit`.
pub(crate) fn too_late(authority: &str, limit: Duration, tls: bool) -> String {
    if tls {
        format!(
            "no TLS connection to {authority} within {limit:?}: does the server speak TLS on this port, or is it http://?"
        )
    } else {
        format!(
            "no connection to {authority} within {limit:?}: is the address right, and does no firewall swallow it?"
        )
    }
}

/// What to do about a TLS handshake that failed with `reason`.
fn certificate_advice(reason: &str) -> &'static str {
    // The names of rustls: it tells certificates apart only in its debug text.
    match reason {
        r if r.contains("CaUsedAsEndEntity") => {
            ": its certificate is that of an authority (CA:TRUE); a server needs one of its own, made \
             with basicConstraints=CA:FALSE or issued by that authority"
        }
        r if r.contains("UnknownIssuer") => {
            ": the authority of its certificate is not known here; trust it with --ca-file FILE (PEM)"
        }
        r if r.contains("NotValidForName") => {
            ": its certificate is for another name than the URL's; use that name in the URL"
        }
        _ => ": does the server speak TLS on this port, with a certificate that is trusted?",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_descriptor_is_never_blamed_on_the_server() {
        let error = io::Error::from_raw_os_error(Errno::MFILE.raw_os_error());
        assert!(ours(&error).unwrap().contains("ulimit -n"));
        assert!(no_connection("h:1", &error).contains("not the server's doing"));
        let refused = io::Error::from_raw_os_error(Errno::CONNREFUSED.raw_os_error());
        assert_eq!(ours(&refused), None);
    }

    #[test]
    fn a_certificate_that_is_not_trusted_says_what_to_do() {
        let said = |reason: &str| {
            no_connection("h:1", &io::Error::new(io::ErrorKind::InvalidData, reason))
        };
        assert!(said("invalid peer certificate: UnknownIssuer").contains("--ca-file"));
        let own = "invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))";
        assert!(said(own).contains("CA:FALSE"));
        assert!(said("received corrupt message").contains("speak TLS on this port"));
    }

    #[test]
    fn a_silent_port_says_where_for_how_long_and_what_to_look_at() {
        let limit = Duration::from_secs(30);
        let tls = too_late("h:8000", limit, true);
        for part in ["h:8000", "30s", "TLS", "http://"] {
            assert!(tls.contains(part), "{tls}");
        }
        let plain = too_late("h:8000", limit, false);
        assert!(
            plain.contains("firewall") && !plain.contains("TLS"),
            "{plain}"
        );
    }

    #[test]
    fn a_missing_model_and_a_wrong_path_get_different_advice() {
        assert!(advice(404, "The model `x` does not exist").contains("/v1/models"));
        assert!(advice(404, "Not Found").contains("http://HOST:PORT/v1"));
    }
}
