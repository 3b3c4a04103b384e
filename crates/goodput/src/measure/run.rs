//! A run: one client, one server, one workload, load point after load point.

use std::{cell::Cell, rc::Rc, sync::Arc, time::Duration};

use goodput_ledger::{Mode, PointRow};
use goodput_loadgen::{Settle, Stop, Window, Wish};
use goodput_results::{Folder, RowWriter};
use goodput_slo::Slo;
use goodput_sweep::{
    OperatingPoint, PointChart, Question, Search, UnderWay, answers,
    auto::{Measure, settle},
    mark,
};
use goodput_workload::{Load, WorkloadSpec};

use super::{
    document::{self, Paper},
    live::{Doing, LiveTable},
    observer::{SharedStrategy, lock},
    outage::Outages,
    place::{fresh_place, place},
    plan::Lengths,
    remarks::load_words,
    source::{Observed, PointOrder, Seen, Source},
};
use crate::exit::Failure;

/// The point number of warm-up requests: no load point has it, so no prompt is seen twice.
const WARM_UP: u32 = u32::MAX;
/// All that a run needs and all that it has found.
pub(crate) struct Run {
    pub(crate) source: Source,
    pub(crate) stop: Stop,
    pub(crate) signal: Rc<Cell<Option<u8>>>,
    pub(crate) slos: Vec<Slo>,
    pub(crate) spec: Arc<WorkloadSpec>,
    /// How arrivals come at present, where not as the workload's own do.
    pub(crate) other_arrivals: Option<&'static str>,
    pub(crate) seed: u64,
    pub(crate) gpus: Option<u32>,
    pub(crate) requests: Option<std::num::NonZeroU32>,
    /// Over how long the users of a closed loop start, where told.
    pub(crate) ramp: Option<Duration>,
    /// Whether warm-up was switched off.
    pub(crate) cold: bool,
    pub(crate) lengths: Lengths,
    pub(crate) question: Question,
    /// What the run's document says whatever is measured.
    pub(crate) paper: Paper,
    pub(crate) folder: Folder,
    pub(crate) rows: Arc<RowWriter>,
    pub(crate) live: LiveTable,
    pub(crate) points: Vec<PointRow>,
    /// What the automatic search found, if one ran.
    pub(crate) search: Option<Search>,
    /// What the server failed to answer.
    pub(crate) outages: Outages,
    pub(crate) charts: Vec<PointChart>,
    /// E2E p95 of the last point that had one.
    pub(crate) e2e_p95: Option<Duration>,
}

impl Run {
    /// Whether the run has to end: it was asked to, its files cannot be written, or the server is gone.
    pub(crate) fn stopped(&self) -> bool {
        self.stop.wish() != Wish::Run || self.rows.trouble().is_some() || self.outages.gone
    }

    /// How long the run has gone on; of a simulated one, in virtual time.
    pub(crate) fn duration(&self) -> Duration {
        let (now, began) = (self.source.now(), self.source.began());
        now.since(began).unwrap_or_default()
    }

    /// What E2E is expected to be at its 95th percentile.
    pub(crate) fn e2e_p95(&self) -> Duration {
        self.e2e_p95
            .unwrap_or_else(|| self.lengths.server.e2e_guess())
    }

    /// The share of requests that must meet the first SLO.
    pub(crate) fn objective(&self) -> f64 {
        self.question.objective
    }

    /// The answers so far.
    pub(crate) fn answers(&self) -> OperatingPoint {
        let answers = answers(&self.points, self.question);
        match &self.search {
            Some(search) => answers.found_by(search, &self.points),
            None => answers,
        }
    }

