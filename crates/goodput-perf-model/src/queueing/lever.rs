//! Less variance, or a smaller mean: which shortens the wait more?
//!
//! The essay on inference SLOs says that reducing variance improves the tail more than a
//! proportional reduction of the mean. By the exact mean wait of M/G/1, `rho E[S] (1 + C^2) / (2 (1 -
//! rho))`, that is true in one corner and false elsewhere; by Lee and Longton's formula many servers
//! are alike. With both cut by the same share `r`:
//!
//! - At a fixed rate a smaller mean also lowers the utilisation, and `1 / (1 - rho)` pays for it:
//!   where all times shrink alike it always wins, near saturation by far.
//! - At a fixed utilisation (a shorter service time is used to take more traffic) times that shrink
//!   alike still win: their wait is `1 - r` times as long, and less variance touches only the `C^2`
//!   of `1 + C^2`.
//! - A smaller mean that leaves the variance as it is (short requests become shorter, the long ones
//!   do not) is another matter: at a fixed utilisation less variance beats it where `C^2 > (1 - r) /
//!   (2 - r)`, about one half. There the essay is right, and chunked prefill, which bounds the long
//!   steps, is the example. At a fixed rate it takes a utilisation of one
//!   server below `1 / (2 - r)`, about one half, and a large `C^2` as well.

use super::{ManyServers, QueueError, squared_variation};

/// What is changed about the service times, by a share `r`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    None,
    /// The variance is `1 - r` of what it was, the mean the same.
    LessVariance,
    /// All service times are `1 - r` of what they were: `C^2` stays.
    SmallerMean,
    /// The mean is `1 - r` of what it was, the variance in squared seconds the same: `C^2` rises.
    SmallerMeanSameVariance,
}

/// What is kept the same while the mean changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// Requests per second: a smaller mean leaves the server idle more often.
    Rate,
    /// The utilisation: what a smaller mean frees is sold.
    Utilization,
}

/// The wait after one change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LeverRow {
    /// What was changed.
    pub change: Change,
    /// What was kept.
    pub held: Held,
    /// Requests per second.
    pub rate_per_s: f64,
    /// Mean service time in seconds.
    pub service_s: f64,
    /// Squared coefficient of variation of service times.
    pub scv_service: f64,
    /// Share of time the server is busy.
    pub utilization: f64,
    /// Mean wait in seconds by Lee and Longton: exact for one server (M/G/1).
    pub wait_s: f64,
    /// Wait that 99 % do not exceed, by [`ManyServers::wait_quantile_s`], an approximation.
    pub wait_p99_s: f64,
    /// The p99 that an engine showed with such service times, where one was run; see
    /// [`Lever::with_engine`].
    pub engine_p99_s: Option<f64>,
}

/// What the lever was asked about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LeverBase {
    /// The load before any change.
    pub load: ManyServers,
    /// Squared coefficient of variation of its service times.
    pub scv_service: f64,
    /// Share `r` by which variance or mean are cut, above 0 and below 1.
    pub cut: f64,
}

/// The changes against each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Lever {
    /// What was asked.
    pub base: LeverBase,
    /// The wait before any change.
    pub before: LeverRow,
    /// After each change at a fixed rate, then at a fixed utilisation.
    pub rows: Vec<LeverRow>,
    /// At a fixed utilisation less variance beats a smaller mean of the same variance where the SCV of
    /// service times is above this.
    pub scv_at_utilization: f64,
    /// The same at a fixed rate; `None`: at this utilisation it never does.
    pub scv_at_rate: Option<f64>,
}

/// Compares less variance with a smaller mean, both cut by the share `cut`, for one server.
pub fn variance_lever(load: ManyServers, scv_service: f64, cut: f64) -> Result<Lever, QueueError> {
    squared_variation("the SCV of service times", scv_service)?;
    if !(cut > 0.0 && cut < 1.0) {
        return Err(QueueError::OutOfRange {
            name: "the share cut",
            value: cut,
            bound: "above 0 and below 1",
        });
    }
    let base = LeverBase {
        load,
        scv_service,
        cut,
    };
    let changes = [
        Change::LessVariance,
        Change::SmallerMean,
        Change::SmallerMeanSameVariance,
    ];
    let held = [Held::Rate, Held::Utilization];
    let rows = held
        .into_iter()
        .flat_map(|held| changes.map(|change| (change, held)));
    let rows: Result<Vec<_>, _> = rows.map(|(c, h)| base.row(c, h)).collect();
    Ok(Lever {
        base,
        before: base.row(Change::None, Held::Rate)?,
        rows: rows?,
        scv_at_utilization: (1.0 - cut) / (2.0 - cut),
        scv_at_rate: base.scv_at_rate()?,
    })
}

impl LeverBase {
    fn row(&self, change: Change, held: Held) -> Result<LeverRow, QueueError> {
        let kept = 1.0 - self.cut;
        let (mean, scv_service) = match change {
            Change::None => (1.0, self.scv_service),
            Change::LessVariance => (1.0, self.scv_service * kept),
            Change::SmallerMean => (kept, self.scv_service),
            Change::SmallerMeanSameVariance => (kept, self.scv_service / (kept * kept)),
        };
        let rate_per_s = match held {
            Held::Rate => self.load.rate_per_s(),
            Held::Utilization => self.load.rate_per_s() / mean,
        };
        let service_s = self.load.service_s() * mean;
        let load = ManyServers::new(rate_per_s, service_s, self.load.servers())?;
        let wait_s = load.lee_longton_wait_s(scv_service)?;
        Ok(LeverRow {
            change,
            held,
            rate_per_s,
            service_s: load.service_s(),
            scv_service,
            utilization: load.utilization(),
            wait_s,
            wait_p99_s: load.wait_quantile_s(wait_s, 0.99)?,
            engine_p99_s: None,
        })
    }

    /// Where `1 + C^2 (1 - r) = h (1 + C^2 / (1 - r)^2)`, `h` being what the smaller mean makes of
    /// M/M/k's wait; for one server `h = (1 - r)^2 (1 - rho) / (1 - rho (1 - r))`.
    fn scv_at_rate(&self) -> Result<Option<f64>, QueueError> {
        let kept = 1.0 - self.cut;
        let (rate, service_s) = (self.load.rate_per_s(), self.load.service_s() * kept);
        let faster = ManyServers::new(rate, service_s, self.load.servers())?;
        let left = faster.mmk_wait_s() / self.load.mmk_wait_s();
        let spread = left / (kept * kept) - kept;
        Ok((spread > 0.0).then(|| (1.0 - left) / spread))
    }
}

impl Lever {
    /// Puts beside each row what `p99_s` says of it: the p99 of waits in seconds that an engine or
    /// another simulation shows for these service times.
    #[must_use]
    pub fn with_engine(mut self, mut p99_s: impl FnMut(&LeverRow) -> Option<f64>) -> Self {
        self.before.engine_p99_s = p99_s(&self.before);
        for row in &mut self.rows {
            row.engine_p99_s = p99_s(row);
        }
        self
    }

    /// The row of a change, if it is one of the compared.
    #[must_use]
    pub fn row(&self, change: Change, held: Held) -> Option<&LeverRow> {
        self.rows
            .iter()
            .find(|row| row.change == change && row.held == held)
    }
}
