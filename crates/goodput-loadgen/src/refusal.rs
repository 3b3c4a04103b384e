//! What a failed request means and what to do, in one sentence.

use std::io;

use rustix::io::Errno;

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

/// Whether a socket could not be had on this machine: nothing the server did.
pub(crate) fn is_ours(error: &io::Error) -> bool {
    let ours = [
        Errno::MFILE,
        Errno::NFILE,
        Errno::NOBUFS,
        Errno::NOMEM,
        Errno::ADDRNOTAVAIL,
    ];
    let code = error.raw_os_error();
    ours.iter().any(|errno| code == Some(errno.raw_os_error()))
}

/// Why there is no connection to `authority`.
pub(crate) fn no_connection(authority: &str, error: &io::Error) -> String {
    let advice = match error.kind() {
        io::ErrorKind::ConnectionRefused => ": is the server up, and is this its port?",
        io::ErrorKind::InvalidData => certificate_advice(&error.to_string()),
        _ if is_ours(error) => ": a limit of this machine, not the server's doing",
        _ => "",
    };
    format!("no connection to {authority}: {error}{advice}")
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
        assert!(is_ours(&error));
        assert!(no_connection("h:1", &error).contains("not the server's doing"));
        let refused = io::Error::from_raw_os_error(Errno::CONNREFUSED.raw_os_error());
        assert!(!is_ours(&refused));
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
    fn a_missing_model_and_a_wrong_path_get_different_advice() {
        assert!(advice(404, "The model `x` does not exist").contains("/v1/models"));
        assert!(advice(404, "Not Found").contains("http://HOST:PORT/v1"));
    }
}
