//! Who writes a load point's requests, and who hears of them.

use goodput_record::{Arrival, GapBuffer, Phase, Timestamp};
use goodput_workload::PlannedRequest;

use crate::slip::Ended;

/// Who hears of a load point's requests, on the load thread.
pub trait Observer {
    /// A request was due.
    fn arrived(&self, arrival: &Arrival, phase: Phase);
    /// A request has ended. Called after the next ones are on their way.
    fn ended(&self, ended: Ended);
    /// Whether enough was seen of the point under way, whose window opened at `opened`: then it closes
    /// now. Asked about once a second from [`crate::PointPlan::look_from`] on.
    fn enough(&self, opened: Timestamp, now: Timestamp) -> bool {
        let _ = (opened, now);
        false
    }
    /// An empty buffer for a request's gaps; an observer may hand out used ones.
    fn gap_buffer(&self) -> GapBuffer {
        GapBuffer::default()
    }
}

/// Who writes the body of a planned request.
pub trait Compose {
    /// The body. `replies` are the served answers of the session's earlier steps, by step; `None`
    /// where there was none.
    fn body(&self, request: &PlannedRequest, replies: &[Option<String>]) -> Vec<u8>;
    /// Whether it makes use of `replies`; else the answers' text is not kept for it.
    fn wants_replies(&self) -> bool {
        false
    }
}
