//! The slip of paper that goes with one open request: where it is filed, and what the record has
//! no field for.

use std::{cell::RefCell, rc::Rc, time::Duration};

use goodput_record::{Arrival, GapBuffer, Phase, RequestRecord, Sink, Timestamp};

/// A request that has ended, with what its record has no room for.
#[derive(Clone, Debug)]
pub struct Ended {
    /// What happened.
    pub record: RequestRecord,
    /// Which part of the load point it belongs to.
    pub phase: Phase,
    /// The answer's text, where the target keeps it.
    pub text: Option<String>,
    /// Why it failed, in a sentence; `None` if it did not.
    pub error: Option<String>,
}

/// What is known of a request beside its record.
#[derive(Clone, Debug, Default)]
pub(crate) struct Note {
    pub(crate) text: Option<String>,
    pub(crate) error: Option<String>,
    /// When it was due.
    pub(crate) due: Timestamp,
    /// When the load thread turned to it; later than due by the thread's own lag.
    pub(crate) begun: Option<Timestamp>,
    /// How long the server says it decoded.
    pub(crate) server_decode: Option<Duration>,
    /// What the answerer calls itself.
    pub(crate) answered_as: Option<String>,
    /// Why it could not be sent, if that is a matter of this machine, and what to do.
    pub(crate) ours: Option<String>,
    /// Whether it is counted as in flight.
    pub(crate) in_flight: bool,
}

/// Who files the requests of a load point.
pub(crate) trait Desk {
    fn arrived(&self, arrival: &Arrival);
    fn in_flight(&self);
    fn ended(&self, record: RequestRecord, phase: Phase, note: Note);
    fn gap_buffer(&self) -> GapBuffer;
}

/// One request's way to the desk.
pub(crate) struct Slip {
    desk: Rc<dyn Desk>,
    phase: Phase,
    pub(crate) note: RefCell<Note>,
}

impl std::fmt::Debug for Slip {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slip")
            .field("phase", &self.phase)
            .finish_non_exhaustive()
    }
}

impl Slip {
    /// The slip of a request that was due at `due`.
    pub(crate) fn new(desk: Rc<dyn Desk>, phase: Phase, due: Timestamp) -> Rc<Self> {
        let note = Note {
            due,
            ..Note::default()
        };
        Rc::new(Self {
            desk,
            phase,
            note: RefCell::new(note),
        })
    }

    /// Its bytes go to the server.
    pub(crate) fn in_flight(&self) {
        if !std::mem::replace(&mut self.note.borrow_mut().in_flight, true) {
            self.desk.in_flight();
        }
    }
}

impl Sink for Slip {
    fn arrived(&self, arrival: &Arrival) {
        self.desk.arrived(arrival);
    }

    fn ended(&self, record: RequestRecord) {
        self.desk.ended(record, self.phase, self.note.take());
    }

    fn gap_buffer(&self) -> GapBuffer {
        self.desk.gap_buffer()
    }
}
