//! Books of requests that are many and cheap: only what goodput and the main latencies need.

use std::time::Duration;

use goodput_record::{
    Answer, Arrival, Gaps, Outcome, Phase, RequestSummary, SeriesId, StepRun, Timestamp, Vantage,
};
use goodput_slo::{Slo, Verdict};

use crate::{
    bins::Bins,
    books::{ARRIVED, BUSY_NS, ENDED, GOOD_TOKENS, LEFT, Latency, MET, PointBooks, TOKENS},
};

/// Flights that are booked together.
const BATCH: usize = 4_096;

/// Whole bins that requests spent in flight, not yet booked: first bin, and the one behind the last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flights {
    spans: Vec<(u64, u64)>,
    /// Room for what [`Flights::settle`] works out.
    changes: Vec<i64>,
}

impl Flights {
    /// Notes one; returns whether it is time to settle.
    #[inline]
    fn push(&mut self, from: u64, to: u64) -> bool {
        if to > from {
            self.spans.push((from, to));
        }
        self.spans.len() >= BATCH
    }

    /// Tells of each bin how many flights cover it, and forgets them.
    fn settle(&mut self, mut book: impl FnMut(u64, u64)) {
        let Some(first) = self.spans.iter().map(|span| span.0).min() else {
            return;
        };
        let last = self.spans.iter().map(|span| span.1).max().unwrap_or(first);
        let place = |bin: u64| usize::try_from(bin - first).unwrap_or(usize::MAX);
        self.changes.clear();
        self.changes.resize(place(last) + 1, 0);
        for (from, to) in self.spans.drain(..) {
            self.changes[place(from)] += 1;
            self.changes[place(to)] -= 1;
        }
        let mut level = 0_i64;
        for (bin, change) in (first..).zip(&self.changes) {
            level += change;
            if level > 0 {
                book(bin, level.unsigned_abs());
            }
        }
    }
}

/// Where the engine's steps lie in time, and what requests got in them.
#[derive(Clone, Debug)]
struct Steps {
    /// The first bin of which it is known.
    first: u64,
    /// Steps that had ended when each bin began, from the first on.
    ended: Vec<u64>,
    /// Whole bins in which requests got a token a step: of all requests, and of those that met each SLO.
    covered: Vec<Flights>,
}

impl Steps {
    /// The place of the bin in which a step ended.
    fn place(&self, step: u64) -> usize {
        match self.ended.last() {
            // Most that is asked for is the newest.
            Some(&ended) if ended < step => self.ended.len() - 1,
            _ => self.ended.partition_point(|&ended| ended < step).max(1) - 1,
        }
    }

    /// Tells of the tokens of a run: of its first and its last bin as (bin, tokens); returns the bins
    /// between, which it covers.
    fn spread(&self, run: StepRun, mut book: impl FnMut(u64, u64)) -> (u64, u64) {
        let (from, to) = (self.place(run.first), self.place(run.last));
        let bin = |place: usize| self.first + place as u64;
        if from == to {
            book(bin(from), run.last + 1 - run.first);
            return (0, 0);
        }
        book(bin(from), self.ended[from + 1] + 1 - run.first);
        book(bin(to), run.last - self.ended[to]);
        (bin(from + 1), bin(to))
    }
}

/// What books that are kept in brief know beside their counters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Brief {
    flights: Flights,
    steps: Option<Steps>,
    /// The bin of the instant that was asked for last, and when it begins: the next one is mostly in it.
    recent: (u64, u64),
}

impl Brief {
    /// The number of the bin of an instant.
    #[inline]
    fn index<const N: usize>(&mut self, bins: &Bins<N>, at: Timestamp) -> u64 {
        let width = bins.width_ns();
        if at.nanos().wrapping_sub(self.recent.1) >= width {
            let index = bins.index(at);
            self.recent = (index, index * width);
        }
        self.recent.0
    }
}

impl PointBooks {
    /// Books for [`PointBooks::post_answer`] and [`PointBooks::post_brief`]. Nothing else is posted to
    /// them but arrivals.
    #[must_use]
    pub fn brief(slos: &[Slo], width: Duration) -> Self {
        Self::new(slos, width)
    }

