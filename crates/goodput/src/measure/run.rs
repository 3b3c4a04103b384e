//! A run: one client, one server, one workload, load point after load point.

use std::{
    cell::Cell,
    rc::Rc,
    sync::{Arc, Mutex},
    time::Duration,
};

use goodput_ledger::{Mode, PointBooks, PointFacts, PointRow, WatchRow};
use goodput_loadgen::{
    Client, Compose, Invalid, PathProbe, PointPlan, PointReport, Settle, Stop, Window, Wish,
};
use goodput_protocol::one_line;
use goodput_record::Timestamp;
use goodput_results::{Folder, RowWriter};
use goodput_slo::Slo;
use goodput_sweep::{
    OperatingPoint, PointChart, Question, Search, UnderWay, answers,
    auto::{Measure, settle},
    mark,
};
use goodput_workload::{Load, Shard, WorkloadSpec, point_seed};

use super::{
    document::{self, Paper},
    live::{Doing, LiveTable},
    observer::{LiveCounts, SharedStrategy, lock},
    outage::{Failed, Outages, failed},
    place::place,
    plan::Lengths,
    remarks::{
        INTERRUPTED, client_row, load_words, nothing_measured, ran_dry, reasons, row_window,
    },
    scrape::Scrape,
    share::Share,
    threads::{Carried, Kit, Order, Team},
};
use crate::exit::Failure;

/// Width of the books' bins: short enough that the edges of a window cost nothing, long enough
/// that an hour is cheap.
pub(super) const BIN: Duration = Duration::from_millis(100);
/// The point number of warm-up requests: no load point has it, so no prompt is seen twice.
const WARM_UP: u32 = u32::MAX;
/// Used for E2E before anything is known.
const E2E_GUESS: Duration = Duration::from_secs(3);
/// The same on the emulated replica.
const E2E_GUESS_EMULATED: Duration = Duration::from_secs(1);

/// All that a run needs and all that it has found.
pub(crate) struct Run {
    pub(crate) client: Rc<Client>,
    pub(crate) compose: Rc<dyn Compose>,
    pub(crate) stop: Stop,
    pub(crate) signal: Rc<Cell<Option<u8>>>,
    pub(crate) slos: Vec<Slo>,
    pub(crate) spec: Arc<WorkloadSpec>,
    /// How arrivals come at present, where not as the workload's own do.
    pub(crate) other_arrivals: Option<&'static str>,
    pub(crate) seed: u64,
    /// The part of the schedule that is this process's, where it has only a part.
    pub(crate) share: Option<Rc<Share>>,
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
    pub(crate) scrape: Option<Scrape>,
    pub(crate) live: LiveTable,
    pub(crate) points: Vec<PointRow>,
    /// What the automatic search found, if one ran.
    pub(crate) search: Option<Search>,
    /// What the server failed to answer.
    pub(crate) outages: Outages,
    pub(crate) charts: Vec<PointChart>,
    /// E2E p95 of the last point that had one.
    pub(crate) e2e_p95: Option<Duration>,
    /// The load threads beside this one.
    pub(crate) team: Team,
}

impl Run {
    /// Whether the run has to end: it was asked to, its files cannot be written, or the server is gone.
    pub(crate) fn stopped(&self) -> bool {
        self.stop.wish() != Wish::Run || self.rows.trouble().is_some() || self.outages.gone
    }

    /// How long the run has gone on.
    pub(crate) fn duration(&self) -> Duration {
        let began = self
            .share
            .as_ref()
            .map_or(Timestamp::ZERO, |_| Share::begins());
        self.client.clock().now().since(began).unwrap_or_default()
    }

