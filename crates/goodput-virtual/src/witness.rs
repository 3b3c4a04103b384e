//! Who hears of what happens at a load point, beside its books.

use std::time::Duration;

use goodput_record::{EngineSample, Phase, RequestRecord, SeriesId};
use goodput_slo::Verdict;
use goodput_workload::PlannedRequest;

/// What the replica's own counters say at one instant, with what is counted in front of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampled {
    /// The replica's counters.
    pub sample: EngineSample,
    /// Tokens answered since the replica was made.
    pub output_tokens: u64,
    /// Requests in flight.
    pub in_flight: u32,
    /// Requests ended since the point began, however they ended.
    pub ended: u64,
}

/// Hears of a point's requests and of the replica's counters. [`()`](unit) hears nothing and costs
/// nothing.
pub trait Witness {
    /// Whether it hears anything at all.
    const HEARS: bool = true;

    /// Whom a request belongs to, in the witness's own numbers.
    fn series(&self, planned: &PlannedRequest) -> SeriesId {
        let _ = planned;
        SeriesId::default()
    }

    /// A request has ended and is in the books, which gave it these verdicts, in the order of the
    /// setting's SLOs.
    fn ended(&self, record: &RequestRecord, phase: Phase, verdicts: &[Verdict]) {
        let _ = (record, phase, verdicts);
    }

    /// Whether a record must say whom its request belongs to and hold its gaps. If not, a point may be
    /// told in brief.
    fn needs_whole_records(&self) -> bool {
        Self::HEARS
    }

    /// How often the replica's counters are read, besides once before and once after the point.
    /// `None`: never, not even then.
    fn sample_every(&self) -> Option<Duration> {
        None
    }

    /// The replica's counters. All that happens at or before the sample's instant has happened.
    fn sampled(&self, sampled: &Sampled) {
        let _ = sampled;
    }

    /// Whether the point is to end before its time. Asked once a look.
    fn stops(&self) -> bool {
        false
    }
}

impl Witness for () {
    const HEARS: bool = false;
}