    /// Posts a whole answer of which the first and the last token are known, and returns what the first
    /// SLO says of it.
    ///
    /// Verdicts, goodput, throughput, time in flight, outcomes, TTFT, TPOT, E2E and the longest gap are
    /// booked as [`PointBooks::post`] does. Not booked, and undefined in the row: lengths, what a
    /// client sees of itself, the checks of a server, and how far percentiles reach. All tokens count
    /// where the last one came. Call [`PointBooks::settle`] before anything is read.
    pub fn post_answer(&mut self, answer: &Answer, phase: Phase) -> Option<Verdict> {
        let measured = phase == Phase::Measured;
        let tokens = u64::from(answer.tokens);
        let from = self.bins.index(answer.origin);
        let to = self.brief.index(&self.bins, answer.last);
        self.post_life((from, answer.origin), (to, answer.last));
        self.bins.bin(to).0[TOKENS] += tokens;
        if measured {
            let tpot = answer.tpot_ns();
            self.counted.measured_answer(answer, tpot);
            self.spans.post_answer(answer, tpot);
        }
        let mut first = None;
        for books in &mut self.slos {
            let verdict = match &books.answers {
                Some(judge) => judge.judge(answer),
                None => books.judge(&summary_of(answer), &Gaps::NotKept),
            };
            match verdict {
                Verdict::Met => {
                    books.bins.bin(to).0[GOOD_TOKENS] += tokens;
                    books.bins.bin(from).0[MET] += u64::from(measured);
                }
                verdict if measured => books.post(answer.origin, verdict),
                _ => {}
            }
            first = first.or(Some(verdict));
        }
        first
    }

    /// Posts a request, whatever became of it, of which the first and the last token are known. Of whole
    /// answers [`PointBooks::post_answer`] says the same and takes less.
    pub fn post_brief(&mut self, summary: &RequestSummary, phase: Phase) -> Option<Verdict> {
        let measured = phase == Phase::Measured;
        let tokens = u64::from(summary.output_tokens());
        let from = self.bins.index(summary.origin());
        let to = self.brief.index(&self.bins, summary.ended());
        let last = summary.last_token().unwrap_or_else(|| summary.ended());
        let last = self.bins.index(last);
        self.post_life((from, summary.origin()), (to, summary.ended()));
        self.bins.bin(last).0[TOKENS] += tokens;
        if measured {
            self.counted.measured_brief(summary);
            if summary.outcome() == Outcome::Ok {
                self.spans.post_brief(summary.main_latencies_ns());
            } else {
                self.spans.post(summary);
            }
        }
        let cut = summary.outcome() == Outcome::Cancelled;
        let mut first = None;
        for books in &mut self.slos {
            let verdict = books.judge(summary, &Gaps::NotKept);
            match verdict {
                Verdict::Met => {
                    books.bins.bin(last).0[GOOD_TOKENS] += tokens;
                    books.bins.bin(from).0[MET] += u64::from(measured);
                }
                Verdict::Excused if cut => {}
                verdict if measured => books.post(summary.origin(), verdict),
                _ => {}
            }
            first = first.or(Some(verdict));
        }
        first
    }

    /// Books when a request came and went: bins and instants.
    #[inline]
    fn post_life(&mut self, (from, origin): (u64, Timestamp), (to, end): (u64, Timestamp)) {
        let width = self.bins.width_ns();
        self.counted.ended += 1;
        let bin = &mut self.bins.bin(from).0;
        bin[ENDED] += 1;
        bin[BUSY_NS] += end.nanos().min((from + 1) * width) - origin.nanos();
        let bin = &mut self.bins.bin(to).0;
        bin[LEFT] += 1;
        if from != to {
            bin[BUSY_NS] += end.nanos() - to * width;
            if self.brief.flights.push(from + 1, to) {
                self.settle();
            }
        }
    }

    /// Has the books told how many steps have ended whenever a bin begins, for
    /// [`PointBooks::post_in_steps`]. From `start` on, when so many had ended.
    pub fn count_steps(&mut self, start: Timestamp, ended: u64) {
        self.brief.steps = Some(Steps {
            first: self.bins.index(start),
            ended: vec![ended],
            covered: vec![Flights::default(); 1 + self.slos.len()],
        });
    }

    /// When the next bin begins; far in the future where nobody wants to know.
    #[must_use]
    pub fn next_bin(&self) -> Timestamp {
        let next = self.brief.steps.as_ref().map(|steps| {
            let bin = steps.first + steps.ended.len() as u64;
            Timestamp::from_nanos(bin * self.bins.width_ns())
        });
        next.unwrap_or(Timestamp::FAR_FUTURE)
    }

