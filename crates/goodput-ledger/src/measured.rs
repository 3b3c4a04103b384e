//! The measured requests of one point, kept apart so that two points can be laid side by side.
//!
//! A comparison needs what the sums of the books have lost: which request of one run is which of
//! the other. Figures still come from [`crate::PointRow`]; from here come how far one may be off,
//! and how much of what moves it moved the other one too.

use std::collections::BTreeMap;

use goodput_record::{Outcome, Phase, RequestRow, SeriesId, VerdictWord};
use goodput_stats::{
    Bounded, CONFIDENCE, Interval, Watched, attainment_interval, paired_correlation, quantile,
    quantile_interval, ratio_interval,
};

use crate::books::Latency;

/// Blocks that a point's requests are cut into, in order of time: as many as the groups of bins
/// behind the other intervals.
const BLOCKS: usize = 30;

/// Pairs below this share of common requests with equal plans are no pairs: two workloads only look
/// alike.
const SAME_PLAN_SHARE: f64 = 0.99;

/// The latencies that are kept of each request.
const LATENCIES: [Latency; 6] = [
    Latency::Ttft,
    Latency::TtftAnswer,
    Latency::Tpot,
    Latency::TpotMedian,
    Latency::Stall,
    Latency::E2e,
];

/// A figure that can be taken of any set of requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sampled {
    /// An amount a second.
    Rate(Amount),
    /// The share of judged requests that met the first SLO.
    Attainment,
    /// A quantile (0 to 1) of a latency over the requests that ended well.
    Quantile(Latency, f64),
}

/// What a rate counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// Requests that ended well.
    Completed,
    /// Requests that met the first SLO.
    Met,
    /// Output tokens.
    Tokens,
    /// Output tokens of requests that met the first SLO.
    GoodTokens,
    /// Characters.
    Characters,
    /// Characters of requests that met the first SLO.
    GoodCharacters,
}

/// One measured request, as far as a comparison looks at it.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredRequest {
    session: u32,
    step: u16,
    /// Input, reusable input and output tokens, as planned.
    planned: [u32; 3],
    origin_ns: u64,
    ok: bool,
    /// In ms, in the order of [`LATENCIES`]; only what enters the percentiles of a point.
    latencies_ms: [Option<f64>; LATENCIES.len()],
    tokens: u32,
    characters: u32,
    /// By the first SLO; `None` if it was excused.
    met: Option<bool>,
}

impl MeasuredRequest {
    /// From its line in `requests.jsonl`, judged as it was then by the SLO of this name. `None`
    /// unless it was measured.
    #[must_use]
    pub fn of(row: &RequestRow, slo: &str) -> Option<Self> {
        if row.phase != Phase::Measured {
            return None;
        }
        let summary = row.to_record(SeriesId::default()).summary;
        let ms = |latency: Latency| {
            let enters = latency.enters_percentiles(summary.outcome());
            latency
                .of(&summary)
                .filter(|_| enters)
                .map(|ns| ns as f64 / 1e6)
        };
        Some(Self {
            session: row.session,
            step: row.step,
            planned: [
                row.planned_input_tokens,
                row.planned_cached_tokens,
                row.planned_output_tokens,
            ],
            origin_ns: row.origin_ns,
            ok: summary.outcome() == Outcome::Ok,
            latencies_ms: LATENCIES.map(ms),
            tokens: row.output_tokens.unwrap_or(0),
            characters: row.characters,
            met: match row.verdicts.get(slo)? {
                VerdictWord::Met => Some(true),
                VerdictWord::Missed => Some(false),
                VerdictWord::Excused => None,
            },
        })
    }

    fn latency(&self, latency: Latency) -> Option<f64> {
        let at = LATENCIES.iter().position(|l| *l == latency)?;
        self.latencies_ms[at]
    }

