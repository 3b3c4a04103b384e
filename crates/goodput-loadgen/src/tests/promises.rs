//! What holds for every request, whatever happens to its task.

use std::cell::Cell;

use goodput_record::{
    End, GapBuffer, OpenRequest, Outcome, RequestRecord, Timestamp, TokenCount, testing::arrival,
};

use super::{server::serve, *};
use crate::{
    answering::Answering,
    connection::Received,
    exchange::Exchange,
    inbox::Inbox,
    slip::{Desk, Note, Slip},
};

#[derive(Default)]
struct Filed {
    arrived: Cell<u32>,
    ended: RefCell<Vec<(RequestRecord, Note)>>,
}

impl Desk for Filed {
    fn arrived(&self, _: &Arrival) {
        self.arrived.set(self.arrived.get() + 1);
    }
    fn in_flight(&self) {}
    fn ended(&self, record: RequestRecord, _: Phase, note: Note) {
        self.ended.borrow_mut().push((record, note));
    }
    fn gap_buffer(&self) -> GapBuffer {
        GapBuffer::default()
    }
}

/// What a request that is dropped in the middle is filed as.
fn dropped(how: impl FnOnce(Exchange) + 'static) -> (Outcome, String) {
    run(async {
        let desk = Rc::new(Filed::default());
        let client = Client::new(target("127.0.0.1:9".parse().unwrap()), Clock::start(), "t");
        let slip = Slip::new(
            Rc::clone(&desk) as Rc<dyn Desk>,
            Phase::Measured,
            Timestamp::ZERO,
        );
        let open = OpenRequest::arrive(Rc::clone(&slip), arrival(Timestamp::ZERO));
        let exchange = Exchange::new(client.await.unwrap(), slip, open, false);
        let _ = tokio::task::spawn_local(async move { how(exchange) }).await;
        assert_eq!((desk.arrived.get(), desk.ended.borrow().len()), (1, 1));
        let (record, note) = desk.ended.borrow_mut().remove(0);
        (record.summary.outcome(), note.error.unwrap())
    })
}

#[test]
fn a_panic_files_a_failure_and_says_whose() {
    let (outcome, error) = dropped(|_exchange| panic!("a bug, made for this test"));
    assert_eq!(outcome, Outcome::Failed);
    assert!(error.contains("goodput itself"), "{error}");
}

#[test]
fn a_request_that_is_given_up_is_cancelled_not_failed() {
    let (outcome, error) = dropped(drop);
    assert_eq!(outcome, Outcome::Cancelled);
    assert!(error.contains("cancelled by goodput"), "{error}");
}

/// A thousand streams may end together, and each waits for its turn to be filed. Those that still wait
/// when the point is over were answered to their end.
#[test]
fn an_answer_that_waits_to_be_filed_when_the_point_is_over_was_whole() {
    run(async {
        let (address, _) = serve(|mut sock, _, _| async move {
            sock.stream(3, ms(0), ms(0)).await?;
            Ok(Some(sock))
        })
        .await;
        let client = Client::new(target(address), Clock::start(), "t").await;
        let client = client.unwrap();
        let desk = Rc::new(Filed::default());
        let slip = Slip::new(
            Rc::clone(&desk) as Rc<dyn Desk>,
            Phase::Measured,
            Timestamp::ZERO,
        );
        let open = OpenRequest::arrive(Rc::clone(&slip), arrival(Timestamp::ZERO));
        let exchange = Exchange::new(Rc::clone(&client), slip, open, false);
        // So many stand before it that its turn does not come.
        (0..1_000).for_each(|_| client.ends.stand());
        let wire = crate::exchange::Wire {
            body: b"{}".to_vec(),
            id: "t-0".to_owned(),
        };
        let flight = tokio::task::spawn_local(exchange.run(wire));
        while client.ends.standing() == 1_000 {
            tokio::task::yield_now().await;
        }
        assert_eq!(desk.ended.borrow().len(), 0, "its turn has come");
        flight.abort();
        let _ = flight.await;
        let (record, note) = desk.ended.borrow_mut().remove(0);
        assert_eq!((record.summary.outcome(), note.error), (Outcome::Ok, None));
    });
}

/// O-ST-04: one connection, ten requests a second, and a stall of a second at 2.0 s.
#[test]
fn latency_runs_from_the_schedule_and_the_lag_stands_beside_it() {
    let desk = Rc::new(Filed::default());
    let mut free_ms = 0;
    for due_ms in (0..100).map(|i| i * 100) {
        let slip = Slip::new(
            Rc::clone(&desk) as Rc<dyn Desk>,
            Phase::Measured,
            Timestamp::ZERO,
        );
        let mut open = OpenRequest::arrive(slip, arrival(Timestamp::from_millis(due_ms)));
        let sent = free_ms.max(due_ms);
        free_ms = sent + if due_ms == 2_000 { 1_010 } else { 10 };
        open.sent(Timestamp::from_millis(sent));
        open.token_event(Timestamp::from_millis(free_ms), 1, true);
        let end = End {
            output_tokens: Some(TokenCount::Usage(1)),
            ..End::of(Outcome::Ok)
        };
        open.end(Timestamp::from_millis(free_ms), end);
    }
    let all: Vec<_> = desk.ended.borrow().iter().map(|(r, _)| r.summary).collect();
    let mut from_schedule: Vec<_> = all.iter().map(|s| s.e2e().unwrap()).collect();
    let mut from_send: Vec<_> = all
        .iter()
        .map(|s| s.e2e().unwrap() - s.send_lag().unwrap())
        .collect();
    from_schedule.sort();
    from_send.sort();
    assert_eq!((from_schedule[99], from_schedule[98]), (ms(1_010), ms(920)));
    assert_eq!((from_send[99], from_send[98]), (ms(1_010), ms(10)));
    assert_eq!(
        all.iter()
            .filter(|s| s.send_lag() > Some(Duration::ZERO))
            .count(),
        11
    );
}

/// Reads that follow each other at once are all stamped before any is parsed; a read by itself is
/// parsed on the spot.
#[test]
fn in_a_run_of_reads_parsing_waits() {
    let desk = Rc::new(Filed::default());
    let inbox = Inbox::default();
    let answers: Vec<_> = (0..5)
        .map(|_| {
            let slip = Slip::new(
                Rc::clone(&desk) as Rc<dyn Desk>,
                Phase::Measured,
                Timestamp::ZERO,
            );
            let open = OpenRequest::arrive(slip, arrival(Timestamp::ZERO));
            let answering = Answering::new(crate::HttpVersion::Http1, open, false);
            Rc::new(RefCell::new(answering))
        })
        .collect();
    let read = |answer: usize, at_us: u64| {
        let at = Timestamp::from_nanos(at_us * 1_000);
        inbox.leave(&answers[answer], Received::made(b"HTTP/1.1 200 OK\r\n", at));
        answers[answer].borrow().latest() == at
    };
    assert!(
        read(0, 1_000) && read(1, 1_002),
        "nobody else seems to wait"
    );
    assert!(!read(2, 1_004) && !read(3, 1_006), "a run: read first");
    assert!(!read(4, 9_000), "in the order of the reads");
    inbox.drain();
    assert_eq!(
        answers[2].borrow().latest(),
        Timestamp::from_nanos(1_004_000)
    );
    assert_eq!(
        answers[4].borrow().latest(),
        Timestamp::from_nanos(9_000_000)
    );
    assert!(read(2, 10_000), "the run is over");
}
