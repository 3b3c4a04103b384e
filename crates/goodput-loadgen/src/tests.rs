//! Load points against small servers in the same process, on raw sockets.

mod faults;
mod points;
mod probing;
mod promises;
mod secure;
pub(crate) mod server;
mod shards;

use std::{
    cell::RefCell, future::Future, net::SocketAddr, num::NonZeroU32, rc::Rc, sync::Arc,
    time::Duration,
};

use goodput_record::{Arrival, Phase, RequestSummary};
use goodput_workload::{Load, PlannedRequest, Shard, Workload, WorkloadSpec};

use crate::{
    Client, Clock, Compose, Ended, Endpoint, Observer, PointPlan, PointReport, Settle, Stop,
    Target, Window, run_point, runtime,
};

/// What an observer hears, kept.
#[derive(Default)]
pub(crate) struct Heard {
    pub(crate) arrived: RefCell<Vec<(u64, Phase)>>,
    pub(crate) ended: RefCell<Vec<Ended>>,
}

impl Observer for Heard {
    fn arrived(&self, arrival: &Arrival, phase: Phase) {
        self.arrived.borrow_mut().push((arrival.id, phase));
    }
    fn ended(&self, ended: Ended) {
        self.ended.borrow_mut().push(ended);
    }
}

impl Heard {
    pub(crate) fn summaries(&self, phase: Phase) -> Vec<RequestSummary> {
        let ended = self.ended.borrow();
        let of_phase = ended.iter().filter(|e| e.phase == phase);
        of_phase.map(|e| e.record.summary).collect()
    }

    pub(crate) fn only(&self) -> Ended {
        let ended = self.ended.borrow();
        assert_eq!(ended.len(), 1, "{ended:?}");
        ended[0].clone()
    }
}

/// A body with just what the servers look at.
pub(crate) struct Plain;

impl Compose for Plain {
    fn body(&self, request: &PlannedRequest, _: &[Option<String>]) -> Vec<u8> {
        format!(
            r#"{{"model":"m","stream":true,"max_tokens":{}}}"#,
            request.output_tokens
        )
        .into_bytes()
    }
}

pub(crate) fn run<F: Future>(work: F) -> F::Output {
    let runtime = runtime().unwrap();
    let limited = async { tokio::time::timeout(Duration::from_secs(30), work).await };
    runtime
        .block_on(limited)
        .expect("a test takes no 30 seconds")
}

pub(crate) fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub(crate) fn count(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).unwrap()
}

pub(crate) fn closed(users: u32) -> Load {
    Load::Closed(count(users))
}

/// Exactly `requests` requests, none dropped.
pub(crate) fn counted(load: Load, requests: u32) -> PointPlan {
    PointPlan {
        settle: Settle::None,
        ..PointPlan::new(0, load, Window::Requests(count(requests)))
    }
}

pub(crate) fn target(server: SocketAddr) -> Target {
    Target::new(
        Endpoint::parse(&format!("http://{server}/v1")).unwrap(),
        "m",
    )
}

pub(crate) fn workload(load: Load) -> Workload {
    let spec = Arc::new(WorkloadSpec::preset("chat-short").unwrap());
    Workload::with_ramp(&spec, load, 7, Shard::WHOLE, Duration::ZERO)
}

pub(crate) async fn drive(
    target: Target,
    plan: &PointPlan,
    stop: &Stop,
) -> (PointReport, Rc<Heard>) {
    let client = Client::new(target, Clock::start(), "t").await.unwrap();
    let heard = Rc::new(Heard::default());
    let compose: Rc<dyn Compose> = Rc::new(Plain);
    let report = run_point(&client, &compose, workload(plan.load), plan, &heard, stop).await;
    (report.unwrap(), heard)
}

/// One request against `server`, and what became of it.
pub(crate) async fn one(target: Target) -> Ended {
    let (_, heard) = drive(target, &counted(closed(1), 1), &Stop::new()).await;
    heard.only()
}