    fn amount(&self, amount: Amount) -> u32 {
        let met = self.met == Some(true);
        let if_met = |n| if met { n } else { 0 };
        match amount {
            Amount::Completed => u32::from(self.ok),
            Amount::Met => u32::from(met),
            Amount::Tokens => self.tokens,
            Amount::GoodTokens => if_met(self.tokens),
            Amount::Characters => self.characters,
            Amount::GoodCharacters => if_met(self.characters),
        }
    }
}

/// The measured requests of one point, in order of origin.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeasuredPoint(Vec<MeasuredRequest>);

impl FromIterator<MeasuredRequest> for MeasuredPoint {
    fn from_iter<I: IntoIterator<Item = MeasuredRequest>>(requests: I) -> Self {
        let mut requests: Vec<MeasuredRequest> = requests.into_iter().collect();
        requests.sort_by_key(|r| (r.origin_ns, r.session, r.step));
        Self(requests)
    }
}

impl MeasuredPoint {
    /// How many requests.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.0.len() as u64
    }

    /// How many requests stand behind a figure: those that have the latency, or all.
    #[must_use]
    pub fn samples(&self, figure: Sampled) -> u64 {
        match figure {
            Sampled::Quantile(latency, _) => self.sorted(latency).len() as u64,
            Sampled::Rate(_) | Sampled::Attainment => self.requests(),
        }
    }

    /// The figure over these requests with its 95 % interval, which allows for requests that are
    /// slow together. Rates count by origin here, so that they differ a little from the point's own.
    /// `None` where there are too few requests for an interval.
    #[must_use]
    pub fn bounded(&self, figure: Sampled) -> Option<Bounded> {
        let blocks = self.blocks(figure)?;
        let counts = || {
            blocks
                .iter()
                .map(|b| (whole(b.0), whole(b.1)))
                .collect::<Vec<_>>()
        };
        let (above, below) = blocks
            .iter()
            .fold((0.0, 0.0), |sum, b| (sum.0 + b.0, sum.1 + b.1));
        let (value, interval): (f64, Interval) = match figure {
            Sampled::Rate(_) => (above / below, ratio_interval(&blocks, 0.0, CONFIDENCE)?),
            Sampled::Attainment => (
                above / below,
                attainment_interval(&counts(), Watched::default(), CONFIDENCE)?,
            ),
            Sampled::Quantile(latency, q) => {
                let sorted = self.sorted(latency);
                let value = quantile(&sorted, q)?;
                (value, quantile_interval(&sorted, &counts(), q, CONFIDENCE)?)
            }
        };
        Some(Bounded { value, interval })
    }

    fn sorted(&self, latency: Latency) -> Vec<f64> {
        let mut values: Vec<f64> = self.0.iter().filter_map(|r| r.latency(latency)).collect();
        values.sort_by(f64::total_cmp);
        values
    }

    /// What each block adds to a figure, as (numerator, denominator): amounts and seconds, requests
    /// met and judged, requests at or below the quantile and requests that have it.
    ///
    /// `None` where a block lasts no time, as those of another order of requests may.
    fn blocks(&self, figure: Sampled) -> Option<Vec<(f64, f64)>> {
        let each = self.0.len().div_ceil(BLOCKS).max(1);
        let blocks: Vec<&[MeasuredRequest]> = self.0.chunks(each).collect();
        let count = |block: &[MeasuredRequest], counts: &dyn Fn(&MeasuredRequest) -> bool| {
            block.iter().filter(|r| counts(r)).count() as f64
        };
        match figure {
            Sampled::Rate(amount) => blocks
                .windows(2)
                .map(|pair| {
                    let ns = pair[1][0].origin_ns.checked_sub(pair[0][0].origin_ns);
                    let sum: u64 = pair[0].iter().map(|r| u64::from(r.amount(amount))).sum();
                    let seconds = ns.filter(|ns| *ns > 0)? as f64 / 1e9;
                    Some((sum as f64, seconds))
                })
                .collect(),
            Sampled::Attainment => {
                let pairs = blocks.iter().map(|b| {
                    let met = count(b, &|r| r.met == Some(true));
                    (met, count(b, &|r| r.met.is_some()))
                });
                Some(pairs.collect())
            }
            Sampled::Quantile(latency, q) => {
                let at = quantile(&self.sorted(latency), q)?;
                let pairs = blocks.iter().map(|b| {
                    let within = count(b, &|r| r.latency(latency).is_some_and(|ms| ms <= at));
                    (within, count(b, &|r| r.latency(latency).is_some()))
                });
                Some(pairs.collect())
            }
        }
    }
}

