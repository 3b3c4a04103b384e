use std::{collections::BTreeMap, num::NonZeroU32, time::Duration};

use goodput_record::Blocks;
use proptest::prelude::*;

use super::*;

const BLOCK: u32 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Admitted(u64, u32),
    Token(u64),
    Preempted(u64),
    Ended(u64),
}

/// Every event with its nanosecond.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Log(Vec<(u64, Event)>);

impl EngineEvents for Log {
    fn admitted(&mut self, at: Timestamp, index: u64, cached_tokens: u32) {
        self.0
            .push((at.nanos(), Event::Admitted(index, cached_tokens)));
    }
    fn tokens(&mut self, at: Timestamp, index: u64, count: u32) {
        assert_eq!(count, 1);
        self.0.push((at.nanos(), Event::Token(index)));
    }
    fn preempted(&mut self, at: Timestamp, index: u64) {
        self.0.push((at.nanos(), Event::Preempted(index)));
    }
    fn ended(&mut self, at: Timestamp, index: u64, outcome: Outcome) {
        assert_eq!(outcome, Outcome::Ok);
        self.0.push((at.nanos(), Event::Ended(index)));
    }
}

/// The nanosecond and the number of every end.
#[derive(Clone, Debug, Default)]
struct Ends(Vec<(u64, u64)>);

impl EngineEvents for Ends {
    fn tokens(&mut self, _: Timestamp, _: u64, _: u32) {}
    fn ended(&mut self, at: Timestamp, index: u64, _: Outcome) {
        self.0.push((at.nanos(), index));
    }
}

impl Log {
    fn of(&self, index: u64) -> Vec<(u64, Event)> {
        let is_of = |event: Event| match event {
            Event::Admitted(i, _) | Event::Token(i) | Event::Preempted(i) | Event::Ended(i) => {
                i == index
            }
        };
        self.0.iter().copied().filter(|e| is_of(e.1)).collect()
    }

    fn count(&self, wanted: impl Fn(Event) -> bool) -> usize {
        self.0.iter().filter(|e| wanted(e.1)).count()
    }

    fn cached(&self) -> Vec<u32> {
        let cached = |e: &(u64, Event)| match e.1 {
            Event::Admitted(_, cached) => Some(cached),
            _ => None,
        };
        self.0.iter().filter_map(cached).collect()
    }
}

fn non_zero(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).unwrap()
}

/// A step takes 1 ms, and 1 us more for every prompt token and every decoding sequence.
fn profile(max_num_seqs: u32, max_batched_tokens: u32, kv_blocks: u32) -> Profile {
    Profile {
        max_num_seqs: non_zero(max_num_seqs),
        max_batched_tokens: non_zero(max_batched_tokens),
        kv_blocks,
        block_tokens: non_zero(BLOCK),
        context_limit: 1_000_000,
        step_time: StepTime {
            overhead_s: 1e-3,
            sequence_s: 1e-6,
            prefill_s: 1e-6,
            ..StepTime::default()
        },
        ..Profile::builtin("laptop").unwrap()
    }
}

fn at(micros: u64) -> Timestamp {
    Timestamp::from_nanos(micros * 1_000)
}

fn finish(engine: &mut Engine) -> Log {
    let mut log = Log::default();
    let mut events = 0;
    while let Some(next) = engine.next_event() {
        engine.advance(next, &mut log);
        events += 1;
        assert!(events < 1_000_000, "the engine does not come to an end");
        assert!(engine.pool.is_sound());
    }
    log
}

/// Hashes of the whole blocks of a prompt of `tokens`, the first `shared` of them the same for all.
fn hashes(owner: u64, tokens: u32, shared: u32) -> Blocks {
    let block = |i: u32| {
        let owner = if i < shared { 0 } else { owner + 1 };
        (owner << 32) | u64::from(i)
    };
    (0..tokens / BLOCK).map(block).collect()
}

