//! A server on the network as the source of a run's records: client, load threads, scraper.

use std::{rc::Rc, time::Duration};

use goodput_ledger::{Mode, PointFacts, WatchRow};
use goodput_loadgen::{Client, Compose, Invalid, PathProbe, PointPlan, PointReport, Stop, Wish};
use goodput_protocol::one_line;
use goodput_record::Timestamp;
use goodput_workload::{Load, Shard, point_seed};

use super::{
    observer::lock,
    outage::{Failed, failed},
    remarks::{
        INTERRUPTED, client_row, load_words, nothing_measured, ran_dry, reasons, row_window,
    },
    scrape::Scrape,
    share::Share,
    source::{Observed, PointOrder, Seen},
    threads::{Carried, Kit, Order, Team},
};
use crate::exit::Failure;

/// A server that went away is waited for as long as a connection may take, else for this long.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often it is asked whether it is there again.
const EVERY: Duration = Duration::from_millis(250);

/// The way to one server.
pub(crate) struct Network {
    pub(crate) client: Rc<Client>,
    pub(crate) compose: Rc<dyn Compose>,
    /// The part of the schedule that is this process's, where it has only a part.
    pub(crate) share: Option<Rc<Share>>,
    pub(crate) scrape: Option<Scrape>,
    /// The load threads beside this one.
    pub(crate) team: Team,
}

impl Network {
    /// Carries a load point out.
    pub(super) async fn carry(&self, order: &PointOrder) -> Result<Observed, Failure> {
        let mut plan = self.plan(order);
        let late = if order.warm_up {
            Duration::ZERO
        } else {
            self.take_turn(&mut plan)
        };
        let Carried {
            books,
            bars,
            report,
        } = self.send(&plan, order).await?;
        let mut facts = self.facts(&plan, order.gpus, &report);
        if let Some(share) = self.share.as_ref().filter(|_| !order.warm_up) {
            // Together the shares can tell what none of them can alone.
            let server = self.watched(&report, true);
            share.keep(late, &facts, server, &report, &books)?;
        }
        let mut outage = failed(&report, order.load);
        let counts = *lock(&order.counts);
        if books.measured() == 0 {
            let why = nothing_measured(counts, &report);
            if counts.answered == 0 && !report.interrupted {
                outage.get_or_insert_with(|| Failed {
                    why: format!("at {}: {why}", load_words(order.load)),
                    given_up: true,
                });
            }
            facts.invalid.push(why);
        }
        if order.warm_up {
            outage = report.invalid.iter().find_map(|why| match why {
                Invalid::Failing { error, .. } => Some(Failed {
                    why: error.clone(),
                    given_up: true,
                }),
                _ => None,
            });
        }
        Ok(Observed {
            books,
            bars,
            facts,
            server: self.watched(&report, self.share.is_none()),
            seen: Seen::ByClient {
                streamed: self.client.target().stream,
            },
            interrupted: report.interrupted,
            failed: outage,
        })
    }

    fn plan(&self, order: &PointOrder) -> PointPlan {
        let mut plan = PointPlan::new(order.point, order.load, order.window);
        plan.settle = order.settle;
        plan.warm_up = order.warm_up;
        plan.shard = self.shard();
        plan.look_from = order.looks.as_ref().map(|looks| looks.1);
        if !order.warm_up {
            let endpoint = &self.client.target().endpoint;
            plan.path_probe = Some(match &self.scrape {
                Some(_) => PathProbe::Page(format!("{}/metrics", endpoint.root())),
                None => PathProbe::Address(format!("{}/models", endpoint.base)),
            });
        }
        plan
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

    /// Sends what the plan says, with a look at the server before and after.
    async fn send(&self, plan: &PointPlan, order: &PointOrder) -> Result<Carried, Failure> {
        if let Some(scrape) = &self.scrape {
            scrape.follow(&order.counts);
            scrape.look().await;
        }
        let kit = Kit {
            client: Rc::clone(&self.client),
            compose: Rc::clone(&self.compose),
            slos: order.slos.clone(),
            rows: order.rows.clone(),
            stop: order.stop.clone(),
        };
        let job = Order {
            plan: plan.clone(),
            spec: order.spec.clone(),
            seed: point_seed(order.seed, order.place),
            ramp: order.ramp,
            counts: order.counts.clone(),
        };
        let strategy = order.looks.as_ref().map(|looks| Rc::clone(&looks.0));
        let carried = self.team.carry(&kit, job, strategy).await?;
        if let Some(scrape) = &self.scrape {
            scrape.look().await;
        }
        Ok(carried)
    }

    /// What the source of the load says of a point.
    fn facts(&self, plan: &PointPlan, gpus: Option<u32>, report: &PointReport) -> PointFacts {
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
            gpus,
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

    /// When the run began by the client's clock.
    pub(super) fn began(&self) -> Timestamp {
        self.share
            .as_ref()
            .map_or(Timestamp::ZERO, |_| Share::begins())
    }

    /// The further threads and the scraper end: they hold on to files.
    pub(super) fn close(&mut self) {
        self.team = Team::default();
        self.scrape = None;
    }

    /// For how long a server that is away is waited for.
    pub(super) fn patience(&self) -> Duration {
        self.client.target().limits.connect.unwrap_or(PATIENCE)
    }

    /// Waits until the server answers what costs it nothing. Whether it did, and after how long;
    /// `None` for no time worth mentioning.
    pub(super) async fn is_back(&self, stop: &Stop) -> (bool, Option<Duration>) {
        let left = self.client.clock().now();
        let path = format!("{}/models", self.client.target().endpoint.base);
        let answers = async {
            loop {
                let reply = self.client.get(&path).await;
                self.client.close_idle();
                if reply.is_ok_and(|reply| !(500..600).contains(&reply.head.status)) {
                    return;
                }
                tokio::time::sleep(EVERY).await;
            }
        };
        let back = tokio::select! {
            () = answers => true,
            () = tokio::time::sleep(self.patience()) => false,
            () = stop.reached(Wish::Drain) => false,
        };
        let away = self.client.clock().now().since(left).unwrap_or_default();
        (back, Some(away).filter(|away| *away >= EVERY))
    }
}