/// The requests that two points have in common: the same step of the same session with the same
/// plan, measured in both.
#[derive(Clone, Debug, PartialEq)]
pub struct Pairs {
    base: MeasuredPoint,
    other: MeasuredPoint,
    /// Common requests over the geometric mean of both points' requests: what is not common
    /// correlates with nothing.
    overlap: f64,
}

impl Pairs {
    /// Finds the pairs of two points of runs with the same seed. `None` if the plans of common
    /// requests differ: then it was another schedule after all.
    #[must_use]
    pub fn of(base: &MeasuredPoint, other: &MeasuredPoint) -> Option<Self> {
        let key = |r: &MeasuredRequest| (r.session, r.step);
        let theirs: BTreeMap<(u32, u16), &MeasuredRequest> =
            other.0.iter().map(|r| (key(r), r)).collect();
        let common: Vec<(&MeasuredRequest, &MeasuredRequest)> = base
            .0
            .iter()
            .filter_map(|r| Some((r, *theirs.get(&key(r))?)))
            .collect();
        let same = common.iter().filter(|(a, b)| a.planned == b.planned);
        let same: Vec<_> = same.copied().collect();
        if same.is_empty() || (same.len() as f64) < SAME_PLAN_SHARE * common.len() as f64 {
            return None;
        }
        let all = base.requests() as f64 * other.requests() as f64;
        // Both in the base's order: blocks of the two must hold the same requests.
        Some(Self {
            overlap: same.len() as f64 / all.sqrt(),
            base: MeasuredPoint(same.iter().map(|p| p.0.clone()).collect()),
            other: MeasuredPoint(same.iter().map(|p| p.1.clone()).collect()),
        })
    }

    /// How many requests both measured.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.base.requests()
    }

    /// The correlation (0 to 1) of a figure of the two whole points, by blocks of common requests.
    /// 0 where it cannot be told.
    #[must_use]
    pub fn correlation(&self, figure: Sampled) -> f64 {
        let blocks = self.base.blocks(figure).zip(self.other.blocks(figure));
        // A block that one side left out would shift all that follow against each other.
        let same = blocks.filter(|(a, b)| a.len() == b.len());
        let r = same.and_then(|(a, b)| paired_correlation(&a, &b));
        r.unwrap_or(0.0) * self.overlap.min(1.0)
    }
}

fn whole(count: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count of requests"
    )]
    let whole = count as u64;
    whole
}

#[cfg(test)]
mod tests {
    use goodput_stats::{Draws, Stream, difference_interval};

    use super::*;

    /// Requests a tenth of a second apart with these TTFTs (ms) and lengths.
    fn point(requests: impl IntoIterator<Item = (f64, u32)>) -> MeasuredPoint {
        let request = |(session, (ttft, tokens)): (u32, (f64, u32))| MeasuredRequest {
            session,
            step: 0,
            planned: [100, 0, tokens],
            origin_ns: u64::from(session) * 100_000_000,
            ok: true,
            latencies_ms: [Some(ttft), None, None, None, None, Some(ttft)],
            tokens,
            characters: 4 * tokens,
            met: Some(ttft <= 500.0),
        };
        (0..).zip(requests).map(request).collect()
    }

