//! A server that is gone for a while costs a point, not the run.

use goodput_ledger::PointRow;
use goodput_loadgen::{Invalid, PointReport};
use goodput_workload::Load;

use super::{live::minutes, remarks::load_words, run::Run, source::Source};
use crate::exit::Failure;

/// What is to be done after a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// Whatever comes next.
    GoOn,
    /// The same load again: the server was away.
    Again,
    /// Another load, if any: the server fails this one, or is gone.
    GiveUp,
}

/// A point that says nothing of its load, since the server failed it.
#[derive(Clone, Debug)]
pub(crate) struct Failed {
    /// In words, with the load.
    pub(crate) why: String,
    /// Whether it was given up before its end.
    pub(crate) given_up: bool,
}

/// What a run keeps of the points that its server failed.
#[derive(Debug, Default)]
pub(crate) struct Outages {
    /// The last point, if it is one.
    pub(crate) failed: Option<Failed>,
    /// How many points in a row are.
    in_a_row: u32,
    /// Whether the server is gone for good.
    pub(crate) gone: bool,
    /// Why a load could not be measured.
    given_up: Option<String>,
}

impl Outages {
    /// Why the run did not measure all that it was to measure, if it did not.
    pub(crate) fn incomplete_because(&self) -> Option<String> {
        self.given_up.clone().or_else(|| {
            let last = self.failed.as_ref().filter(|failed| failed.given_up);
            last.map(|failed| failed.why.clone())
        })
    }
}

/// Whether a point is one of these.
pub(super) fn failed(report: &PointReport, load: Load) -> Option<Failed> {
    let of_the_server = |why: &&Invalid| is_the_servers(why);
    let why = report.invalid.iter().find(of_the_server)?;
    Some(Failed {
        why: format!("at {}: {why}", load_words(load)),
        given_up: matches!(why, Invalid::Failing { .. }),
    })
}

/// Whether a point is not valid because its server was away or failed every request.
pub(super) const fn is_the_servers(why: &Invalid) -> bool {
    matches!(why, Invalid::Failing { .. } | Invalid::Away { .. })
}

impl Run {
    /// Measures a load, and once more if the server was away.
    pub(crate) async fn sure_point(
        &mut self,
        load: Load,
        points_left: usize,
    ) -> Result<Option<&PointRow>, Failure> {
        loop {
            self.point(load, points_left).await?;
            if self.after_point().await != Then::Again {
                return Ok(self.points.last());
            }
        }
    }

    /// Whether the server failed the last point throughout, and what comes next. Waits for a server
    /// that is away.
    pub(crate) async fn after_point(&mut self) -> Then {
        let Some(failed) = self.outages.failed.take().filter(|_| !self.stopped()) else {
            self.outages.in_a_row = 0;
            return Then::GoOn;
        };
        let Failed { why, given_up } = failed;
        self.outages.in_a_row += 1;
        let network = match &self.source {
            // The shares of a run keep a timetable: none of them waits.
            Source::Network(network) if network.share.is_none() => Some(network),
            _ => None,
        };
        let Some(network) = network.filter(|_| self.outages.in_a_row < 2) else {
            let again = self.outages.in_a_row > 1;
            self.outages.in_a_row = 0;
            if !given_up {
                return Then::GoOn;
            }
            let twice = if again {
                "; so it was when it was measured again"
            } else {
                ""
            };
            self.outages.given_up = Some(why + twice);
            return Then::GiveUp;
        };
        let (back, away) = network.is_back(&self.stop).await;
        let patience = network.patience();
        if self.stopped() {
            self.outages.given_up = Some(why);
            return Then::GiveUp;
        }
        if back {
            self.live.say(&format!(
                "the server answers{}: the point is measured again",
                away.map_or_else(String::new, |away| {
                    format!(" again after {}", minutes(away))
                })
            ));
            return Then::Again;
        }
        self.outages.gone = true;
        self.outages.given_up = Some(format!(
            "{why}; the server did not come back within {} (--timeout-connect)",
            minutes(patience)
        ));
        Then::GiveUp
    }
}
