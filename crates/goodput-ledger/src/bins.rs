//! Integer counters in bins of time.

use std::{ops::Range, time::Duration};

use goodput_record::{Gaps, RequestSummary, Timestamp, nanos};
use serde::{Deserialize, Serialize};

/// What one bin counts. Whole numbers only, so merging in any order gives the same books.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bin<const N: usize>(pub(crate) [u64; N]);

impl<const N: usize> Bin<N> {
    fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }
}

/// A series of bins of equal width over the run's time.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(into = "SavedBins", try_from = "SavedBins")]
pub(crate) struct Bins<const N: usize> {
    width_ns: u64,
    /// Runs of [`RUN`] bins each, by the number of their first one over [`RUN`].
    runs: Vec<(u64, Vec<Bin<N>>)>,
    /// The run that was asked for last, by its first bin and its place: what is posted next is most
    /// likely near.
    recent: (u64, usize),
}

/// Bins are kept in runs of so many.
const RUN: u64 = 256;
/// No run is recent: no bin is so far on.
const NOWHERE: (u64, usize) = (u64::MAX - RUN, 0);

/// Bins as a file holds them.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct SavedBins {
    width_ns: u64,
    /// The number of each bin that is not empty, and its columns.
    bins: Vec<(u64, Vec<u64>)>,
}

impl<const N: usize> From<Bins<N>> for SavedBins {
    fn from(of: Bins<N>) -> Self {
        Self {
            width_ns: of.width_ns,
            bins: of
                .used()
                .map(|(index, bin)| (index, bin.0.to_vec()))
                .collect(),
        }
    }
}

impl<const N: usize> TryFrom<SavedBins> for Bins<N> {
    type Error = &'static str;

    fn try_from(saved: SavedBins) -> Result<Self, Self::Error> {
        let mut bins = Self {
            width_ns: saved.width_ns,
            runs: Vec::new(),
            recent: NOWHERE,
        };
        for (index, columns) in saved.bins {
            let columns = columns.try_into();
            bins.bin(index).0 = columns.map_err(|_| "bins of other columns")?;
        }
        Ok(bins)
    }
}

impl<const N: usize> Bins<N> {
    /// The width of a bin in nanoseconds.
    pub(crate) const fn width_ns(&self) -> u64 {
        self.width_ns
    }

    pub(crate) fn new(width: Duration) -> Self {
        Self {
            width_ns: nanos(width).max(1),
            runs: Vec::new(),
            recent: NOWHERE,
        }
    }

    /// The bin that `at` falls into.
    pub(crate) fn at(&mut self, at: Timestamp) -> &mut [u64; N] {
        let index = self.index(at);
        &mut self.bin(index).0
    }

    /// The bin of a number.
    #[inline]
    pub(crate) fn bin(&mut self, index: u64) -> &mut Bin<N> {
        let mut place = index.wrapping_sub(self.recent.0);
        if place >= RUN {
            self.turn_to(index / RUN);
            place = index % RUN;
        }
        &mut self.runs[self.recent.1].1[usize::try_from(place).unwrap_or(0)]
    }

    /// Makes a run the recent one.
    fn turn_to(&mut self, run: u64) {
        let place = match self.runs.binary_search_by_key(&run, |r| r.0) {
            Ok(at) => at,
            Err(at) => {
                let bins = (0..RUN).map(|_| Bin([0; N])).collect();
                self.runs.insert(at, (run, bins));
                at
            }
        };
        self.recent = (run * RUN, place);
    }

    /// The bins in which something is, in order of time.
    fn used(&self) -> impl Iterator<Item = (u64, &Bin<N>)> {
        let bins = self
            .runs
            .iter()
            .flat_map(|(run, bins)| (run * RUN..).zip(bins));
        bins.filter(|(_, bin)| bin.0 != [0; N])
    }

    /// The number of the bin that `at` falls into.
    pub(crate) const fn index(&self, at: Timestamp) -> u64 {
        at.nanos() / self.width_ns
    }

    /// When the first bin begins of which `is_it` is true.
    pub(crate) fn first_where(&self, is_it: impl Fn(&[u64; N]) -> bool) -> Option<Timestamp> {
        let found = self.used().find(|(_, bin)| is_it(&bin.0));
        found.map(|(index, _)| Timestamp::from_nanos(index * self.width_ns))
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        debug_assert_eq!(
            self.width_ns, other.width_ns,
            "books of one run share a width"
        );
        for (index, bin) in other.used() {
            self.bin(index).add(bin);
        }
    }