    /// Two runs of one schedule: lengths are the same, TTFTs share what the lengths make of them.
    fn twins(seed: u64, slower: f64) -> (MeasuredPoint, MeasuredPoint) {
        let run = |noise: u64, slower: f64| {
            point((0..1200).map(move |i| {
                let plan = Draws::new(seed, Stream(1), i).unit();
                let own = Draws::new(seed, Stream(noise), i).unit();
                let tokens = 50 + whole(200.0 * plan);
                let ttft = slower * (200.0 + 300.0 * plan + 20.0 * own);
                (ttft, u32::try_from(tokens).unwrap())
            }))
        };
        (run(2, 1.0), run(3, slower))
    }

    #[test]
    fn rates_shares_and_percentiles_of_a_constant_are_it() {
        let point = point((0..600).map(|i| (if i % 10 == 0 { 600.0 } else { 100.0 }, 50)));
        let of = |figure| point.bounded(figure).unwrap();
        let tokens = of(Sampled::Rate(Amount::Tokens));
        assert!((tokens.value - 500.0).abs() < 1e-9, "{tokens:?}");
        assert!(tokens.interval.half_width() < 1e-6);
        let good = of(Sampled::Rate(Amount::GoodTokens));
        assert!((good.value - 450.0).abs() < 1e-9, "{good:?}");
        assert!((of(Sampled::Attainment).value - 0.9).abs() < 1e-12);
        let median = of(Sampled::Quantile(Latency::Ttft, 0.5));
        assert_eq!((median.value, median.interval.high), (100.0, 100.0));
    }

    #[test]
    fn a_percentile_of_few_requests_has_no_interval() {
        let few = point((0..367).map(|i| (f64::from(i), 50)));
        assert_eq!(few.bounded(Sampled::Quantile(Latency::Ttft, 0.99)), None);
        assert!(few.bounded(Sampled::Quantile(Latency::Ttft, 0.9)).is_some());
        assert_eq!(few.bounded(Sampled::Quantile(Latency::Tpot, 0.5)), None);
        assert_eq!(few.samples(Sampled::Quantile(Latency::Tpot, 0.5)), 0);
        assert_eq!(MeasuredPoint::default().bounded(Sampled::Attainment), None);
    }

    #[test]
    fn requests_of_one_schedule_are_pairs_and_of_two_are_not() {
        let (base, other) = twins(1, 1.0);
        let pairs = Pairs::of(&base, &other).unwrap();
        assert_eq!(pairs.requests(), 1200);
        let (stranger, _) = twins(2, 1.0);
        assert_eq!(Pairs::of(&base, &stranger), None);
        assert_eq!(Pairs::of(&base, &MeasuredPoint::default()), None);
    }

    #[test]
    fn pairs_narrow_the_interval_of_a_difference() {
        for figure in [
            Sampled::Rate(Amount::Tokens),
            Sampled::Rate(Amount::GoodTokens),
            Sampled::Attainment,
            Sampled::Quantile(Latency::Ttft, 0.5),
        ] {
            let (base, other) = twins(7, 1.02);
            let r = Pairs::of(&base, &other).unwrap().correlation(figure);
            assert!(r > 0.5, "{figure:?}: {r}");
            let (a, b) = (
                base.bounded(figure).unwrap(),
                other.bounded(figure).unwrap(),
            );
            let width = |r| difference_interval(a, b, r).half_width();
            assert!(width(r) < 0.75 * width(0.0), "{figure:?}");
        }
    }

    #[test]
    fn half_of_a_schedule_in_common_correlates_half() {
        let (base, other) = twins(7, 1.0);
        let late = MeasuredPoint(other.0[600..].to_vec());
        let early = MeasuredPoint(base.0[..900].to_vec());
        let figure = Sampled::Rate(Amount::Tokens);
        let r = Pairs::of(&early, &late).unwrap().correlation(figure);
        // 300 common ones of 900 and 600.
        assert!(r > 0.3 && r <= 300.0 / (900.0_f64 * 600.0).sqrt(), "{r}");
    }

