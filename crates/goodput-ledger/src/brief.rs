//! Books of requests that are many and cheap: only what goodput and the main latencies need.

use std::time::Duration;

use goodput_record::{Gaps, Outcome, Phase, RequestSummary, Timestamp};
use goodput_slo::{Slo, Verdict};

use crate::books::{BUSY_NS, ENDED, GOOD_TOKENS, LEFT, Latency, MET, PointBooks, TOKENS};

/// Flights that are booked together.
const BATCH: usize = 4_096;

/// Whole bins that requests spent in flight, not yet booked: first bin, and the one behind the last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flights(Vec<(u64, u64)>);

impl PointBooks {
    /// Books for [`PointBooks::post_brief`]. Nothing else is posted to them but arrivals.
    #[must_use]
    pub fn brief(slos: &[Slo], width: Duration) -> Self {
        Self::new(slos, width)
    }

    /// Posts a request that was answered whole or refused, of which the first and the last token are
    /// known and no gap between them.
    ///
    /// Verdicts, goodput, throughput, time in flight, outcomes, TTFT, TPOT, E2E and the longest gap are
    /// booked as [`PointBooks::post`] does. Not booked, and undefined in the row: lengths, what a
    /// client sees of itself, the checks of a server, and how far percentiles reach. All tokens count
    /// where the last one came. Call [`PointBooks::settle`] before anything is read.
    pub fn post_brief(&mut self, summary: &RequestSummary, phase: Phase) {
        let (from, to) = (
            self.bins.index(summary.origin()),
            self.bins.index(summary.ended()),
        );
        let measured = phase == Phase::Measured;
        let tokens = u64::from(summary.output_tokens());
        let last = match summary.last_token() {
            Some(last) if last != summary.ended() => self.bins.index(last),
            _ => to,
        };
        self.counted.ended += 1;
        self.bins.bin(from).0[ENDED] += 1;
        self.bins.bin(last).0[TOKENS] += tokens;
        self.bins.bin(to).0[LEFT] += 1;
        self.fly(summary, (from, to));
        if measured {
            let latencies = summary.main_latencies_ns();
            self.counted.measured_brief(summary, latencies[1]);
            if summary.outcome() == Outcome::Ok {
                self.spans.post_brief(latencies);
            } else {
                self.spans.post(summary);
            }
        }
        let cut = summary.outcome() == Outcome::Cancelled;
        for books in &mut self.slos {
            match books.judge(summary, &Gaps::NotKept) {
                Verdict::Met => {
                    books.bins.bin(last).0[GOOD_TOKENS] += tokens;
                    books.bins.bin(from).0[MET] += u64::from(measured);
                }
                Verdict::Excused if cut => {}
                verdict if measured => books.post(summary, verdict),
                _ => {}
            }
        }
    }

    /// Notes the time a request was in flight, from one bin to another; the bins it filled are booked
    /// with those of others.
    fn fly(&mut self, summary: &RequestSummary, (from, to): (u64, u64)) {
        let width = self.bins.width_ns();
        let (origin, end) = (summary.origin().nanos(), summary.ended().nanos());
        if from == to {
            self.bins.bin(from).0[BUSY_NS] += end - origin;
            return;
        }
        self.bins.bin(from).0[BUSY_NS] += (from + 1) * width - origin;
        self.bins.bin(to).0[BUSY_NS] += end - to * width;
        if to > from + 1 {
            self.flights.0.push((from + 1, to));
            if self.flights.0.len() >= BATCH {
                self.settle();
            }
        }
    }

    /// Books what [`PointBooks::post_brief`] has put off.
    pub fn settle(&mut self) {
        let flights = std::mem::take(&mut self.flights.0);
        let Some(first) = flights.iter().map(|flight| flight.0).min() else {
            return;
        };
        let last = flights.iter().map(|flight| flight.1).max().unwrap_or(first);
        let place = |bin: u64| usize::try_from(bin - first).unwrap_or(usize::MAX);
        let mut changes = vec![0_i64; place(last) + 1];
        for &(from, to) in &flights {
            changes[place(from)] += 1;
            changes[place(to)] -= 1;
        }
        let width = self.bins.width_ns();
        let mut level = 0_i64;
        for (bin, change) in (first..).zip(changes) {
            level += change;
            if level > 0 {
                let at = Timestamp::from_nanos(bin * width);
                self.bins.at(at)[BUSY_NS] += width * level.unsigned_abs();
            }
        }
        self.flights.0 = flights;
        self.flights.0.clear();
    }
}

/// The latencies that are kept, in the order of [`RequestSummary::main_latencies_ns`].
pub(crate) const BRIEF: [Latency; 4] = [Latency::Ttft, Latency::Tpot, Latency::Stall, Latency::E2e];