    /// Warms the server up with prompts that no load point sends again.
    pub(crate) async fn warm_up(&mut self, load: Load, amount: WarmUp) -> Result<(), Failure> {
        let (point, window) = match amount {
            WarmUp::Nothing => return Ok(()),
            WarmUp::Requests(requests) => (0, Window::Requests(requests)),
            WarmUp::Span(span) => (WARM_UP, Window::Duration(span)),
        };
        let order = PointOrder {
            point,
            warm_up: true,
            settle: Settle::None,
            ..self.order(load, WARM_UP, window)
        };
        let observed = self
            .carry_out(&order, "warm-up".to_owned(), Some(0))
            .await?;
        let counts = *lock(&order.counts);
        if counts.arrived > 0 && counts.answered == 0 && !observed.interrupted {
            let said = observed
                .failed
                .map_or_else(String::new, |failed| format!("; the last: {}", failed.why));
            self.live.say(&format!(
                "warning: none of {} warm-up requests was answered{said}",
                counts.arrived,
            ));
        }
        Ok(())
    }

    /// Measures one load point.
    pub(crate) async fn point(
        &mut self,
        load: Load,
        points_left: usize,
    ) -> Result<&PointRow, Failure> {
        let window = match load {
            Load::Closed(_) => self.lengths.closed(self.e2e_p95()),
            Load::Open { per_second } => {
                self.lengths
                    .open(self.e2e_p95(), per_second, self.objective())
            }
        };
        self.point_of(load, window, None, Some(points_left)).await
    }

    /// Measures the load point that a strategy asks for; the strategy may close it early, unless the
    /// length of points was asked for.
    pub(crate) async fn asked_point(
        &mut self,
        asked: Measure,
        strategy: &SharedStrategy,
    ) -> Result<&PointRow, Failure> {
        let looks =
            Some((Rc::clone(strategy), asked.at_least)).filter(|_| !self.lengths.is_asked());
        let window = self.lengths.asked.unwrap_or(asked.at_most);
        self.point_of(asked.load, window, looks, None).await
    }

    /// Measures a load under a schedule that no search has seen: at the same load the same in every
    /// run of one seed. The window has this length unless another one was asked for.
    pub(crate) async fn fresh_point(
        &mut self,
        load: Load,
        window: Duration,
    ) -> Result<&PointRow, Failure> {
        let window = self.lengths.asked.unwrap_or(window);
        let window = self
            .requests
            .map_or(Window::Duration(window), Window::Requests);
        let order = PointOrder {
            settle: self.settle(load),
            ..self.order(load, fresh_place(load), window)
        };
        self.measure(order, None).await
    }

    async fn point_of(
        &mut self,
        load: Load,
        window: Duration,
        looks: Option<(SharedStrategy, Duration)>,
        points_left: Option<usize>,
    ) -> Result<&PointRow, Failure> {
        let window = self
            .requests
            .map_or(Window::Duration(window), Window::Requests);
        let place = place(&self.points, load, self.other_arrivals);
        let order = PointOrder {
            settle: self.settle(load),
            looks,
            ..self.order(load, place, window)
        };
        self.measure(order, points_left).await
    }

    /// A point that nobody looks at while it runs, and that is measured from its first request on.
    fn order(&self, load: Load, place: u32, window: Window) -> PointOrder {
        PointOrder {
            point: u32::try_from(self.points.len()).unwrap_or(WARM_UP - 1),
            place,
            seed: self.seed,
            load,
            window,
            settle: Settle::None,
            warm_up: false,
            looks: None,
            ramp: self.ramp,
            spec: Arc::clone(&self.spec),
            slos: self.slos.clone(),
            gpus: self.gpus,
            rows: Arc::clone(&self.rows),
            stop: self.stop.clone(),
            counts: Arc::default(),
        }
    }

