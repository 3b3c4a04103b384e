//! How long a point lasts, and what a run costs in time.

use std::time::Duration;

/// The shortest window of a point on a real server.
const SHORTEST: Duration = Duration::from_mins(1);
/// The shortest window on the emulated replica, which has no warm-up effects to outlast.
const SHORTEST_EMULATED: Duration = Duration::from_secs(8);
/// A window lasts this many times the p95 of E2E, so that most of what is measured begins and ends
/// inside it.
const E2E_WINDOWS: u32 = 5;
/// The longest window that is chosen without being asked for.
const LONGEST: Duration = Duration::from_mins(15);

/// What the windows of one search may last together: a quarter of eight points of three minutes.
const BUDGET: Duration = Duration::from_mins(6);
/// The same on the emulated replica, for a first look: of the closed loop, and of the open loop, where a
/// proof of 99 % takes most of it. Together with what lies between they stay under three minutes.
const BUDGETS_EMULATED: [Duration; 2] = [Duration::from_secs(32), Duration::from_secs(105)];
/// The shortest window of a search.
const SHORTEST_LOOK: Duration = Duration::from_secs(8);
/// The same on the emulated replica.
const SHORTEST_LOOK_EMULATED: Duration = Duration::from_secs(3);

/// The same in virtual time.
const SHORTEST_LOOK_SIMULATED: Duration = Duration::from_secs(30);

/// What the windows of one search may last together in virtual time, which costs next to nothing: of
/// the closed loop, and of the open one, where a proof of 99 % takes most of it.
const BUDGETS_SIMULATED: [Duration; 2] = [Duration::from_mins(20), Duration::from_hours(1)];

/// What is measured, as far as the length of points depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerKind {
    /// A server at a URL.
    Real,
    /// The emulated replica: in real time, for a first look.
    Emulated,
    /// A replica in virtual time.
    Simulated,
}

impl ServerKind {
    /// Used for E2E before anything is known.
    pub(crate) const fn e2e_guess(self) -> Duration {
        match self {
            Self::Real | Self::Simulated => Duration::from_secs(3),
            Self::Emulated => Duration::from_secs(1),
        }
    }
}

/// What decides the length of points.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lengths {
    /// As asked for with `--duration`.
    pub(crate) asked: Option<Duration>,
    /// What is measured.
    pub(crate) server: ServerKind,
}

impl Lengths {
    /// Whether the length of points was asked for.
    pub(crate) const fn is_asked(self) -> bool {
        self.asked.is_some()
    }

    /// What the windows of the closed-loop search and of an open-loop one may last together.
    pub(crate) const fn budgets(self) -> [Duration; 2] {
        match self.server {
            ServerKind::Real => [BUDGET; 2],
            ServerKind::Emulated => BUDGETS_EMULATED,
            ServerKind::Simulated => BUDGETS_SIMULATED,
        }
    }

    /// The shortest window of a search.
    pub(crate) const fn shortest_look(self) -> Duration {
        match self.server {
            ServerKind::Real => SHORTEST_LOOK,
            ServerKind::Emulated => SHORTEST_LOOK_EMULATED,
            ServerKind::Simulated => SHORTEST_LOOK_SIMULATED,
        }
    }

    /// The window of a closed-loop point where requests are expected to take `e2e_p95`.
    pub(crate) fn closed(self, e2e_p95: Duration) -> Duration {
        let shortest = match self.server {
            ServerKind::Real | ServerKind::Simulated => SHORTEST,
            ServerKind::Emulated => SHORTEST_EMULATED,
        };
        self.asked
            .unwrap_or_else(|| shortest.max(e2e_p95 * E2E_WINDOWS).min(LONGEST))
    }

    /// The window of an open-loop point: long enough that a clean run can prove `objective`.
    pub(crate) fn open(self, e2e_p95: Duration, rate: f64, objective: f64) -> Duration {
        let needed = requests_to_prove(objective) / rate.max(1e-6);
        let needed = Duration::from_secs_f64(needed.min(LONGEST.as_secs_f64()));
        self.asked
            .unwrap_or_else(|| self.closed(e2e_p95).max(needed).min(LONGEST))
    }
}

/// Requests after which the lower end of a 95 % Wilson interval can reach `objective` although one
/// in three hundred missed: 1.5 times what a run without any miss needs, `z^2 p / (1 - p)`.
fn requests_to_prove(objective: f64) -> f64 {
    const Z_SQUARED: f64 = 3.84;
    1.5 * Z_SQUARED * objective / (1.0 - objective).max(1e-4)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMULATED: Lengths = Lengths {
        asked: None,
        server: ServerKind::Emulated,
    };
    const REAL: Lengths = Lengths {
        asked: None,
        server: ServerKind::Real,
    };

    #[test]
    fn a_real_server_is_measured_for_a_minute_or_five_answers() {
        assert_eq!(REAL.closed(Duration::from_secs(3)), Duration::from_mins(1));
        assert_eq!(
            REAL.closed(Duration::from_secs(40)),
            Duration::from_secs(200)
        );
        assert_eq!(
            EMULATED.closed(Duration::from_secs(1)),
            Duration::from_secs(8)
        );
    }

    #[test]
    fn a_clean_open_loop_point_can_prove_its_objective() {
        let span = REAL.open(Duration::from_secs(3), 5.0, 0.99);
        let requests = span.as_secs() * 5;
        let interval = goodput_stats::wilson(requests - 1, requests, 0.95).unwrap();
        assert!(
            interval.low >= 0.99,
            "{requests} requests prove {interval:?}"
        );
    }

    #[test]
    fn what_is_asked_for_is_done() {
        let asked = Lengths {
            asked: Some(Duration::from_secs(5)),
            ..REAL
        };
        assert_eq!(
            asked.closed(Duration::from_secs(40)),
            Duration::from_secs(5)
        );
        assert_eq!(
            asked.open(Duration::from_secs(40), 1.0, 0.99),
            Duration::from_secs(5)
        );
    }
}