#[test]
fn a_lone_request_is_computed_once_and_then_decoded_step_by_step() {
    let mut engine = Engine::new(&profile(8, 1_000, 100));
    engine
        .submit(at(500), EngineRequest::new(7, 100, 3))
        .unwrap();
    assert_eq!(
        engine.next_event(),
        Some(at(500)),
        "it starts when it comes"
    );
    let log = finish(&mut engine);
    let expected = vec![
        (500_000, Event::Admitted(7, 0)),
        (1_600_000, Event::Token(7)),
        (2_601_000, Event::Token(7)),
        (3_602_000, Event::Token(7)),
        (3_602_000, Event::Ended(7)),
    ];
    assert_eq!(log.0, expected);
    assert_eq!(engine.next_event(), None);
}

#[test]
fn whoever_comes_at_the_instant_of_a_start_takes_part_and_whoever_comes_later_waits() {
    let mut engine = Engine::new(&profile(8, 1_000, 100));
    engine.submit(at(0), EngineRequest::new(0, 10, 2)).unwrap();
    engine.submit(at(0), EngineRequest::new(1, 10, 2)).unwrap();
    let mut log = Log::default();
    engine.advance(at(0), &mut log);
    engine.submit(at(1), EngineRequest::new(2, 10, 2)).unwrap();
    assert_eq!((engine.running(), engine.waiting()), (2, 1));
    assert_eq!(engine.next_event(), Some(at(1_020)));
    engine.advance(at(1_020), &mut log);
    assert_eq!((engine.running(), engine.waiting()), (3, 0));
}

#[test]
fn a_prompt_larger_than_the_step_is_computed_in_chunks_beside_the_decodes() {
    let mut engine = Engine::new(&profile(8, 100, 100));
    engine.submit(at(0), EngineRequest::new(0, 10, 50)).unwrap();
    let mut log = Log::default();
    engine.advance(at(0), &mut log);
    engine.submit(at(0), EngineRequest::new(1, 250, 1)).unwrap();
    let log = finish(&mut engine);
    // One token of the step goes to the decode: 99 + 99 + 52 tokens of prompt.
    let first = log.of(1)[1].0;
    let steps = [1_010, 1_000 + 1 + 99, 1_000 + 1 + 99, 1_000 + 1 + 52];
    assert_eq!(first, steps.iter().sum::<u64>() * 1_000);
}

#[test]
fn a_whole_prompt_stalls_the_others_for_as_long_as_it_takes() {
    let longest_gap = |chunked_prefill, max_batched_tokens| {
        let mut engine = Engine::new(&Profile {
            chunked_prefill,
            ..profile(8, max_batched_tokens, 1_000)
        });
        engine.submit(at(0), EngineRequest::new(0, 10, 50)).unwrap();
        engine
            .submit(at(0), EngineRequest::new(1, 6_000, 1))
            .unwrap();
        let log = finish(&mut engine).of(0);
        let tokens: Vec<u64> = log[1..].iter().map(|e| e.0).collect();
        tokens.windows(2).map(|w| w[1] - w[0]).max().unwrap()
    };
    assert!(longest_gap(true, 500) < 1_600_000);
    // Both prompts together are over the budget: the second goes into the next step, whole.
    assert!(longest_gap(false, 6_005) > 7_000_000);
}

/// Case O-PL-03.
#[test]
fn what_can_never_fit_is_refused_with_what_it_needs() {
    let mut engine = Engine::new(&profile(8, 8_192, 50));
    let mut log = Log::default();
    let (mut refused, mut arrived) = (0, 0);
    for (index, size) in [900, 200, 200, 900, 200].into_iter().enumerate() {
        let index = u64::try_from(index).unwrap();
        arrived += 1;
        match engine.submit(at(index), EngineRequest::new(index, size, 1)) {
            Ok(()) => {}
            Err(refusal) => {
                assert_eq!(refusal, Refusal::TooLarge { needs: 57, has: 50 });
                assert_eq!(refusal.to_string(), "needs 57 KV blocks, has 50");
                refused += 1;
            }
        }
        engine.advance(at(index), &mut log);
        let open = u64::try_from(engine.running() + engine.waiting()).unwrap();
        assert_eq!(arrived, engine.counters().finished + refused + open);
    }
    finish(&mut engine);
    assert_eq!((refused, engine.counters().finished), (2, 3));
    assert_eq!(engine.counters().refused, 2);
}