    /// What E2E is expected to be at its 95th percentile.
    pub(crate) fn e2e_p95(&self) -> Duration {
        let guess = if self.lengths.emulated {
            E2E_GUESS_EMULATED
        } else {
            E2E_GUESS
        };
        self.e2e_p95.unwrap_or(guess)
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
        let mut plan = match amount {
            WarmUp::Nothing => return Ok(()),
            WarmUp::Requests(requests) => PointPlan::warm_up(load, requests),
            WarmUp::Span(span) => PointPlan {
                warm_up: true,
                settle: Settle::None,
                ..PointPlan::new(WARM_UP, load, Window::Duration(span))
            },
        };
        plan.shard = self.shard();
        let seed = point_seed(self.seed, WARM_UP);
        let job = Job {
            title: "warm-up".to_owned(),
            points_left: Some(0),
            strategy: None,
        };
        let (carried, counts) = self.carry_out(&plan, seed, job).await?;
        if counts.arrived > 0 && counts.answered == 0 && !carried.report.interrupted {
            let said = carried.report.invalid.iter().find_map(|why| match why {
                Invalid::Failing { error, .. } => Some(format!("; the last: {error}")),
                _ => None,
            });
            self.live.say(&format!(
                "warning: none of {} warm-up requests was answered{}",
                counts.arrived,
                said.unwrap_or_default()
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

    async fn point_of(
        &mut self,
        load: Load,
        window: Duration,
        looks: Option<(SharedStrategy, Duration)>,
        points_left: Option<usize>,
    ) -> Result<&PointRow, Failure> {
        let number = u32::try_from(self.points.len()).unwrap_or(WARM_UP - 1);
        let window = self
            .requests
            .map_or(Window::Duration(window), Window::Requests);
        let mut plan = PointPlan::new(number, load, window);
        plan.settle = self.settle(load);
        let late = self.take_turn(&mut plan);
        plan.look_from = looks.as_ref().map(|looks| looks.1);
        let endpoint = &self.client.target().endpoint;
        plan.path_probe = Some(match &self.scrape {
            Some(_) => PathProbe::Page(format!("{}/metrics", endpoint.root())),
            None => PathProbe::Address(format!("{}/models", endpoint.base)),
        });
        let seed = point_seed(self.seed, place(&self.points, load, self.other_arrivals));
        let job = Job {
            title: load_words(load),
            points_left,
            strategy: looks.map(|looks| looks.0),
        };
        if self.points.is_empty() {
            document::begin(self, Some(under_way(number, load)));
        }
        let (carried, counts) = self.carry_out(&plan, seed, job).await?;
        let Carried {
            books,
            bars,
            report,
        } = carried;
        let mut facts = self.facts(&plan, &report);
        if let Some(share) = &self.share {
            // Together the shares can tell what none of them can alone.
            let server = self.watched(&report, true);
            share.keep(late, &facts, server, &report, &books)?;
        }
        self.outages.failed = failed(&report, load);
        if books.measured() == 0 {
            let why = nothing_measured(counts, &report);
            if counts.answered == 0 && !report.interrupted {
                self.outages.failed.get_or_insert_with(|| Failed {
                    why: format!("at {}: {why}", load_words(load)),
                    given_up: true,
                });
            }
            facts.invalid.push(why);
        }
        let server = self.watched(&report, self.share.is_none());
        let row = self.row(&books, &facts, server);
        if let Some(ms) = row.e2e_p95_ms {
            self.e2e_p95 = Some(Duration::from_secs_f64(ms / 1e3));
        }
        let charted = books.charted(&row_window(&report));
        let [ttft_ms, tpot_ms, e2e_ms, stall_ms] = charted.quantiles;
        self.charts.push(PointChart {
            point: number,
            ttft_ms,
            tpot_ms,
            e2e_ms,
            stall_ms,
            requests: bars,
            timeline: charted.timeline,
        });
        self.live.row(&row, self.objective());
        self.points.push(row);
        document::keep(self);
        self.points
            .last()
            .ok_or_else(|| Failure::untrusted("no load point was measured"))
    }

    /// The part of the schedule that is this process's.
    fn shard(&self) -> Shard {
        self.share
            .as_ref()
            .map_or(Shard::WHOLE, |share| share.shard)
    }

    /// Puts a point into the timetable that all shards keep, and says how late it is already.
    fn take_turn(&self, plan: &mut PointPlan) -> Duration {
        let Some(share) = &self.share else {
            return Duration::ZERO;
        };
        let begins = share.plan(plan);
        self.client.clock().now().since(begins).unwrap_or_default()
    }

    fn settle(&self, load: Load) -> Settle {
        // A counted point without warm-up sends exactly what was asked for, and measures it all.
        if self.requests.is_some() && self.cold {
            return Settle::None;
        }
        settle(load, self.e2e_p95())
    }

    async fn carry_out(
        &mut self,
        plan: &PointPlan,
        seed: u64,
        job: Job,
    ) -> Result<(Carried, LiveCounts), Failure> {
        let counts = Arc::new(Mutex::new(LiveCounts::default()));
        let doing = Doing {
            title: job.title,
            point: self.points.len() + 1,
            points: job.points_left.map(|left| self.points.len() + 1 + left),
            expected: self.expected(plan),
            each_later: self.lengths.closed(self.e2e_p95())
                + Duration::from_secs(2)
                + 2 * self.e2e_p95(),
        };
        if let Some(scrape) = &self.scrape {
            scrape.follow(&counts);
            scrape.look().await;
        }
        let line = self.live.watch(doing, Arc::clone(&counts));
        let kit = Kit {
            client: Rc::clone(&self.client),
            compose: Rc::clone(&self.compose),
            slos: self.slos.clone(),
            rows: Arc::clone(&self.rows),
            stop: self.stop.clone(),
        };
        let order = Order {
            plan: plan.clone(),
            spec: Arc::clone(&self.spec),
            seed,
            ramp: self.ramp,
            counts: Arc::clone(&counts),
        };
        let carried = self.team.carry(&kit, order, job.strategy).await;
        drop(line);
        let carried = carried?;
        if let Some(scrape) = &self.scrape {
            scrape.look().await;
        }
        let counts = *lock(&counts);
        Ok((carried, counts))
    }

    /// How long a point takes, about.
    fn expected(&self, plan: &PointPlan) -> Duration {
        let settle = match plan.settle {
            Settle::None => Duration::ZERO,
            Settle::Fixed(span) => span,
            Settle::FirstWave { .. } => self.e2e_p95(),
        };
        let window = match (plan.window, plan.load) {
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

    /// What the source of the load says of a point.
    fn facts(&self, plan: &PointPlan, report: &PointReport) -> PointFacts {
        let window = row_window(report);
        let mut warnings = Vec::new();
        if report.interrupted {
            warnings.push(INTERRUPTED.to_owned());
        }
        warnings.extend(ran_dry(plan, report));
        if report.traffic.retries > 0 {
            warnings.push(format!(
                "{} requests were sent again because the server had closed an idle connection",
                report.traffic.retries
            ));
        }
        PointFacts {
            point: plan.point,
            mode: match plan.load {
                Load::Closed(_) => Mode::Closed,
                Load::Open { .. } => Mode::Open,
            },
            concurrency: match plan.load {
                Load::Closed(users) => Some(users.get()),
                Load::Open { .. } => None,
            },
            rate_req_s: match plan.load {
                Load::Closed(_) => None,
                Load::Open { per_second } => Some(per_second),
            },
            server_cached_share: self
                .scrape
                .as_ref()
                .and_then(|scrape| scrape.cached_share(&window)),
            window,
            gpus: self.gpus,
            in_flight_peak: Some(report.peak_in_flight),
            in_flight_at_end: report.in_flight_at_end,
            sent_share: (report.arrivals_due > 0)
                .then(|| report.arrivals_sent as f64 / report.arrivals_due as f64),
            loop_lag_p99_ns: report.loop_lag().quantile(0.99),
            client_cpu_share: Some(report.machine.cpu_share),
            client: client_row(report),
            server_timings: (
                report.server_timings.told,
                report.server_timings.implausible,
                report.server_timings.last_ratio,
            ),
            invalid: reasons(report),
            warnings,
        }
    }

    fn row(&self, books: &PointBooks, facts: &PointFacts, server: Option<WatchRow>) -> PointRow {
        let mut row = books.row(facts);
        row.other_arrivals = self
            .other_arrivals
            .filter(|_| row.mode == Mode::Open)
            .map(str::to_owned);
        if !self.client.target().stream {
            // Whole answers were asked for: that they came is no finding.
            row.not_streamed = 0;
        }
        row.server = server;
        mark(&mut row);
        row
    }

    /// What was seen of the server; `alone`: whether all of its load is known.
    fn watched(&self, report: &PointReport, alone: bool) -> Option<WatchRow> {
        let scrape = self.scrape.as_ref();
        let mut seen = scrape.and_then(|scrape| scrape.watched(&row_window(report), alone));
        if report.answered_as.len() > 1 {
            let names = report.answered_as.iter().map(|name| one_line(name));
            seen.get_or_insert_default().answered_as = names.collect();
        }
        seen
    }
}

/// A load point, beside its plan.
struct Job {
    title: String,
    /// How many points follow, where that is known.
    points_left: Option<usize>,
    /// Who looks at it while it runs.
    strategy: Option<SharedStrategy>,
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
