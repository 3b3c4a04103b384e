//! Dispatch: which replica a request goes to, how long it waits, when it is refused.
//!
//! A [`Dispatcher`] knows replicas and open requests and nothing else: no socket, no clock, no
//! prompt. It is told of what happens, with the time of it, and answers with decisions; the same
//! code runs in front of simulated replicas and of real ones.
//!
//! - A request that is offered ([`Dispatcher::offer`]) is sent, waits or is refused at once. It ends
//!   as exactly one of sent, shed, expired or cancelled, and a sent one is settled exactly once:
//!   a ticket that is used again does nothing ([`Dispatcher::settle`], [`Dispatcher::cancel`]).
//! - A replica takes requests once it is ready ([`Gate`]) and while it is below its [`Limits`].
//! - The queue is three tiers: priority classes, each with a share that it is guaranteed; within a
//!   class, tenants by the work they were sent for their weight; within a tenant, the class's
//!   [`Order`]. It is bounded. Whoever is refused is told when to come back, from the pace at which
//!   work gets done.
//! - A tenant over its own [`Terms`] is refused and nobody else is.
//!
//! A decision costs as many comparisons as there are doublings in replicas or waiting requests.
//! Memory is bounded by the limits on queue and replicas, the table of prefixes by its size.
//!
//! ```
//! use goodput_dispatch::{Config, Dispatcher, Ended, Event, Limits, Offer, Policy, Role, Route};
//! use goodput_record::Timestamp;
//!
//! let mut dispatcher = Dispatcher::new(Config::new(Policy::LeastWork)).unwrap();
//! let now = Timestamp::ZERO;
//! let replica = dispatcher.join(Role::Whole, Limits::in_flight(1), 1.0).unwrap();
//! dispatcher.up(now, replica);
//! let Route::Send { ticket, .. } = dispatcher.offer(now, &Offer::new(1, 100, 20)) else {
//!     panic!("there is room");
//! };
//! assert!(matches!(dispatcher.offer(now, &Offer::new(2, 100, 20)), Route::Wait { .. }));
//! dispatcher.settle(Timestamp::from_millis(80), ticket, Ended::Ok, None);
//! while let Some(event) = dispatcher.poll(Timestamp::from_millis(80)) {
//!     if let Event::Send { id, .. } = event {
//!         assert_eq!(id, 2);
//!     }
//! }
//! ```

mod affinity;
mod config;
mod dispatcher;
mod fleet;
mod pace;
mod queue;
mod readiness;
mod request;
mod ring;
mod routing;
mod slab;
mod tenants;
#[cfg(test)]
mod tests;
mod tournament;

pub use config::{
    Class, Config, Ejection, Gate, Guard, MOST_CLASSES, Order, Policy, Rate, Terms, Unsound,
};
pub use dispatcher::Dispatcher;
pub use fleet::{Limits, ReplicaState, Role};
pub use request::{Counters, Ended, Event, Offer, ReplicaId, Route, TenantId, Ticket, Was, Why};
pub use tournament::Tournament;
