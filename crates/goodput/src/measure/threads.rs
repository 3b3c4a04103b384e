//! Load threads: each has a client, a runtime and a share of the users or of the schedule of its
//! own, so nothing is locked between them; what they found is merged when the point is over.

use std::{
    rc::Rc,
    sync::{Arc, Mutex},
    thread::JoinHandle,
    time::Duration,
};

use goodput_ledger::PointBooks;
use goodput_loadgen::{
    Client, Clock, Compose, PointPlan, PointReport, Stop, Target, run_point, runtime,
};
use goodput_results::RowWriter;
use goodput_slo::Slo;
use goodput_sweep::RequestBar;
use goodput_workload::{Shard, Workload, WorkloadSpec};
use tokio::sync::{mpsc, oneshot};

use super::{
    compose::Composer,
    observer::{BARS, LiveCounts, PointObserver, SharedStrategy},
    source::BIN,
};
use crate::exit::Failure;

/// From the order of a point to its first instant, where several threads must be ready for it.
const LEAD: Duration = Duration::from_millis(250);
/// And this much more for every user, whose connection is opened before.
const LEAD_A_USER: Duration = Duration::from_micros(200);

/// What a load thread has for the whole run.
pub(crate) struct Kit {
    pub(crate) client: Rc<Client>,
    pub(crate) compose: Rc<dyn Compose>,
    pub(crate) slos: Vec<Slo>,
    pub(crate) rows: Arc<RowWriter>,
    pub(crate) stop: Stop,
}

/// One point, as every load thread hears of it.
#[derive(Clone)]
pub(crate) struct Order {
    pub(crate) plan: PointPlan,
    pub(crate) spec: Arc<WorkloadSpec>,
    pub(crate) seed: u64,
    pub(crate) ramp: Option<Duration>,
    pub(crate) counts: Arc<Mutex<LiveCounts>>,
}

/// What came of a point.
pub(crate) struct Carried {
    pub(crate) books: PointBooks,
    pub(crate) bars: Vec<RequestBar>,
    pub(crate) report: PointReport,
}

impl Kit {
    /// Carries this thread's share of a point out.
    async fn carry(
        &self,
        order: &Order,
        strategy: Option<SharedStrategy>,
    ) -> Result<Carried, Failure> {
        let names = {
            let client = Rc::clone(&self.client);
            Rc::new(move |id| {
                client
                    .series()
                    .borrow()
                    .get(id)
                    .cloned()
                    .unwrap_or_default()
            })
        };
        let observer = Rc::new(PointObserver::new(
            order.plan.point,
            PointBooks::new(&self.slos, BIN),
            Arc::clone(&self.rows),
            names,
            Arc::clone(&order.counts),
            strategy,
        ));
        let (spec, load, shard) = (&order.spec, order.plan.load, order.plan.shard);
        let workload = match order.ramp {
            None => Workload::new(spec, load, order.seed, shard),
            Some(ramp) => Workload::with_ramp(spec, load, order.seed, shard, ramp),
        };
        let report = run_point(
            &self.client,
            &self.compose,
            workload,
            &order.plan,
            &observer,
            &self.stop,
        )
        .await
        .map_err(|e| Failure::untrusted(e.to_string()))?;
        let observer = Rc::into_inner(observer)
            .ok_or_else(|| Failure::untrusted("a request outlived its load point"))?;
        let (books, bars) = observer.into_parts();
        Ok(Carried {
            books,
            bars,
            report,
        })
    }
}

/// What the further threads are made of: all that may cross from one thread to another.
#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) target: Target,
    pub(crate) clock: Clock,
    pub(crate) run: String,
    pub(crate) composer: Composer,
    pub(crate) slos: Vec<Slo>,
    pub(crate) rows: Arc<RowWriter>,
    pub(crate) stop: Stop,
}

/// A point and where its outcome is awaited.
type Job = (Order, oneshot::Sender<Result<Carried, Failure>>);

