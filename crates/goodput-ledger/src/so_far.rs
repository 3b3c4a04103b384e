//! What the books say of a point that is still running.

use goodput_record::Timestamp;
use goodput_stats::{
    Estimate, Interval, Watched, attainment_interval, ratio_estimate, steady_mean,
};

use crate::books::{ARRIVED, BUSY_NS, ENDED, GOOD_TOKENS, LEFT, MET, MISSED, PointBooks, TOKENS};

/// Groups into which the settled part is cut, at most.
const GROUPS: u64 = 30;

/// An equal share of the time that is settled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Measured requests that came in it and met the first SLO.
    pub met: u64,
    /// Measured requests that came in it and missed it.
    pub missed: u64,
    /// Tokens received in it, of requests that met it.
    pub good_tokens: u64,
    /// Tokens received in it.
    pub tokens: u64,
    /// Requests that came in it.
    pub arrived: u64,
}

/// A point while it runs, as far as can be known.
///
/// A request is judged when it ends, so the last stretch of time is not yet whole: a look at it
/// would see the quick requests only. What is *settled* is the time before the origin of the oldest
/// request still open; `groups` cover that and nothing else. The counts beside them cover the whole
/// window and say what is still open, for bounds that hold whatever becomes of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PointSoFar {
    /// Seconds since the window opened.
    pub open_s: f64,
    /// Of these, the seconds from its opening that are settled.
    pub settled_s: f64,
    /// Seconds of one group.
    pub group_s: f64,
    /// Seconds that a request lasts, on average, of those that have ended well.
    pub request_s: f64,
    /// Requests in flight over the settled part, on average.
    pub in_flight_mean: f64,
    /// The settled part in order of time.
    pub groups: Vec<Group>,
    /// Requests of the window that have met the first SLO, settled or not.
    pub met: u64,
    /// Requests of the window that have missed it, settled or not.
    pub missed: u64,
    /// Requests in flight, whenever they came.
    pub in_flight: u64,
    /// Requests in flight when the window opened.
    pub in_flight_at_start: u64,
}

impl PointBooks {
    /// What is known at `now` of a point whose window opened at `opened`.
    #[must_use]
    pub fn so_far(&self, opened: Timestamp, now: Timestamp) -> PointSoFar {
        let upto = self.settled_until(now);
        let (whole, _) = self.bins.whole_bins(&(opened..upto.max(opened)));
        let busy_s = self.bins.sum(whole.clone())[BUSY_NS] as f64 / 1e9;
        let (all, group_s) = self.bins.groups(whole.clone(), GROUPS);
        let first = self.slos.first();
        let judged = first.map(|slo| slo.bins.groups(whole, GROUPS).0);
        let groups = all.iter().enumerate().map(|(index, all)| {
            let judged = judged.as_ref().and_then(|groups| groups.get(index));
            let of = |column: usize| judged.map_or(0, |group| group[column]);
            Group {
                met: of(MET),
                missed: of(MISSED),
                good_tokens: of(GOOD_TOKENS),
                tokens: all[TOKENS],
                arrived: all[ARRIVED],
            }
        });
        let window = first.map_or([0; 6], |slo| slo.bins.sum(0..u64::MAX));
        let seconds = |from: Timestamp, to: Timestamp| to.seconds() - from.seconds();
        let settled_s = seconds(opened, upto.max(opened));
        PointSoFar {
            open_s: seconds(opened, now.max(opened)),
            settled_s,
            group_s,
            request_s: self.request_s(),
            in_flight_mean: busy_s / settled_s.max(f64::MIN_POSITIVE),
            groups: groups.collect(),
            met: window[MET],
            missed: window[MISSED],
            in_flight: self.open(),
            in_flight_at_start: self.in_flight_at(opened),
        }
    }

    /// Requests in flight when the bin of `at` began.
    pub(crate) fn in_flight_at(&self, at: Timestamp) -> u64 {
        let before = self.bins.sum(0..self.bins.index(at));
        before[ARRIVED].saturating_sub(before[LEFT])
    }

    /// Before this instant every request that came has ended, so nothing there can change.
    fn settled_until(&self, now: Timestamp) -> Timestamp {
        let open = self.bins.first_where(|bin| bin[ARRIVED] > bin[ENDED]);
        open.map_or(now, |at| at.min(now))
    }
}

impl PointSoFar {
    /// Good tokens a second over the settled part. `None` below three groups.
    #[must_use]
    pub fn goodput(&self) -> Option<Estimate> {
        self.rate(|group| group.good_tokens)
    }

    /// Tokens a second over the settled part. `None` below three groups.
    #[must_use]
    pub fn throughput(&self) -> Option<Estimate> {
        self.rate(|group| group.tokens)
    }

    fn rate(&self, of: impl Fn(&Group) -> u64) -> Option<Estimate> {
        let rates = self
            .groups
            .iter()
            .map(|group| of(group) as f64 / self.group_s);
        steady_mean(&rates.collect::<Vec<_>>(), self.memory())
    }

    /// The share of requests that met the first SLO over the settled part. `None` below three
    /// groups, or if no request came.
    #[must_use]
    pub fn attainment(&self) -> Option<Estimate> {
        let bins = self
            .groups
            .iter()
            .map(|g| (g.met as f64, (g.met + g.missed) as f64));
        ratio_estimate(&bins.collect::<Vec<_>>(), self.memory())
    }

    /// Groups that a request lasts.
    fn memory(&self) -> f64 {
        if self.group_s > 0.0 {
            self.request_s / self.group_s
        } else {
            0.0
        }
    }

    /// The interval of the attainment over the settled part, as the row of an open-loop point will
    /// have it.
    #[must_use]
    pub fn attainment_interval(&self, confidence: f64) -> Option<Interval> {
        let watched = Watched {
            memory: self.memory(),
            together: self.in_flight_mean,
        };
        let bins = self.groups.iter().map(|g| (g.met, g.met + g.missed));
        let bins: Vec<(u64, u64)> = bins.filter(|bin| bin.1 > 0).collect();
        attainment_interval(&bins, watched, confidence)
    }
}
