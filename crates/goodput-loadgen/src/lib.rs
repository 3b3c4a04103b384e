//! (being built)
mod clock;
mod course;
mod descriptors;
mod dial;
mod error;
mod plan;
mod reach;
mod stop;
mod target;
mod timer;

pub use clock::Clock;
pub use course::WindowRule;
pub use descriptors::{RESERVE, make_room, sockets_possible};
pub use error::{LoadError, TargetError};
pub use plan::{PointPlan, Settle, Window};
pub use reach::{Reach, reach};
pub use stop::{Stop, Wish};
pub use target::{Api, BearerKey, Endpoint, HttpVersion, Limits, Target};
pub use timer::Timer;