    /// The next bin begins. So many steps have ended before it.
    pub fn begin_bin(&mut self, ended: u64) {
        if let Some(steps) = &mut self.brief.steps {
            steps.ended.push(ended);
        }
    }

    /// Posts a request that has ended as [`PointBooks::post`] does, and returns its verdict by each SLO.
    /// In place of its gaps the steps are known in which it got its tokens, one at the end of each; they
    /// are booked in the bins in which these ended.
    ///
    /// Everything in the row but what is said of single gaps is as if every gap were known. The steps
    /// must be counted ([`PointBooks::count_steps`]). Call [`PointBooks::settle`] before anything is read.
    pub fn post_in_steps(
        &mut self,
        summary: &RequestSummary,
        runs: &[StepRun],
        phase: Phase,
    ) -> Vec<Verdict> {
        let of_slos = self.slos.iter();
        let verdicts: Vec<Verdict> = of_slos.map(|s| s.judge(summary, &Gaps::NotKept)).collect();
        let from = self.bins.index(summary.origin());
        let to = self.brief.index(&self.bins, summary.ended());
        self.post_life((from, summary.origin()), (to, summary.ended()));
        if let Some(mut steps) = self.brief.steps.take() {
            for &run in runs {
                self.post_run(&mut steps, run, &verdicts);
            }
            self.brief.steps = Some(steps);
        }
        self.post_figures(summary, phase, &verdicts);
        verdicts
    }

    fn post_run(&mut self, steps: &mut Steps, run: StepRun, verdicts: &[Verdict]) {
        let (bins, slos) = (&mut self.bins, &mut self.slos);
        let (from, to) = steps.spread(run, |bin, tokens| {
            bins.bin(bin).0[TOKENS] += tokens;
            for (books, verdict) in slos.iter_mut().zip(verdicts) {
                if *verdict == Verdict::Met {
                    books.bins.bin(bin).0[GOOD_TOKENS] += tokens;
                }
            }
        });
        let met = verdicts.iter().map(|verdict| *verdict == Verdict::Met);
        let mut full = false;
        for (covered, counts) in steps.covered.iter_mut().zip([true].into_iter().chain(met)) {
            full |= counts && covered.push(from, to);
        }
        if full {
            self.settle_steps(steps);
        }
    }

    /// Books the tokens of whole bins.
    fn settle_steps(&mut self, steps: &mut Steps) {
        let (first, ended) = (steps.first, &steps.ended);
        let of = |bin: u64| {
            let place = usize::try_from(bin - first).unwrap_or(usize::MAX);
            ended[place + 1] - ended[place]
        };
        let mut covered = steps.covered.iter_mut();
        if let Some(all) = covered.next() {
            let bins = &mut self.bins;
            all.settle(|bin, level| bins.bin(bin).0[TOKENS] += level * of(bin));
        }
        for (books, good) in self.slos.iter_mut().zip(covered) {
            good.settle(|bin, level| books.bins.bin(bin).0[GOOD_TOKENS] += level * of(bin));
        }
    }

    /// Posts an arrival of which only the instant is known yet.
    #[inline]
    pub fn arrived_at(&mut self, origin: Timestamp) {
        self.counted.arrived += 1;
        let index = self.brief.index(&self.bins, origin);
        self.bins.bin(index).0[ARRIVED] += 1;
    }

    /// Books what was put off.
    pub fn settle(&mut self) {
        let width = self.bins.width_ns();
        let bins = &mut self.bins;
        self.brief.flights.settle(|bin, level| {
            bins.bin(bin).0[BUSY_NS] += width * level;
        });
        if let Some(mut steps) = self.brief.steps.take() {
            self.settle_steps(&mut steps);
            self.brief.steps = Some(steps);
        }
    }
}

/// The record of an answer as far as an SLO looks at it.
fn summary_of(answer: &Answer) -> RequestSummary {
    answer.summary(Arrival {
        id: 0,
        origin: answer.origin,
        series: SeriesId::default(),
        vantage: Vantage::Engine,
        session: 0,
        step: 0,
        steps: 1,
        planned_input_tokens: answer.input_tokens,
        planned_cached_tokens: 0,
        planned_output_tokens: answer.tokens,
    })
}

/// The latencies that are kept, in the order of [`RequestSummary::main_latencies_ns`].
pub(crate) const BRIEF: [Latency; 4] = [Latency::Ttft, Latency::Tpot, Latency::Stall, Latency::E2e];
