use std::num::NonZeroU32;

use goodput_perf_model::Profile;
use goodput_record::Outcome;
use proptest::prelude::*;

use super::*;

/// All that an engine said.
#[derive(Debug, Default, PartialEq)]
struct Log {
    admitted: Vec<(Timestamp, u64, u32)>,
    tokens: Vec<(Timestamp, u64)>,
    ended: Vec<(Timestamp, u64, Outcome)>,
}

impl EngineEvents for Log {
    fn admitted(&mut self, at: Timestamp, index: u64, cached: u32) {
        self.admitted.push((at, index, cached));
    }
    fn tokens(&mut self, at: Timestamp, index: u64, count: u32) {
        assert_eq!(count, 1);
        self.tokens.push((at, index));
    }
    fn ended(&mut self, at: Timestamp, index: u64, outcome: Outcome) {
        self.ended.push((at, index, outcome));
    }
}

/// A step takes 10 ms, and 1 ms for each prompt token.
fn profile(slots: u32, batch: u32, cells: u32, unified_kv: bool) -> Profile {
    Profile {
        scheduler: Scheduler::Slots { unified_kv },
        max_num_seqs: NonZeroU32::new(slots).unwrap(),
        max_batched_tokens: NonZeroU32::new(batch).unwrap(),
        kv_blocks: cells / 4,
        block_tokens: NonZeroU32::new(4).unwrap(),
        context_limit: 1 << 20,
        prefix_cache: true,
        step_time: StepTime {
            overhead_s: 10e-3,
            prefill_s: 1e-3,
            ..StepTime::default()
        },
        ..Profile::builtin("laptop").unwrap()
    }
}

fn play(engine: &mut SlotEngine, asks: &[(u64, EngineRequest)]) -> Log {
    let mut log = Log::default();
    for (ms, request) in asks {
        let at = Timestamp::from_millis(*ms);
        engine.advance(at, &mut log);
        engine.submit(at, request.clone()).unwrap();
    }
    engine.advance(Timestamp::FAR_FUTURE, &mut log);
    log
}

fn ms(at: Timestamp) -> u64 {
    at.nanos() / 1_000_000
}

#[test]
fn a_batch_is_one_token_of_all_that_answer_and_prompts_up_to_its_size() {
    let mut engine = SlotEngine::new(&profile(2, 8, 400, false));
    let asks = [
        (0, EngineRequest::new(1, 4, 5)),
        (1, EngineRequest::new(2, 10, 2)),
    ];
    let log = play(&mut engine, &asks);
    // 4 prompt tokens: 14 ms. Then one decodes and the other has 7, then 3 prompt tokens.
    let instants: Vec<(u64, u64)> = log.tokens.iter().map(|t| (ms(t.0), t.1)).collect();
    let expected = [
        (14, 1),
        (31, 1),
        (44, 1),
        (44, 2),
        (54, 1),
        (54, 2),
        (64, 1),
    ];
    assert_eq!(instants, expected);
    assert_eq!(engine.counters().prefill_tokens, 14);
}

#[test]
fn without_a_free_slot_requests_are_deferred_in_their_order() {
    let mut engine = SlotEngine::new(&profile(1, 64, 400, false));
    let asks: Vec<_> = (0..4).map(|i| (i, EngineRequest::new(i, 4, 3))).collect();
    let log = play(&mut engine, &asks);
    // 14 + 10 + 10 ms each, one after the other: what a slot keeps of another prompt is no use.
    let admitted: Vec<(u64, u64)> = log.admitted.iter().map(|a| (ms(a.0), a.1)).collect();
    assert_eq!(admitted, [(0, 0), (34, 1), (68, 2), (102, 3)]);
    assert!(log.ended.iter().all(|e| e.2 == Outcome::Ok));
}

fn with_blocks(index: u64, blocks: &[u64]) -> EngineRequest {
    EngineRequest {
        blocks: blocks.iter().copied().collect(),
        ..EngineRequest::new(index, 4 * u32::try_from(blocks.len()).unwrap(), 2)
    }
}

#[test]
fn the_slot_with_the_longest_common_beginning_is_taken_and_else_the_oldest() {
    let mut engine = SlotEngine::new(&profile(3, 256, 600, false));
    let asks = [
        (0, with_blocks(0, &[1, 2, 3, 4, 5])),
        (1_000, with_blocks(1, &[1, 2, 9, 9, 9])),
        (2_000, with_blocks(2, &[7, 7, 7, 7, 7])),
        // Three blocks of the first, two of the second.
        (3_000, with_blocks(3, &[1, 2, 3, 8, 8])),
        // The whole prompt is there: its last token is computed all the same.
        (4_000, with_blocks(4, &[7, 7, 7, 7, 7])),
        // Nothing in common: the one used longest ago, which the second request had.
        (5_000, with_blocks(5, &[6, 6, 6, 6, 6])),
        (6_000, with_blocks(6, &[1, 2, 9, 9, 9])),
    ];
    let log = play(&mut engine, &asks);
    let cached: Vec<u32> = log.admitted.iter().map(|a| a.2).collect();
    // The second request found the first one's slot: two blocks, and overwrote the rest.
    assert_eq!(cached, [0, 8, 0, 8, 19, 0, 8]);
}