/// The load threads beside the first one. They end when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Team {
    jobs: Vec<mpsc::UnboundedSender<Job>>,
    threads: Vec<JoinHandle<()>>,
}

impl Team {
    /// Starts `threads - 1` threads; the first one is the caller's, whose `client` takes its share
    /// of the requests' numbers.
    pub(crate) fn start(threads: u16, client: &Client, parts: &Parts) -> Result<Self, Failure> {
        let mut team = Self::default();
        client.share_numbers(0, threads);
        for index in 1..threads {
            let (jobs, inbox) = mpsc::unbounded_channel();
            let parts = parts.clone();
            let thread = std::thread::Builder::new()
                .name(format!("load-{index}"))
                .spawn(move || work(parts, index, threads, inbox))
                .map_err(|e| Failure::untrusted(format!("cannot start a load thread: {e}")))?;
            team.jobs.push(jobs);
            team.threads.push(thread);
        }
        Ok(team)
    }

    /// Carries a point out on all threads, from the same instant on, and merges what they found.
    /// Several threads let nobody close the point early: none of them sees all of it.
    pub(crate) async fn carry(
        &self,
        kit: &Kit,
        mut order: Order,
        strategy: Option<SharedStrategy>,
    ) -> Result<Carried, Failure> {
        let whole = order.plan.clone();
        let mut outcomes = Vec::new();
        if !self.jobs.is_empty() {
            let users = order.plan.own_users().unwrap_or(0);
            let lead = LEAD + LEAD_A_USER * users;
            order.plan.look_from = None;
            let soon = kit.client.clock().now().after(lead);
            order.plan.start_at.get_or_insert(soon);
        }
        for (jobs, index) in self.jobs.iter().zip(1..) {
            let mut order = order.clone();
            order.plan.shard = self.part(whole.shard, index)?;
            order.plan.path_probe = None;
            let (done, outcome) = oneshot::channel();
            jobs.send((order, done))
                .map_err(|_| Failure::untrusted("a load thread has ended"))?;
            outcomes.push(outcome);
        }
        order.plan.shard = self.part(whole.shard, 0)?;
        let mut all = kit.carry(&order, strategy).await?;
        let mut reports = vec![all.report];
        for outcome in outcomes {
            let ended = Failure::untrusted("a load thread has ended");
            let share = outcome.await.map_err(|_| ended)??;
            all.books.merge(&share.books);
            all.bars.extend(share.bars);
            reports.push(share.report);
        }
        all.report = PointReport::merged(reports, &whole)
            .ok_or_else(|| Failure::untrusted("no load thread has anything to report"))?;
        all.bars = RequestBar::since_the_first(all.bars, BARS);
        Ok(all)
    }

    /// The share of one thread in the share of this process.
    fn part(&self, whole: Shard, index: u16) -> Result<Shard, Failure> {
        let of = u16::try_from(self.jobs.len() + 1).unwrap_or(u16::MAX);
        whole
            .part(index, of)
            .ok_or_else(|| Failure::usage("too many threads"))
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.jobs.clear();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// A further thread: one point after the other, until nobody has another one.
fn work(parts: Parts, index: u16, of: u16, mut inbox: mpsc::UnboundedReceiver<Job>) {
    let Ok(runtime) = runtime() else { return };
    runtime.block_on(async {
        let made = Client::new(parts.target, parts.clock, parts.run).await;
        let kit = made.map(|client| Kit {
            client,
            compose: Rc::new(parts.composer),
            slos: parts.slos,
            rows: parts.rows,
            stop: parts.stop,
        });
        if let Ok(kit) = &kit {
            kit.client.share_numbers(index, of);
        }
        while let Some((order, done)) = inbox.recv().await {
            let outcome = match &kit {
                Ok(kit) => kit.carry(&order, None).await,
                Err(error) => Err(Failure::untrusted(error.to_string())),
            };
            // Whoever asked may have given up on the point.
            let _ = done.send(outcome);
        }
    });
}
