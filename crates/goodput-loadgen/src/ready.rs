//! Requests that are written and wait for their due time, the earliest first.

use goodput_record::Timestamp;
use goodput_workload::PlannedRequest;

use crate::exchange::Wire;

/// A request that waits for its due time.
pub(crate) struct Ready {
    pub(crate) due: Timestamp,
    pub(crate) order: u64,
    pub(crate) planned: PlannedRequest,
    pub(crate) wire: Wire,
    pub(crate) id: u64,
}

impl PartialEq for Ready {
    fn eq(&self, other: &Self) -> bool {
        (self.due, self.order) == (other.due, other.order)
    }
}
impl Eq for Ready {}
impl PartialOrd for Ready {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Ready {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due, self.order).cmp(&(other.due, other.order))
    }
}
