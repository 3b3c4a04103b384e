//! Where the requests of a run go, and what comes of a load point: the same words for a server on
//! the network and for a replica in virtual time.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use goodput_ledger::{PointBooks, PointFacts, WatchRow};
use goodput_loadgen::{Settle, Stop, Window};
use goodput_record::Timestamp;
use goodput_results::RowWriter;
use goodput_slo::Slo;
use goodput_sweep::RequestBar;
use goodput_workload::{Load, WorkloadSpec};

use super::{
    network::Network,
    observer::{LiveCounts, SharedStrategy},
    outage::Failed,
};
use crate::{exit::Failure, simulate::Virtual};

/// Width of the books' bins: short enough that the edges of a window cost nothing, long enough
/// that an hour is cheap.
pub(crate) const BIN: Duration = Duration::from_millis(100);

/// Where the requests of a run go.
pub(crate) enum Source {
    /// To a server, over sockets.
    Network(Box<Network>),
    /// Into a simulated replica.
    Virtual(Box<Virtual>),
}

/// One load point as it is to be carried out.
#[derive(Clone)]
pub(crate) struct PointOrder {
    /// Its number within the run.
    pub(crate) point: u32,
    /// What its schedule and prompts depend on, beside the run's seed.
    pub(crate) place: u32,
    pub(crate) seed: u64,
    pub(crate) load: Load,
    pub(crate) window: Window,
    pub(crate) settle: Settle,
    /// Whether it only warms the server up.
    pub(crate) warm_up: bool,
    /// Who looks at it while it runs, and from which length of its window on.
    pub(crate) looks: Option<(SharedStrategy, Duration)>,
    /// Over how long the users of a closed loop start, where told.
    pub(crate) ramp: Option<Duration>,
    pub(crate) spec: Arc<WorkloadSpec>,
    pub(crate) slos: Vec<Slo>,
    pub(crate) gpus: Option<u32>,
    pub(crate) rows: Arc<RowWriter>,
    pub(crate) stop: Stop,
    /// What is counted while it runs.
    pub(crate) counts: Arc<Mutex<LiveCounts>>,
}

/// What came of a load point.
pub(crate) struct Observed {
    pub(crate) books: PointBooks,
    /// A sample of its requests.
    pub(crate) bars: Vec<RequestBar>,
    pub(crate) facts: PointFacts,
    /// What was seen of the server.
    pub(crate) server: Option<WatchRow>,
    pub(crate) seen: Seen,
    /// Whether it was ended before its time.
    pub(crate) interrupted: bool,
    /// Whether the server failed it.
    pub(crate) failed: Option<Failed>,
}

/// Who saw the requests of a point, and how well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// A client; `streamed`: whether streams were asked for.
    ByClient { streamed: bool },
    /// The engine itself, without a client; `every_gap`: whether the gaps between tokens are known.
    ByEngine { every_gap: bool },
}

impl Source {
    /// Carries a load point out.
    pub(crate) async fn carry(&mut self, order: &PointOrder) -> Result<Observed, Failure> {
        match self {
            Self::Network(network) => network.carry(order).await,
            Self::Virtual(replica) => replica.carry(order),
        }
    }

    /// What time it is where the requests go.
    pub(crate) fn now(&self) -> Timestamp {
        match self {
            Self::Network(network) => network.client.clock().now(),
            Self::Virtual(replica) => replica.now(),
        }
    }

    /// When the run began by that clock.
    pub(crate) fn began(&self) -> Timestamp {
        match self {
            Self::Network(network) => network.began(),
            Self::Virtual(_) => Timestamp::ZERO,
        }
    }

    /// The number of the signal that ended a point, where the source listens for itself.
    pub(crate) fn caught(&self) -> Option<u8> {
        match self {
            Self::Network(_) => None,
            Self::Virtual(replica) => replica.caught(),
        }
    }

    /// Lets go of all that is not asked any more: threads, files.
    pub(crate) fn close(&mut self) {
        match self {
            Self::Network(network) => network.close(),
            Self::Virtual(replica) => replica.close(),
        }
    }
}