#[test]
fn a_request_is_refused_when_it_is_empty_too_long_too_wide_or_there_already() {
    let small = Profile {
        context_limit: 200,
        chunked_prefill: false,
        ..profile(8, 100, 1_000)
    };
    let mut engine = Engine::new(&small);
    let mut submit =
        |index, input, output| engine.submit(at(0), EngineRequest::new(index, input, output));
    assert_eq!(submit(0, 0, 5), Err(Refusal::Empty));
    assert_eq!(submit(0, 5, 0), Err(Refusal::Empty));
    let (needs, has) = (201, 200);
    assert_eq!(submit(0, 101, 100), Err(Refusal::TooLong { needs, has }));
    let (needs, has) = (8_589_934_590, 200);
    assert_eq!(
        submit(0, u32::MAX, u32::MAX),
        Err(Refusal::TooLong { needs, has })
    );
    let (needs, has) = (101, 100);
    assert_eq!(submit(0, 101, 1), Err(Refusal::TooWide { needs, has }));
    assert_eq!(submit(0, 50, 50), Ok(()));
    assert_eq!(submit(0, 50, 50), Err(Refusal::Duplicate(0)));
}

#[test]
fn only_the_newest_is_preempted_and_it_comes_back_first() {
    // Four requests of 2 blocks each that grow to 4 in a cache of 9: the last admitted must go.
    let mut engine = Engine::new(&profile(8, 1_000, 9));
    for index in 0..4 {
        engine
            .submit(at(0), EngineRequest::new(index, 30, 33))
            .unwrap();
    }
    let log = finish(&mut engine);
    let mut batch = Vec::new();
    let mut evicted = Vec::new();
    for (_, event) in &log.0 {
        match *event {
            Event::Admitted(index, _) => {
                if !evicted.is_empty() {
                    assert_eq!(
                        evicted.pop(),
                        Some(index),
                        "the last one out is the first one in"
                    );
                }
                batch.push(index);
            }
            Event::Preempted(index) => {
                assert_eq!(batch.pop(), Some(index), "the victim is the last admitted");
                evicted.push(index);
            }
            Event::Ended(index) => batch.retain(|&i| i != index),
            Event::Token(_) => {}
        }
    }
    assert!(engine.counters().preemptions >= 2);
    assert_eq!(log.of(0)[0], (0, Event::Admitted(0, 0)));
    assert_eq!(
        log.count(|e| e == Event::Preempted(0)),
        0,
        "the oldest is never evicted"
    );
    for index in 0..4 {
        assert_eq!(log.count(|e| e == Event::Token(index)), 33);
    }
}

#[test]
fn nobody_is_admitted_in_a_step_that_evicts() {
    let mut engine = Engine::new(&profile(8, 1_000, 9));
    for index in 0..6 {
        engine
            .submit(at(0), EngineRequest::new(index, 30, 33))
            .unwrap();
    }
    let log = finish(&mut engine);
    let of_evictions: Vec<u64> = log
        .0
        .iter()
        .filter(|e| matches!(e.1, Event::Preempted(_)))
        .map(|e| e.0)
        .collect();
    assert!(!of_evictions.is_empty());
    let admitted_then = log
        .0
        .iter()
        .filter(|e| matches!(e.1, Event::Admitted(..)) && of_evictions.contains(&e.0));
    assert_eq!(admitted_then.count(), 0);
}

