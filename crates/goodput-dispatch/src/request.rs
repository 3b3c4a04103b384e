//! What is asked of a dispatcher, and what it answers.

use std::time::Duration;

use goodput_record::{BlockRun, Timestamp};

/// A replica's number. Numbers of replicas that are gone are given again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaId(pub u16);

impl ReplicaId {
    /// As a place in a list.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A tenant's number; who hands them out keeps the names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId(pub u32);

/// The dispatcher's hold on one request, from its offer to its end. A ticket of a request that has
/// ended is recognised as such, so nothing is released twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

/// A request that wants a replica.
///
/// Work is in one unit throughout a dispatcher, tokens or microseconds, as predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer<'a> {
    /// The caller's number for it, told again in events.
    pub id: u64,
    /// Its class; beyond the last one counts as the last.
    pub class: u8,
    /// Who asks.
    pub tenant: TenantId,
    /// The session it belongs to, for stickiness.
    pub session: Option<u64>,
    /// Work up to the first token.
    pub prefill_work: u64,
    /// Work after it.
    pub decode_work: u64,
    /// When it is late, for [`crate::Order::Deadline`].
    pub deadline: Option<Timestamp>,
    /// The prompt's leading blocks, for [`crate::Policy::PrefixAffinity`].
    pub prefix: &'a [BlockRun],
}

impl Offer<'_> {
    /// A request of the most urgent class of tenant 0.
    #[must_use]
    pub const fn new(id: u64, prefill_work: u64, decode_work: u64) -> Self {
        Self {
            id,
            class: 0,
            tenant: TenantId(0),
            session: None,
            prefill_work,
            decode_work,
            deadline: None,
            prefix: &[],
        }
    }
}

/// What becomes of a request that was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// It goes to this replica now.
    Send {
        /// To be settled.
        ticket: Ticket,
        /// Where to.
        replica: ReplicaId,
    },
    /// It waits. [`crate::Dispatcher::poll`] tells when it is sent, shed or has expired, which is
    /// then at the latest.
    Wait {
        /// To be settled or cancelled.
        ticket: Ticket,
        /// When it expires.
        until: Timestamp,
    },
    /// It is refused. There is no ticket and nothing to settle.
    Shed {
        /// Why.
        why: Why,
        /// When to ask again.
        retry_after: Duration,
    },
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Why {
    /// The queue is full of others, none of which is less urgent or of a tenant with more of them.
    QueueFull,
    /// It waited, but had to make room for a more urgent one or for a tenant with fewer.
    Displaced,
    /// No replica is there, and none will be within the longest wait.
    NoReplica,
    /// The tenant is over its rate.
    TenantRate,
    /// The tenant has as many requests open as it may.
    TenantOpen,
    /// It was sent as often as it may be.
    Attempts,
    /// The dispatcher takes nothing new.
    Closing,
}

impl Why {
    /// Every reason, in the order of [`crate::Counters::shed`].
    pub const ALL: [Self; 7] = [
        Self::QueueFull,
        Self::Displaced,
        Self::NoReplica,
        Self::TenantRate,
        Self::TenantOpen,
        Self::Attempts,
        Self::Closing,
    ];

    /// Whether the tenant alone is to blame: no other request would have been refused. Such a
    /// refusal is no miss of the service.
    #[must_use]
    pub const fn is_tenants_own(self) -> bool {
        matches!(self, Self::TenantRate | Self::TenantOpen)
    }
}

/// How a request that was sent has ended, as far as dispatch is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was answered.
    Ok,
    /// The client left, or a limit of the client's struck: nothing is said of the replica.
    Cancelled,
    /// The replica failed.
    Failed,
    /// The replica refused it for now, and perhaps said for how long. No failure.
    Refused {
        /// As the replica said.
        retry_after: Option<Duration>,
    },
}

/// What happened to requests and replicas in the meantime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A waiting request goes to a replica.
    Send {
        /// The caller's number for it.
        id: u64,
        /// To be settled.
        ticket: Ticket,
        /// Where to.
        replica: ReplicaId,
    },
    /// A waiting request is refused after all. Its ticket is void.
    Shed {
        /// The caller's number for it.
        id: u64,
        /// Why.
        why: Why,
        /// When to ask again.
        retry_after: Duration,
    },
    /// A request has waited as long as it may. Its ticket is void.
    Expired {
        /// The caller's number for it.
        id: u64,
        /// When to ask again.
        retry_after: Duration,
    },
    /// A warm-up request is to be sent to this replica, and its TTFT told to
    /// [`crate::Dispatcher::probed`].
    Probe {
        /// Where to.
        replica: ReplicaId,
    },
    /// A replica takes requests from now on.
    Ready {
        /// Which.
        replica: ReplicaId,
    },
    /// A replica is left out for a while.
    LeftOut {
        /// Which.
        replica: ReplicaId,
        /// Until when.
        until: Timestamp,
    },
    /// A draining replica has nothing left to do and is gone.
    Drained {
        /// Which.
        replica: ReplicaId,
    },
}

/// Where a request was when it was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Was {
    /// In the queue.
    Waiting,
    /// At a replica, which has to be told.
    At(ReplicaId),
    /// Already over, or handed out by another dispatcher.
    Over,
}

/// Requests by their fate. At every moment `offered` = sent for the first time + shed + expired +
/// cancelled while waiting + waiting for the first time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Offered.
    pub offered: u64,
    /// Sent to a replica, each counted once however often it was sent.
    pub sent: u64,
    /// Refused before any replica saw them, by the reason's place in [`Why::ALL`].
    pub shed: [u64; 7],
    /// Expired before any replica saw them.
    pub expired: u64,
    /// Cancelled before any replica saw them.
    pub cancelled: u64,
    /// Of those sent, how many have ended: answered, failed, cancelled, or refused, expired or
    /// cancelled while they waited for a further attempt.
    pub settled: u64,
    /// Attempts beyond the first.
    pub retries: u64,
    /// Handed from a prefill to a decode replica.
    pub handed_over: u64,
}