    /// The whole bins inside `window`, as (bin indices, their common span in seconds).
    ///
    /// A window under two bins may hold no whole one. It is then all there was, a handful of
    /// requests from the first send to the last byte: every bin it touches, over its own length.
    pub(crate) fn whole_bins(&self, window: &Range<Timestamp>) -> (Range<u64>, f64) {
        let (from, to) = (window.start.nanos(), window.end.nanos());
        let length = to.saturating_sub(from);
        if length > 0 && length < 2 * self.width_ns {
            let touched = from / self.width_ns..to.div_ceil(self.width_ns);
            return (touched, length as f64 / 1e9);
        }
        let first = window.start.nanos().div_ceil(self.width_ns);
        let last = window.end.nanos() / self.width_ns;
        let bins = first..last.max(first);
        let seconds = (bins.end - bins.start) as f64 * self.width_ns as f64 / 1e9;
        (bins, seconds)
    }

    /// The sum of the given bins.
    pub(crate) fn sum(&self, bins: Range<u64>) -> [u64; N] {
        let mut total = Bin([0; N]);
        let from = self.runs.partition_point(|run| run.0 < bins.start / RUN);
        for (run, of_run) in &self.runs[from..] {
            let first = run * RUN;
            if first >= bins.end {
                break;
            }
            let place =
                |index: u64| usize::try_from(index.saturating_sub(first).min(RUN)).unwrap_or(0);
            for bin in &of_run[place(bins.start)..place(bins.end)] {
                total.add(bin);
            }
        }
        total.0
    }

    /// The given bins gathered into at most `most` groups of equal span; a group without traffic
    /// is a group of zeros. What is left over at the end is dropped.
    pub(crate) fn groups(&self, bins: Range<u64>, most: u64) -> (Vec<[u64; N]>, f64) {
        let per_group = (bins.end - bins.start).div_ceil(most.max(1)).max(1);
        let count = (bins.end - bins.start) / per_group;
        let groups = (0..count)
            .map(|g| {
                let from = bins.start + g * per_group;
                self.sum(from..from + per_group)
            })
            .collect();
        (groups, per_group as f64 * self.width_ns as f64 / 1e9)
    }
}

/// Spreads a request's output over its token events and calls `post(instant, tokens, characters,
/// words)` once an event.
///
/// Where a running `usage` told the tokens of an event they are taken; else each event carries an
/// equal share. Shares are whole numbers whose sum is exactly the total.
pub(crate) fn spread(
    summary: &RequestSummary,
    gaps: &Gaps,
    mut post: impl FnMut(Timestamp, u64, u64, u64),
) {
    let end = summary.end();
    let totals = [summary.output_tokens(), end.characters, end.words].map(u64::from);
    let Some(first) = summary.first_token() else {
        // An answer that was not streamed arrives whole.
        if totals[0] > 0 {
            post(summary.ended(), totals[0], totals[1], totals[2]);
        }
        return;
    };
    let Some(buffer) = gaps.kept() else {
        let last = summary.last_token().unwrap_or(first);
        post(last, totals[0], totals[1], totals[2]);
        return;
    };
    let events = buffer.len() as u64 + 1;
    let told: u64 = buffer.tokens().iter().map(|&t| u64::from(t)).sum();
    let all_told = buffer.tokens().len() == buffer.len()
        && buffer.tokens().iter().all(|&t| t > 0)
        && told < totals[0];
    let mut before = [0; 3];
    let mut later = told;
    for (i, at) in (0_u64..).zip(buffer.instants(first)) {
        let mut upto = totals.map(|total| total * (i + 1) / events);
        if all_told {
            // The gap before an event tells its tokens; the first event has what is left.
            let gap = usize::try_from(i).ok().and_then(|i| i.checked_sub(1));
            let own = gap.and_then(|gap| buffer.tokens().get(gap));
            later -= own.map_or(0, |&tokens| u64::from(tokens));
            upto[0] = totals[0] - later;
        }
        post(
            at,
            upto[0] - before[0],
            upto[1] - before[1],
            upto[2] - before[2],
        );
        before = upto;
    }
}