#[test]
fn a_shared_prompt_hits_all_its_blocks_but_that_of_the_last_token() {
    let mut engine = Engine::new(&profile(8, 8_192, 100));
    let mut ask = |index, tokens| {
        let request = EngineRequest {
            blocks: hashes(9, tokens, 1_000),
            ..EngineRequest::new(index, tokens, 2)
        };
        engine.submit(at(0), request).unwrap();
        finish(&mut engine).cached()
    };
    assert_eq!(ask(0, 160), [0], "nothing is there at first");
    assert_eq!(
        ask(1, 160),
        [144],
        "of 10 whole blocks the last is computed again"
    );
    assert_eq!(
        ask(2, 161),
        [160],
        "the token behind it is enough to compute"
    );
    assert_eq!(ask(3, 170), [160], "what fills no block is never found");
    assert_eq!(ask(4, 15), [0]);
    let counters = engine.counters();
    assert_eq!(counters.prefix_queries, 160 + 160 + 161 + 170 + 15);
    assert_eq!(counters.prefix_hits, 144 + 160 + 160);
}

#[test]
fn hits_are_the_shared_part_for_shared_prompts_and_none_for_unique_ones() {
    let hits = |shared| {
        let mut engine = Engine::new(&profile(8, 8_192, 1_000));
        for index in 0..20 {
            let request = EngineRequest {
                blocks: hashes(index, 320, shared),
                ..EngineRequest::new(index, 320, 4)
            };
            engine.submit(at(index * 10_000), request).unwrap();
            finish(&mut engine);
        }
        engine.counters().prefix_hits
    };
    assert_eq!(hits(0), 0);
    assert_eq!(hits(12), 19 * 12 * u64::from(BLOCK));
}

#[test]
fn a_prefix_that_was_not_asked_for_longest_is_forgotten_first() {
    // Room for two prompts of 10 blocks beside the answer's block.
    let mut engine = Engine::new(&profile(1, 8_192, 22));
    let mut ask = |index, owner| {
        let request = EngineRequest {
            blocks: hashes(owner, 161, 0),
            ..EngineRequest::new(index, 161, 2)
        };
        engine.submit(at(0), request).unwrap();
        finish(&mut engine).cached()[0]
    };
    assert_eq!([ask(0, 1), ask(1, 2), ask(2, 1)], [0, 0, 160]);
    assert_eq!(
        ask(3, 3),
        0,
        "takes the place of 2, which was asked for before 1"
    );
    assert_eq!(ask(4, 1), 160);
    assert_eq!(ask(5, 2), 0);
}

#[test]
fn answers_are_found_again_where_their_hashes_are_given() {
    let mut engine = Engine::new(&profile(8, 8_192, 100));
    let mut ask = |index, input, output| {
        let request = EngineRequest {
            blocks: hashes(1, input + output, 0),
            ..EngineRequest::new(index, input, output)
        };
        engine.submit(at(0), request).unwrap();
        finish(&mut engine).cached()[0]
    };
    assert_eq!(ask(0, 100, 65), 0);
    // 164 tokens are stored; the last one answered is not.
    assert_eq!(ask(1, 200, 10), 160);
}

#[test]
fn a_victim_finds_its_own_prompt_again() {
    let mut engine = Engine::new(&profile(8, 1_000, 22));
    for index in 0..2 {
        let request = EngineRequest {
            blocks: hashes(index, 150, 0),
            ..EngineRequest::new(index, 150, 60)
        };
        engine.submit(at(0), request).unwrap();
    }
    let log = finish(&mut engine);
    assert_eq!(log.count(|e| e == Event::Preempted(1)), 1);
    // The older request took what it needed from the end of the victim's prompt.
    let cached = log.cached();
    assert_eq!(cached[..2], [0, 0]);
    assert!(cached[2] > 0 && cached[2] < 150, "{cached:?}");
    assert_eq!(
        engine.counters().prefix_hits,
        0,
        "only first admissions count"
    );
}

