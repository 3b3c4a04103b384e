//! The limit on open files: every request in flight needs a socket.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::error::LoadError;

/// Files a run has open beside its sockets: standard streams, result files, timers, the epoll
/// instance, the metrics connection, and some room.
pub const RESERVE: u64 = 64;

/// Makes room for `sockets` connections at once, and returns the limit that then holds.
///
/// The soft limit is raised to what is needed, up to the hard one, which needs no privilege. If
/// that is not enough the run is refused here, before anything is sent: a failure to open a socket
/// would otherwise look like the server's.
pub fn make_room(sockets: u64) -> Result<u64, LoadError> {
    let now = getrlimit(Resource::Nofile);
    let (soft, hard) = (
        now.current.unwrap_or(u64::MAX),
        now.maximum.unwrap_or(u64::MAX),
    );
    match settle(sockets, soft, hard) {
        Room::Enough => Ok(soft),
        Room::Raise(to) => {
            let limit = Rlimit {
                current: Some(to),
                maximum: now.maximum,
            };
            match setrlimit(Resource::Nofile, limit) {
                Ok(()) => Ok(to),
                Err(_) => Err(refusal(sockets, soft)),
            }
        }
        Room::Refuse => Err(refusal(sockets, hard)),
    }
}

/// How many sockets the process may have, once the soft limit is raised as far as it goes.
#[must_use]
pub fn sockets_possible() -> u64 {
    let hard = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    hard.saturating_sub(RESERVE)
}

fn refusal(sockets: u64, limit: u64) -> LoadError {
    LoadError::Descriptors {
        need: sockets.saturating_add(RESERVE),
        sockets,
        reserve: RESERVE,
        limit,
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Room {
    Enough,
    Raise(u64),
    Refuse,
}

fn settle(sockets: u64, soft: u64, hard: u64) -> Room {
    let need = sockets.saturating_add(RESERVE);
    if need <= soft {
        Room::Enough
    } else if need <= hard {
        Room::Raise(need)
    } else {
        Room::Refuse
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// O-CL-04: a limit of 256 files and 400 requests in flight.
    #[test]
    fn too_few_files_are_refused_with_need_and_limit() {
        assert_eq!(settle(400, 256, 256), Room::Refuse);
        assert_eq!(settle(400, 256, 1024), Room::Raise(464));
        assert_eq!(settle(100, 256, 256), Room::Enough);
        let said = refusal(400, 256).to_string();
        assert!(said.contains("464") && said.contains("256"), "{said}");
        assert!(
            !said.contains("server"),
            "never blamed on the server: {said}"
        );
    }

    #[test]
    fn what_no_system_grants_is_refused() {
        assert!(matches!(
            make_room(u64::MAX / 2),
            Err(LoadError::Descriptors { .. })
        ));
        assert!(make_room(1).is_ok());
    }
}
