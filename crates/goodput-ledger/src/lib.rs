//! The books: arrivals and records in, exact counts and figures out.
//!
//! Everything counted is a whole number in a bin of time, so posting order, sharding and merging
//! change no figure. Latency distributions are for display; attainment is counted.
//!
//! Entry types: [`PointBooks`] keeps one load point; [`PointRow`] is what it says when
//! the point is over, [`PointSoFar`] while it runs.

mod bins;
mod books;
mod brief;
mod checks;
mod counts;
mod figures;
mod measured;
mod paces;
mod row;
mod saved;
mod so_far;
#[cfg(test)]
mod tests;
mod warm_up;

pub use books::{Latency, PointBooks};
pub use checks::{CheckRow, SpeedShift};
pub use figures::{Charted, PointFacts};
pub use measured::{Amount, MeasuredPoint, MeasuredRequest, Pairs, Sampled};
pub use row::{
    Between, ClauseRow, ClientRow, LengthRow, Mode, PointRow, SloRow, WatchRow, WithFailures,
};
pub use saved::{BooksError, SavedBooks};
pub use so_far::{Group, PointSoFar};