#[test]
fn an_engine_without_prefix_cache_finds_nothing() {
    let mut engine = Engine::new(&Profile {
        prefix_cache: false,
        ..profile(8, 8_192, 100)
    });
    for index in 0..2 {
        let request = EngineRequest {
            blocks: hashes(0, 160, 1_000),
            ..EngineRequest::new(index, 160, 2)
        };
        engine.submit(at(0), request).unwrap();
        assert_eq!(finish(&mut engine).cached(), [0]);
    }
    assert_eq!(engine.counters().prefix_queries, 0);
}

#[test]
fn a_cancelled_request_leaves_at_once_and_the_step_goes_on() {
    let mut engine = Engine::new(&profile(1, 1_000, 100));
    engine
        .submit(at(0), EngineRequest::new(0, 100, 50))
        .unwrap();
    engine.submit(at(0), EngineRequest::new(1, 100, 2)).unwrap();
    engine.submit(at(0), EngineRequest::new(2, 100, 2)).unwrap();
    let mut log = Log::default();
    engine.advance(at(500), &mut log);
    assert!(engine.cancel(at(500), 0) && engine.cancel(at(500), 1));
    assert!(!engine.cancel(at(500), 1), "it is gone");
    assert_eq!(engine.blocks_held(), 0);
    assert_eq!(engine.next_event(), Some(at(1_100)));
    let log = finish(&mut engine);
    assert_eq!(log.0[0], (1_100_000, Event::Admitted(2, 0)));
    assert_eq!(log.of(0), []);
    assert_eq!(engine.counters().cancelled, 2);
}

#[test]
fn all_cancelled_leaves_an_idle_engine() {
    let mut engine = Engine::new(&profile(8, 1_000, 100));
    engine
        .submit(at(0), EngineRequest::new(0, 100, 50))
        .unwrap();
    engine.cancel(at(0), 0);
    assert_eq!(finish(&mut engine), Log::default());
    engine.submit(at(9), EngineRequest::new(0, 100, 1)).unwrap();
    assert_eq!(finish(&mut engine).0[0], (9_000, Event::Admitted(0, 0)));
}

#[test]
fn a_sample_says_what_the_metrics_would() {
    let mut engine = Engine::new(&profile(1, 1_000, 100));
    engine
        .submit(at(0), EngineRequest::new(0, 100, 50))
        .unwrap();
    engine
        .submit(at(0), EngineRequest::new(1, 100, 50))
        .unwrap();
    engine.advance(at(10), &mut Log::default());
    let sample = engine.sample();
    assert_eq!((sample.running, sample.waiting), (Some(1), Some(1)));
    assert_eq!(sample.kv_used, Some(0.07));
    assert_eq!(sample.at, at(10));
}

/// One thing that is done to an engine after a pause.
#[derive(Clone, Debug)]
enum Action {
    Submit {
        input: u32,
        output: u32,
        shared: u32,
    },
    Cancel(u64),
}

fn script() -> impl Strategy<Value = Vec<(u64, Action)>> {
    let submit = (1..300_u32, 1..80_u32, 0..8_u32);
    let submit = submit.prop_map(|(input, output, shared)| Action::Submit {
        input,
        output,
        shared,
    });
    let action = prop_oneof![4 => submit, 1 => (0..40_u64).prop_map(Action::Cancel)];
    prop::collection::vec((0..20_000_u64, action), 1..40)
}

