//! How much is asked for: a rate, growth, or a trace with its own peaks and bursts.

use std::time::Duration;

use thiserror::Error;

/// The stretch of time whose mean rate drives a plan. A shorter one is a burst, a longer one hides
/// the peak.
pub const DRIVING_WINDOW: Duration = Duration::from_mins(15);

/// The stretch of time in which the counts of a trace are held against each other for its
/// [`Demand::dispersion`].
const COUNT_WINDOW: Duration = Duration::from_secs(10);

/// The most months of growth: beyond ten years a monthly rate of growth says nothing.
pub const MOST_MONTHS: f64 = 120.0;
/// The most growth a month, as a share: tenfold.
pub const MOST_GROWTH: f64 = 9.0;
/// No rate is above this, in requests per second.
pub const MOST_RATE: f64 = 1e9;

/// A demand that a plan is made for.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// What it is called: `95 req/s`, `month 6`.
    pub label: String,
    /// The rate that drives the plan, in requests per second: the one told, or the highest mean over
    /// a quarter of an hour.
    pub rate_req_s: f64,
    /// Where that rate comes from.
    pub from: String,
    /// The mean rate over the whole time, where it is known. It sizes nothing.
    pub mean_req_s: Option<f64>,
    /// The highest rate within one cold start over the driving rate, at least 1; `None` where
    /// arrivals are not known.
    pub burst: Option<Burst>,
    /// Variance over mean of the counts in windows of 10 s; 1 for Poisson arrivals. `None` where
    /// arrivals are not known.
    pub dispersion: Option<f64>,
}

/// What comes faster than a replica can be started.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Burst {
    /// Highest rate within one cold start over the driving rate, at least 1.
    pub ratio: f64,
    /// The cold start, in seconds.
    pub cold_start_s: f64,
}

/// Why there is no demand to plan for.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum DemandError {
    /// The rate is no rate.
    #[error("a demand of {0} req/s cannot be planned for; expected a number above 0 and up to 1e9")]
    Rate(f64),
    /// The growth is none.
    #[error(
        "growth of {0}% a month cannot be planned for; expected a number above -100 and up to 900"
    )]
    Growth(f64),
    /// The time is none.
    #[error("{0} months ahead cannot be planned for; expected 0 to 120")]
    Months(f64),
    /// There is nothing to see a rate in.
    #[error(
        "the trace has {0} timed arrivals: no rate can be seen in them; expected at least 2 at different times"
    )]
    Trace(usize),
}

impl Demand {
    /// A rate as told.
    pub fn rate(rate_req_s: f64, from: impl Into<String>) -> Result<Self, DemandError> {
        Ok(Self {
            label: format!("{} req/s", plain(rate_req_s)),
            rate_req_s: checked(rate_req_s)?,
            from: from.into(),
            mean_req_s: None,
            burst: None,
            dispersion: None,
        })
    }

    /// The same demand after `months` months of growth by the share `growth` a month:
    /// `rate x (1 + growth)^months`. Peak and mean grow alike, so bursts keep their proportion.
    pub fn grown(&self, growth: f64, months: f64) -> Result<Self, DemandError> {
        if !(growth > -1.0 && growth <= MOST_GROWTH) {
            return Err(DemandError::Growth(growth * 100.0));
        }
        if !(0.0..=MOST_MONTHS).contains(&months) {
            return Err(DemandError::Months(months));
        }
        let factor = libm::pow(1.0 + growth, months);
        let rate_req_s = checked(self.rate_req_s * factor)?;
        Ok(Self {
            label: format!("in {} months", plain(months)),
            rate_req_s,
            from: format!(
                "{} req/s ({}) x (1 + {})^{}",
                plain(self.rate_req_s),
                self.from,
                plain(growth),
                plain(months)
            ),
            mean_req_s: self.mean_req_s.map(|mean| mean * factor),
            ..self.clone()
        })
    }

    /// The demand of as many users as `scale` times those of a trace. `arrivals_ns` are its arrivals
    /// in rising order, in nanoseconds.
    ///
    /// Peaks grow with the scale: everybody's afternoon is the same. What happens within seconds is
    /// taken to be independent from one such trace to the next, so the index of dispersion stays.
    ///
    /// The driving rate is the highest mean over a quarter of an hour, wherever that begins; of a
    /// shorter trace, its mean. The burst is the highest mean over one `cold_start`. Both are seen in
    /// counts, so a short window over few requests shows chance as well.
    pub fn of_trace(
        arrivals_ns: &[u64],
        scale: f64,
        cold_start: Duration,
        from: impl Into<String>,
    ) -> Result<Self, DemandError> {
        let few = DemandError::Trace(arrivals_ns.len());
        let (Some(first), Some(last)) = (arrivals_ns.first(), arrivals_ns.last()) else {
            return Err(few);
        };
        let span_s = last.saturating_sub(*first) as f64 / 1e9;
        if span_s <= 0.0 {
            return Err(few);
        }
        let mean = scale * (arrivals_ns.len() - 1) as f64 / span_s;
        let whole = span_s >= DRIVING_WINDOW.as_secs_f64();
        let peak = match highest_rate(arrivals_ns, DRIVING_WINDOW).filter(|_| whole) {
            Some(rate) => (scale * rate).max(mean),
            None => mean,
        };
        let window = cold_start.min(Duration::from_secs_f64(span_s));
        let within = highest_rate(arrivals_ns, window).map(|rate| scale * rate);
        let name = from.into();
        Ok(Self {
            label: format!("{} req/s", plain(peak)),
            rate_req_s: checked(peak)?,
            from: if whole {
                format!("peak quarter hour of {name}")
            } else {
                format!("mean of {name}, which is shorter than a quarter of an hour")
            },
            mean_req_s: Some(mean),
            burst: within.map(|rate| Burst {
                ratio: (rate / peak).max(1.0),
                cold_start_s: cold_start.as_secs_f64(),
            }),
            dispersion: dispersion(arrivals_ns),
        })
    }
}

fn checked(rate: f64) -> Result<f64, DemandError> {
    if rate > 0.0 && rate <= MOST_RATE {
        Ok(rate)
    } else {
        Err(DemandError::Rate(rate))
    }
}

/// The highest rate, in arrivals per second, over any window of this length. `None` for a window of
/// no length.
fn highest_rate(arrivals_ns: &[u64], window: Duration) -> Option<f64> {
    let width = goodput_record::nanos(window);
    let mut first = 0;
    let mut most = 0;
    for (index, &at) in arrivals_ns.iter().enumerate() {
        while at.saturating_sub(arrivals_ns[first]) >= width.max(1) {
            first += 1;
        }
        most = most.max(index + 1 - first);
    }
    (width > 0).then(|| most as f64 / window.as_secs_f64())
}

/// Variance over mean of the counts in whole windows of [`COUNT_WINDOW`].
fn dispersion(arrivals_ns: &[u64]) -> Option<f64> {
    let width = goodput_record::nanos(COUNT_WINDOW);
    let first = *arrivals_ns.first()?;
    let whole = usize::try_from((arrivals_ns.last()? - first) / width).ok()?;
    let mut counts = vec![0_u64; whole];
    for at in arrivals_ns {
        let window = usize::try_from((at - first) / width).ok()?;
        if let Some(count) = counts.get_mut(window) {
            *count += 1;
        }
    }
    goodput_stats::index_of_dispersion(&counts)
}

/// A count with what is counted, which takes an s where it is not one.
pub(crate) fn counted(count: u64, what: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} {what}{s}")
}

/// A number without more digits than it needs.
pub(crate) fn plain(value: f64) -> String {
    let text = format!("{value:.3}");
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
