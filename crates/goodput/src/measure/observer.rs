//! What a load point's requests are posted to: the books, the rows on disk, the live line.

use std::{
    cell::RefCell,
    rc::Rc,
    sync::{Arc, Mutex},
};

use goodput_ledger::PointBooks;
use goodput_loadgen::{Ended, Observer};
use goodput_record::{Arrival, Phase, RequestSummary, Series, SeriesId, Timestamp};
use goodput_results::{RowJob, RowWriter};
use goodput_slo::Verdict;
use goodput_sweep::{
    RequestBar,
    auto::{Look, Strategy},
};

/// Requests of a point that the timeline shows.
pub(crate) const BARS: usize = 120;

/// What the live line shows of the point that runs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LiveCounts {
    /// Arrivals so far.
    pub(crate) arrived: u64,
    /// Ended so far.
    pub(crate) ended: u64,
    /// Of these, those of which an answer came, whatever it was.
    pub(crate) answered: u64,
    /// Measured and ended.
    pub(crate) measured: u64,
    /// Measured and met.
    pub(crate) met: u64,
}

/// Posts what happens on the load thread.
pub(crate) struct PointObserver {
    point: u32,
    books: RefCell<PointBooks>,
    rows: Arc<RowWriter>,
    names: Rc<dyn Fn(SeriesId) -> Series>,
    bars: RefCell<Vec<RequestBar>>,
    live: Arc<Mutex<LiveCounts>>,
    strategy: Option<SharedStrategy>,
}

/// A strategy that looks at points while they run.
pub(crate) type SharedStrategy = Rc<RefCell<dyn Strategy>>;

impl PointObserver {
    pub(crate) fn new(
        point: u32,
        books: PointBooks,
        rows: Arc<RowWriter>,
        names: Rc<dyn Fn(SeriesId) -> Series>,
        live: Arc<Mutex<LiveCounts>>,
        strategy: Option<SharedStrategy>,
    ) -> Self {
        Self {
            point,
            books: RefCell::new(books),
            rows,
            names,
            bars: RefCell::default(),
            live,
            strategy,
        }
    }

    /// The books and the sample of requests.
    pub(crate) fn into_parts(self) -> (PointBooks, Vec<RequestBar>) {
        (self.books.into_inner(), self.bars.into_inner())
    }

    fn keep_bar(&self, summary: &RequestSummary, verdict: Option<&Verdict>) {
        let mut bars = self.bars.borrow_mut();
        if bars.len() < BARS {
            bars.push(RequestBar::of(summary, verdict == Some(&Verdict::Met)));
        }
    }
}

impl Observer for PointObserver {
    fn arrived(&self, arrival: &Arrival, _phase: Phase) {
        self.books.borrow_mut().arrived(arrival);
        lock(&self.live).arrived += 1;
    }

    fn enough(&self, opened: Timestamp, now: Timestamp) -> bool {
        let Some(strategy) = &self.strategy else {
            return false;
        };
        let mut books = self.books.borrow_mut();
        match strategy.borrow_mut().look(&books.so_far(opened, now)) {
            Look::Wait => false,
            Look::GoOn => {
                books.looked();
                false
            }
            Look::Close(_) => true,
        }
    }

    fn ended(&self, ended: Ended) {
        let (record, phase) = (ended.record, ended.phase);
        let mut books = self.books.borrow_mut();
        let verdicts = books.post(&record.summary, &record.gaps, phase);
        drop(books);
        let measured = phase == Phase::Measured;
        {
            let mut live = lock(&self.live);
            live.ended += 1;
            live.answered += u64::from(record.summary.first_byte().is_some());
            live.measured += u64::from(measured);
            live.met += u64::from(measured && verdicts.first() == Some(&Verdict::Met));
        }
        if measured {
            self.keep_bar(&record.summary, verdicts.first());
        }
        let series = Arc::new((self.names)(record.summary.arrival().series));
        self.rows.send(RowJob {
            point: self.point,
            phase,
            series,
            verdicts: verdicts.iter().map(|v| v.word()).collect(),
            text: ended.text,
            error: ended.error,
            record,
        });
    }
}

/// A lock that a panic elsewhere does not take away.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
