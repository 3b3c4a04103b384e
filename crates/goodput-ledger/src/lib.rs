//! The books: arrivals and records in, exact counts and figures out.
//!
//! Everything counted is a whole number in a bin of time, so posting order, sharding and merging
//! change no figure. Latency distributions are for display; attainment is counted.
//!
//! Entry types: [`PointBooks`] keeps one load point; [`PointRow`] is what it says when
//! the point is over, [`PointSoFar`] while it runs.

mod bins;
mod books;
mod counts;
mod figures;
mod paces;
mod row;
mod so_far;
#[cfg(test)]
mod tests;
mod warm_up;

pub use books::{Latency, PointBooks};
pub use figures::{Charted, PointFacts};
pub use row::{Between, ClauseRow, LengthRow, Mode, PointRow, SloRow, WithFailures};
pub use so_far::{Group, PointSoFar};