/// Plays `script`; between two actions time moves in steps of `stride` microseconds at most.
fn play(profile: &Profile, script: &[(u64, Action)], stride: u64) -> (Engine, Log, Vec<u32>) {
    let mut engine = Engine::new(profile);
    let mut log = Log::default();
    let (mut now, mut index) = (0, 0);
    let mut asked = Vec::new();
    for (pause, action) in script {
        let until = now + pause;
        while now < until {
            now = until.min(now.saturating_add(stride));
            engine.advance(at(now), &mut log);
        }
        match *action {
            Action::Submit {
                input,
                output,
                shared,
            } => {
                let request = EngineRequest {
                    blocks: hashes(index, input, shared),
                    ..EngineRequest::new(index, input, output)
                };
                let taken = engine.submit(at(now), request).is_ok();
                asked.push(if taken { output } else { 0 });
                index += 1;
            }
            Action::Cancel(index) => {
                if engine.cancel(at(now), index) {
                    asked[usize::try_from(index).unwrap()] = 0;
                }
            }
        }
        let open = u64::try_from(engine.running() + engine.waiting()).unwrap();
        let counters = engine.counters();
        let gone = counters.finished + counters.cancelled;
        assert_eq!(counters.submitted, gone + open);
        assert!(engine.pool.is_sound());
    }
    log.0.extend(finish(&mut engine).0);
    (engine, log, asked)
}

