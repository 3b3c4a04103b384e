//! Load points and whole sweeps in virtual time: workload, simulated engine, books and strategy,
//! without a socket or a clock.
//!
//! [`run_point`] is one load point against a [`Replica`], by the same course as on a network (settle,
//! first wave, window, drain; [`goodput_workload::Course`]) and into the same books. [`sweep`] is a
//! whole [`goodput_sweep::auto::Strategy`] against it. A second of virtual time costs a few
//! milliseconds or less, so a strategy can be held against engines whose truth is known.
//!
//! ```
//! use std::{num::NonZeroU32, sync::Arc, time::Duration};
//! use goodput_perf_model::Profile;
//! use goodput_slo::Slo;
//! use goodput_sweep::auto::{PeakPlan, PeakSearch};
//! use goodput_virtual::{Replica, Setting, sweep};
//! use goodput_workload::WorkloadSpec;
//!
//! let mut replica = Replica::new(&Profile::builtin("laptop").unwrap());
//! let workload = Arc::new(WorkloadSpec::preset("chat-short").unwrap());
//! let slos = [Slo::from_argument("chat").unwrap()];
//! let setting = Setting::new(&workload, &slos, 7);
//! let budget = Duration::from_secs(30);
//! let mut search = PeakSearch::new(PeakPlan::new(NonZeroU32::new(4).unwrap(), budget));
//! let points = sweep(&mut replica, &setting, &mut search);
//! assert!(search.found().best.is_some() && points.len() >= 3);
//! ```

mod brief;
mod desk;
pub mod lane;
mod pace;
mod point;
pub mod pool;
mod replica;
mod single_server;
mod sweep;
#[cfg(test)]
mod tests;
mod witness;

pub use pace::Pace;
pub use point::{Detail, Measured, PointPlan, Setting, run_point, run_point_before};
pub use replica::Replica;
pub use single_server::SingleServer;
pub use sweep::{Swept, sweep};
pub use witness::{Sampled, Witness};