#[test]
fn an_answer_ends_with_the_context_and_a_prompt_that_fills_it_is_refused() {
    let mut engine = SlotEngine::new(&profile(2, 64, 128, false));
    assert_eq!(engine.slot_context(), 64);
    let log = play(&mut engine, &[(0, EngineRequest::new(1, 50, 100))]);
    assert_eq!((log.tokens.len(), log.ended.len()), (14, 1));
    let refused = engine.submit(Timestamp::from_millis(9_000), EngineRequest::new(2, 64, 1));
    assert_eq!(refused, Err(Refusal::TooLong { needs: 65, has: 64 }));
    assert_eq!(engine.counters().refused, 1);
}

#[test]
fn shared_cells_that_run_out_fail_every_request_at_once() {
    let mut engine = SlotEngine::new(&profile(4, 64, 120, true));
    // Four of 20 tokens each, which would grow to 40: 120 cells are full at 30 each.
    let asks: Vec<_> = (0..4).map(|i| (0, EngineRequest::new(i, 20, 21))).collect();
    let log = play(&mut engine, &asks);
    let errors: Vec<_> = log
        .ended
        .iter()
        .filter(|e| e.2 == Outcome::ErrorEvent)
        .collect();
    assert_eq!(errors.len(), 4);
    assert!(errors.iter().all(|e| e.0 == errors[0].0), "all together");
    assert_eq!((engine.counters().killed, engine.cells().0), (4, 0));
    // Cells of their own: the answers end with their context instead.
    let mut apart = SlotEngine::new(&profile(4, 64, 120, false));
    let log = play(&mut apart, &asks);
    assert!(log.ended.iter().all(|e| e.2 == Outcome::Ok));
    assert_eq!(log.tokens.len(), 40);
}

#[test]
fn cells_of_idle_slots_are_given_up_first() {
    let mut engine = SlotEngine::new(&profile(4, 64, 120, true));
    let asks: Vec<_> = (0..6)
        .map(|i| (i * 1_000, EngineRequest::new(i, 40, 10)))
        .collect();
    let log = play(&mut engine, &asks);
    assert!(
        log.ended.iter().all(|e| e.2 == Outcome::Ok),
        "{:?}",
        log.ended
    );
    assert!(engine.cells().0 <= 120);
}

#[test]
fn a_cancelled_request_leaves_its_slot_at_once() {
    let mut engine = SlotEngine::new(&profile(1, 64, 400, false));
    let (mut log, at) = (Log::default(), Timestamp::from_millis);
    engine.submit(at(0), EngineRequest::new(1, 4, 50)).unwrap();
    engine.submit(at(0), EngineRequest::new(2, 4, 2)).unwrap();
    engine.submit(at(0), EngineRequest::new(3, 4, 2)).unwrap();
    engine.advance(at(20), &mut log);
    assert!(engine.cancel(at(20), 1) && engine.cancel(at(20), 3) && !engine.cancel(at(20), 1));
    engine.advance(Timestamp::FAR_FUTURE, &mut log);
    let ended: Vec<(u64, u64)> = log.ended.iter().map(|e| (ms(e.0), e.1)).collect();
    // The step under way at 20 ms ends at 24.
    assert_eq!(ended, [(48, 2)]);
    let c = engine.counters();
    assert_eq!((c.submitted, c.finished, c.cancelled), (3, 1, 2));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_request_ends_cells_suffice_and_the_calls_make_no_difference(
        slots in 1..5_u32,
        batch in 4..40_u32,
        cells in 40..400_u32,
        unified: bool,
        asks in proptest::collection::vec((0..50_u64, 1..60_u32, 1..40_u32, 0..3_u64), 1..25),
        stride in 1..40_u64,
    ) {
        let profile = profile(slots, batch, cells, unified);
        let (mut whole, mut pieces) = (SlotEngine::new(&profile), SlotEngine::new(&profile));
        let (mut one, mut two) = (Log::default(), Log::default());
        let (mut at, mut taken, mut now) = (0, 0, 0);
        for (index, (wait, input, output, group)) in (0..).zip(&asks) {
            at += wait;
            let blocks = (0..u64::from(*input / 4)).map(|b| group << 32 | b).collect();
            let request = EngineRequest { blocks, ..EngineRequest::new(index, *input, *output) };
            let instant = Timestamp::from_millis(at);
            while now < at {
                now = (now + stride).min(at);
                pieces.advance(Timestamp::from_millis(now), &mut two);
            }
            whole.advance(instant, &mut one);
            let accepted = whole.submit(instant, request.clone()).is_ok();
            pieces.advance(instant, &mut two);
            prop_assert_eq!(accepted, pieces.submit(instant, request).is_ok());
            taken += u64::from(accepted);
            prop_assert!(whole.cells().0 <= whole.cells().1);
        }
        whole.advance(Timestamp::FAR_FUTURE, &mut one);
        while let Some(next) = pieces.next_event() {
            pieces.advance(next, &mut two);
            prop_assert!(pieces.cells().0 <= pieces.cells().1);
        }
        prop_assert_eq!(&one, &two);
        let c = whole.counters();
        prop_assert_eq!((c.submitted, c.finished + c.killed), (taken, taken));
        prop_assert_eq!(one.ended.len() as u64, taken);
        prop_assert!(unified || c.killed == 0);
        prop_assert_eq!(c.output_tokens, one.tokens.len() as u64);
        prop_assert_eq!(whole.running() + whole.waiting(), 0);
    }
}