    async fn measure(
        &mut self,
        order: PointOrder,
        points_left: Option<usize>,
    ) -> Result<&PointRow, Failure> {
        let number = order.point;
        if self.points.is_empty() {
            document::begin(self, Some(under_way(number, order.load)));
        }
        let title = load_words(order.load);
        let observed = self.carry_out(&order, title, points_left).await?;
        let row = self.row(&observed);
        self.outages.failed = observed.failed;
        if let Some(ms) = row.e2e_p95_ms {
            self.e2e_p95 = Some(Duration::from_secs_f64(ms / 1e3));
        }
        let charted = observed.books.charted(&observed.facts.window);
        let [ttft_ms, tpot_ms, e2e_ms, stall_ms] = charted.quantiles;
        self.charts.push(PointChart {
            point: number,
            ttft_ms,
            tpot_ms,
            e2e_ms,
            stall_ms,
            requests: observed.bars,
            timeline: charted.timeline,
        });
        self.live.row(&row, self.objective());
        self.points.push(row);
        document::keep(self);
        self.points
            .last()
            .ok_or_else(|| Failure::untrusted("no load point was measured"))
    }

    fn settle(&self, load: Load) -> Settle {
        // A counted point without warm-up sends exactly what was asked for, and measures it all.
        if self.requests.is_some() && self.cold {
            return Settle::None;
        }
        settle(load, self.e2e_p95())
    }

    /// Has a point carried out while a line shows how far it is.
    async fn carry_out(
        &mut self,
        order: &PointOrder,
        title: String,
        points_left: Option<usize>,
    ) -> Result<Observed, Failure> {
        let doing = Doing {
            title,
            point: self.points.len() + 1,
            points: points_left.map(|left| self.points.len() + 1 + left),
            expected: self.expected(order),
            each_later: self.lengths.closed(self.e2e_p95())
                + Duration::from_secs(2)
                + 2 * self.e2e_p95(),
        };
        let line = self.live.watch(doing, Arc::clone(&order.counts));
        let observed = self.source.carry(order).await;
        drop(line);
        if let Some(number) = self.source.caught() {
            self.signal.set(Some(number));
        }
        observed
    }

    /// How long a point takes, about.
    fn expected(&self, order: &PointOrder) -> Duration {
        let settle = match order.settle {
            Settle::None => Duration::ZERO,
            Settle::Fixed(span) => span,
            Settle::FirstWave { .. } => self.e2e_p95(),
        };
        let window = match (order.window, order.load) {
            (Window::Duration(span), _) => span,
            (Window::Requests(n), Load::Closed(users)) => {
                self.e2e_p95() * n.get().div_ceil(users.get())
            }
            (Window::Requests(n), Load::Open { per_second }) => {
                Duration::from_secs_f64(f64::from(n.get()) / per_second)
            }
        };
        settle + window + self.e2e_p95()
    }

    fn row(&self, observed: &Observed) -> PointRow {
        let mut row = observed.books.row(&observed.facts);
        row.other_arrivals = self
            .other_arrivals
            .filter(|_| row.mode == Mode::Open)
            .map(str::to_owned);
        match observed.seen {
            Seen::ByClient { streamed: true } => {}
            // Whole answers were asked for: that they came is no finding.
            Seen::ByClient { streamed: false } => row.not_streamed = 0,
            Seen::ByEngine { every_gap } => {
                // What nobody sent was not sent late.
                (row.send_lag_p50_ms, row.send_lag_p99_ms) = (None, None);
                if !every_gap {
                    row.forget_gaps();
                }
            }
        }
        row.server.clone_from(&observed.server);
        mark(&mut row);
        row
    }
}

/// How much warm-up a run gives the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WarmUp {
    /// None.
    Nothing,
    /// This many requests.
    Requests(std::num::NonZeroU32),
    /// Load for this long.
    Span(Duration),
}

/// The load point that is being measured.
const fn under_way(point: u32, load: Load) -> UnderWay {
    let (concurrency, rate_req_s) = match load {
        Load::Closed(users) => (Some(users.get()), None),
        Load::Open { per_second } => (None, Some(per_second)),
    };
    UnderWay {
        point,
        concurrency,
        rate_req_s,
    }
}