    /// A queue of one server, `requests` long: Poisson arrivals and lengths by the plan, what each
    /// service takes varies by a twentieth of its own. TTFT is the wait and a tenth of the service, so
    /// that slow requests come together as they do at a real server.
    fn queue(plan: u64, own: u64, requests: u64) -> MeasuredPoint {
        let (mut now, mut free) = (0.0_f64, 0.0_f64);
        (0..requests)
            .map(|i| {
                let mut planned = Draws::new(plan, Stream(11), i);
                let mut noise = Draws::new(own, Stream(12), i);
                now += -(1.0 - planned.unit()).ln();
                let tokens = 20 + whole(80.0 * planned.unit());
                let service = tokens as f64 / 60.0 * 0.7 * (1.0 + 0.05 * (noise.unit() - 0.5));
                let begins = now.max(free);
                free = begins + service;
                let ttft = 1e3 * (begins - now + 0.1 * service);
                MeasuredRequest {
                    session: u32::try_from(i).unwrap(),
                    step: 0,
                    planned: [0, 0, u32::try_from(tokens).unwrap()],
                    origin_ns: whole(now * 1e9),
                    ok: true,
                    latencies_ms: [Some(ttft), None, None, None, None, Some(ttft)],
                    tokens: u32::try_from(tokens).unwrap(),
                    characters: 0,
                    met: Some(ttft <= 1500.0),
                }
            })
            .collect()
    }

    /// How often the interval of a difference of two equal queues holds 0, where there is one, and its
    /// mean reach.
    fn equal_queues(figure: Sampled, one_plan: bool) -> (f64, f64) {
        let (mut known, mut held, mut reach) = (0_u32, 0_u32, 0.0);
        for seed in 0..60 {
            let base = queue(seed, 2 * seed, 1500);
            let other = queue(
                if one_plan { seed } else { seed + 9000 },
                2 * seed + 1,
                1500,
            );
            let r = Pairs::of(&base, &other).map_or(0.0, |pairs| pairs.correlation(figure));
            let Some((a, b)) = base.bounded(figure).zip(other.bounded(figure)) else {
                continue;
            };
            let interval = difference_interval(a, b, r);
            known += 1;
            held += u32::from(interval.contains(0.0));
            reach += interval.half_width();
        }
        (f64::from(held) / f64::from(known), reach / f64::from(known))
    }

    #[test]
    fn equal_queues_differ_by_nothing_paired_or_not() {
        for figure in [
            Sampled::Quantile(Latency::Ttft, 0.5),
            Sampled::Quantile(Latency::Ttft, 0.9),
            Sampled::Quantile(Latency::Ttft, 0.99),
            Sampled::Attainment,
            Sampled::Rate(Amount::GoodTokens),
        ] {
            let (paired, narrow) = equal_queues(figure, true);
            let (plain, wide) = equal_queues(figure, false);
            println!("{figure:?}: paired {paired:.3} +-{narrow:.4}, plain {plain:.3} +-{wide:.4}");
            // 150 runs know a coverage of 95 % to 3.5 %.
            assert!(
                paired >= 0.90 && plain >= 0.88,
                "{figure:?}: {paired} {plain}"
            );
            assert!(narrow < wide, "{figure:?}: {narrow} {wide}");
        }
    }

    #[test]
    fn a_true_change_of_a_median_is_covered_by_pairs() {
        let (mut held, runs) = (0_u32, 200_u32);
        for seed in 0..runs {
            let (base, other) = twins(u64::from(seed), 1.1);
            let figure = Sampled::Quantile(Latency::Ttft, 0.5);
            let r = Pairs::of(&base, &other).unwrap().correlation(figure);
            let (a, b) = (
                base.bounded(figure).unwrap(),
                other.bounded(figure).unwrap(),
            );
            // The median of 200 + 300 u + 20 v is 360; a tenth more is 36.
            held += u32::from(difference_interval(a, b, r).contains(36.0));
        }
        let coverage = f64::from(held) / f64::from(runs);
        assert!(coverage >= 0.93, "{coverage}");
    }
}