fn small(chunked_prefill: bool) -> Profile {
    Profile {
        chunked_prefill,
        ..profile(6, if chunked_prefill { 128 } else { 400 }, 30)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn tokens_and_blocks_are_conserved(script in script(), chunked in any::<bool>()) {
        let (engine, log, asked) = play(&small(chunked), &script, u64::MAX);
        let mut tokens: BTreeMap<u64, u32> = BTreeMap::new();
        for (_, event) in &log.0 {
            if let Event::Token(index) = event {
                *tokens.entry(*index).or_default() += 1;
            }
        }
        for (index, &output) in asked.iter().enumerate().filter(|a| *a.1 > 0) {
            let index = u64::try_from(index).unwrap();
            prop_assert_eq!(tokens.get(&index), Some(&output));
            prop_assert_eq!(log.count(|e| e == Event::Ended(index)), 1);
        }
        let answered: u32 = tokens.values().sum();
        prop_assert_eq!(engine.counters().output_tokens, u64::from(answered));
        prop_assert_eq!(engine.blocks_held(), 0);
        prop_assert_eq!((engine.running(), engine.waiting()), (0, 0));
        prop_assert_eq!(engine.next_event(), None);
    }

    #[test]
    fn the_number_of_advances_makes_no_difference(script in script(), stride in 1..5_000_u64) {
        let whole = play(&small(true), &script, u64::MAX);
        let split = play(&small(true), &script, stride);
        prop_assert_eq!(whole.1, split.1);
    }

    #[test]
    fn requests_may_be_put_in_ahead_of_time(script in script()) {
        let profile = small(true);
        let (mut ahead, mut led) = (Engine::new(&profile), Engine::new(&profile));
        let mut log = Log::default();
        let mut now = 0;
        for (index, (pause, action)) in (0..).zip(&script) {
            now += pause;
            // Up to here, but not into a step that begins here: who comes now takes part in it.
            while let Some(next) = led.next_event().filter(|&next| next < at(now)) {
                led.advance(next, &mut log);
            }
            if let Action::Submit { input, output, shared } = *action {
                let blocks = hashes(index, input, shared);
                let request = EngineRequest { blocks, ..EngineRequest::new(index, input, output) };
                let _ = ahead.submit(at(now), request.clone());
                let _ = led.submit(at(now), request);
            }
        }
        log.0.extend(finish(&mut led).0);
        prop_assert_eq!(finish(&mut ahead), log);
    }

    #[test]
    fn events_come_in_order_of_time(script in script()) {
        let (_, log, _) = play(&small(true), &script, u64::MAX);
        prop_assert!(log.0.windows(2).all(|w| w[0].0 <= w[1].0));
    }

    #[test]
    fn a_visitor_of_the_queue_leaves_no_trace(script in script(), guest in 1..300_u32) {
        // Submitted and cancelled before the next step starts: as if it had never come.
        let profile = small(true);
        let mut visited = Engine::new(&profile);
        let mut lonely = Engine::new(&profile);
        let (mut seen, mut unseen) = (Log::default(), Log::default());
        let mut now = 0;
        for (index, (pause, action)) in (0..).zip(&script) {
            now += pause;
            visited.advance(at(now), &mut seen);
            lonely.advance(at(now), &mut unseen);
            if let Action::Submit { input, output, .. } = *action {
                let _ = visited.submit(at(now), EngineRequest::new(1_000, guest, 9));
                let _ = visited.submit(at(now), EngineRequest::new(index, input, output));
                let _ = lonely.submit(at(now), EngineRequest::new(index, input, output));
                visited.cancel(at(now), 1_000);
            }
        }
        seen.0.extend(finish(&mut visited).0);
        unseen.0.extend(finish(&mut lonely).0);
        prop_assert_eq!(seen, unseen);
    }

    #[test]
    fn twice_the_coefficients_and_pauses_are_twice_the_times(script in script()) {
        let profile = small(true);
        let slow = Profile { step_time: profile.step_time.slowed(2.0), ..profile.clone() };
        let doubled: Vec<_> = script.iter().map(|(pause, a)| (pause * 2, a.clone())).collect();
        let fast = play(&profile, &script, u64::MAX).1;
        let slow = play(&slow, &doubled, u64::MAX).1;
        let stretched: Vec<_> = fast.0.iter().map(|&(ns, e)| (ns * 2, e)).collect();
        prop_assert_eq!(stretched, slow.0);
    }

    #[test]
    fn the_area_under_the_open_requests_is_the_sum_of_their_stays(script in script(), fast in any::<bool>()) {
        // Little's law, to the nanosecond, on a run of any length.
        let mut engine = Engine::new(&small(true));
        engine.set_fast_forward(fast);
        let mut log = Ends::default();
        let (mut now, mut area, mut stays) = (0_u64, 0_u64, 0_u64);
        let mut came = BTreeMap::new();
        let mut walk = |engine: &mut Engine, log: &mut Ends, until: Timestamp| {
            while let Some(next) = engine.next_event().filter(|&n| n <= until) {
                let open = u64::try_from(engine.running() + engine.waiting()).unwrap();
                area += open * (next.nanos() - now);
                now = next.nanos();
                engine.advance(next, log);
            }
            if until != Timestamp::FAR_FUTURE {
                let open = u64::try_from(engine.running() + engine.waiting()).unwrap();
                area += open * (until.nanos() - now);
                now = until.nanos();
                engine.advance(until, log);
            }
        };
        let mut due = Timestamp::ZERO;
        for (index, (pause, action)) in (0..).zip(&script) {
            due = due.after(Duration::from_micros(*pause));
            walk(&mut engine, &mut log, due);
            if let Action::Submit { input, output, .. } = *action
                && engine.submit(due, EngineRequest::new(index, input, output)).is_ok()
            {
                came.insert(index, due.nanos());
            }
        }
        walk(&mut engine, &mut log, Timestamp::FAR_FUTURE);
        for (ns, index) in &log.0 {
            stays += ns - came[index];
        }
        prop_assert_eq!(area, stays);
    }
}

#[test]
fn a_template_is_a_longer_prompt() {
    for scheduler in [
        goodput_perf_model::Scheduler::Continuous,
        goodput_perf_model::Scheduler::Slots { unified_kv: false },
    ] {
        let bare = Profile {
            scheduler,
            ..Profile::builtin("laptop").unwrap()
        };
        let with_template = Profile {
            template_tokens: 24,
            ..bare.clone()
        };
        let run = |profile: &Profile, longer: u32| {
            let mut server = crate::Server::new(profile);
            let mut log = Ends::default();
            for index in 0..20 {
                let at = Timestamp::from_nanos(index * 3_000_000);
                server.advance(at, &mut log);
                let request = EngineRequest::new(index, 50 + longer, 7);
                server.submit(at, request).unwrap();
            }
            server.advance(Timestamp::from_nanos(60_000_000_000), &mut log);
            log.0
        };
        let told = run(&with_template, 0);
        assert_eq!(told, run(&bare, 24));
        assert_ne!(told, run(&bare, 0));
    }
}
