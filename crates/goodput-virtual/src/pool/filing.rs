//! The books of one stream, and the buffers its records are made in.

use std::cell::{Cell, RefCell};

use goodput_ledger::PointBooks;
use goodput_record::{Arrival, GapBuffer, Gaps, Phase, RequestRecord, Sink};

/// Files the records of a stream in its books.
pub(super) struct Filing {
    pub(super) books: RefCell<PointBooks>,
    /// The part of the run to which the request belongs that ends next.
    pub(super) phase: Cell<Phase>,
    buffers: RefCell<Vec<GapBuffer>>,
}

impl Filing {
    pub(super) fn new(books: PointBooks) -> Self {
        Self {
            books: RefCell::new(books),
            phase: Cell::new(Phase::Measured),
            buffers: RefCell::default(),
        }
    }
}

impl Sink for Filing {
    fn arrived(&self, arrival: &Arrival) {
        self.books.borrow_mut().arrived(arrival);
    }

    fn ended(&self, record: RequestRecord) {
        let mut books = self.books.borrow_mut();
        books.post(&record.summary, &record.gaps, self.phase.get());
        if let Gaps::Kept(mut buffer) = record.gaps {
            buffer.clear();
            self.buffers.borrow_mut().push(buffer);
        }
    }

    fn gap_buffer(&self) -> GapBuffer {
        self.buffers.borrow_mut().pop().unwrap_or_default()
    }
}
