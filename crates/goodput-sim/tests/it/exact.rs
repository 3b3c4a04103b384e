//! The engine against its rules step by step, and many steps at once against one by one.

use std::{collections::BTreeMap, num::NonZeroU32, time::Duration};

use goodput_perf_model::{Experts, Profile, Speculation, StepTime, Window};
use goodput_record::{BlockRun, Blocks, Outcome, Timestamp};
use goodput_sim::{Engine, EngineEvents, EngineRequest};
use proptest::prelude::*;

use crate::reference::{Reference, Told};

/// What the reference tells of, with the instant in seconds.
#[derive(Clone, Debug, Default)]
struct Log(Vec<(f64, Told)>);

impl EngineEvents for Log {
    fn admitted(&mut self, at: Timestamp, index: u64, cached: u32) {
        self.0.push((at.seconds(), Told::Admitted(index, cached)));
    }
    fn tokens(&mut self, at: Timestamp, index: u64, _count: u32) {
        self.0.push((at.seconds(), Told::Token(index)));
    }
    fn preempted(&mut self, at: Timestamp, index: u64) {
        self.0.push((at.seconds(), Told::Preempted(index)));
    }
    fn ended(&mut self, at: Timestamp, index: u64, _outcome: Outcome) {
        self.0.push((at.seconds(), Told::Ended(index)));
    }
}

/// What is kept of each request, to the nanosecond: first token, end, tokens, longest gap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Lives {
    of: BTreeMap<u64, Life>,
    admitted: Vec<(Timestamp, u64, u32)>,
    preempted: Vec<(Timestamp, u64)>,
}

/// Takes the gaps out if they are the same to the nanosecond to which instants are cut.
fn without_gaps(mut one: Lives, mut other: Lives) -> (Lives, Lives) {
    for (index, life) in &mut one.of {
        let Some(twin) = other.of.get_mut(index) else {
            continue;
        };
        if let (Some(a), Some(b)) = (life.longest_gap, twin.longest_gap)
            && a.abs_diff(b) <= Duration::from_nanos(1)
        {
            (life.longest_gap, twin.longest_gap) = (None, None);
        }
    }
    (one, other)
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Life {
    first: Option<Timestamp>,
    last: Option<Timestamp>,
    ended: Option<Timestamp>,
    tokens: u32,
    longest_gap: Option<Duration>,
}

/// Watches every token, or only what is told of a fast-forwarded engine.
struct Watch<'a> {
    lives: &'a mut Lives,
    every_token: bool,
}

impl EngineEvents for Watch<'_> {
    fn admitted(&mut self, at: Timestamp, index: u64, cached: u32) {
        self.lives.admitted.push((at, index, cached));
    }
    fn tokens(&mut self, at: Timestamp, index: u64, count: u32) {
        let life = self.lives.of.entry(index).or_default();
        if self.every_token
            && let Some(last) = life.last
        {
            life.longest_gap = life.longest_gap.max(at.since(last));
        }
        life.first = life.first.or(Some(at));
        life.last = Some(at);
        life.tokens += count;
    }
    fn longest_gap(&mut self, index: u64, gap: Duration) {
        self.lives.of.entry(index).or_default().longest_gap = Some(gap);
    }
    fn preempted(&mut self, at: Timestamp, index: u64) {
        self.lives.preempted.push((at, index));
    }
    fn ended(&mut self, at: Timestamp, index: u64, _outcome: Outcome) {
        self.lives.of.entry(index).or_default().ended = Some(at);
    }
}

/// One request of a random run.
#[derive(Clone, Copy, Debug)]
struct Ask {
    /// After the one before, in microseconds.
    pause: u64,
    input: u32,
    output: u32,
    /// Leading blocks that all requests share.
    shared: u32,
    /// Whether the hashes of the answer's blocks are given.
    answer: bool,
    priority: u8,
    /// Given up so long after it came, if still open.
    patience: Option<u64>,
}

fn asks() -> impl Strategy<Value = Vec<Ask>> {
    let pause = prop_oneof![0..300_u64, 0..30_000_u64];
    let ask = (
        pause,
        1..300_u32,
        1..200_u32,
        0..8_u32,
        any::<bool>(),
        0..3_u8,
    );
    let patience = prop::option::weighted(0.2, 0..500_000_u64);
    let ask = (ask, patience).prop_map(
        |((pause, input, output, shared, answer, priority), patience)| Ask {
            pause,
            input,
            output,
            shared,
            answer,
            priority,
            patience,
        },
    );
    prop::collection::vec(ask, 1..60)
}

/// Engines with little of everything, so that every limit binds.
fn profiles() -> impl Strategy<Value = Profile> {
    let limits = (
        1..12_u32,
        24..400_u32,
        32..90_u32,
        any::<bool>(),
        any::<bool>(),
        1..4_u32,
    );
    let times = (
        0..2_000_u32,
        0..2_000_u32,
        0..50_u32,
        0..100_u32,
        0..3_000_u32,
        any::<bool>(),
    );
    (limits, times).prop_map(|(limits, times)| {
        let (seqs, batched, blocks, chunked, cache, size) = limits;
        let (overhead, weights, compute, sequence, context, moe) = times;
        let micros = |value: u32| f64::from(value) * 1.037e-6;
        Profile {
            max_num_seqs: NonZeroU32::new(seqs).unwrap(),
            max_batched_tokens: NonZeroU32::new(if chunked { batched.max(seqs) } else { 500 })
                .unwrap(),
            chunked_prefill: chunked,
            prefix_cache: cache,
            kv_blocks: blocks * 16 / (8 * size),
            block_tokens: NonZeroU32::new(8 * size).unwrap(),
            context_limit: 1_000_000,
            step_time: StepTime {
                overhead_s: micros(overhead),
                weights_s: micros(weights),
                compute_s: micros(compute),
                sequence_s: micros(sequence),
                context_s: micros(context) / 1e4,
                prefill_s: micros(sequence) / 3.0,
                pair_s: micros(context) / 1e6,
                experts: moe.then_some(Experts {
                    count: 16,
                    per_token: 2,
                    read_s: micros(weights),
                }),
                tile_tokens: if moe { 0 } else { 8 },
                window: (compute % 2 == 0).then(|| Window {
                    tokens: 20 + 5 * compute,
                    context_s: micros(context) / 2e4,
                }),
                ..StepTime::default()
            },
            ..Profile::builtin("laptop").unwrap()
        }
    })
}

/// The same, some of them with drafts.
fn drafting() -> impl Strategy<Value = Profile> {
    (profiles(), prop::option::of((1..5_u32, 0.0..1.0_f64))).prop_map(|(mut profile, drafts)| {
        profile.step_time.speculation = drafts.map(|(draft_tokens, acceptance)| Speculation {
            draft_tokens,
            acceptance,
            draft_s: 1e-4,
        });
        profile
    })
}

fn request(profile: &Profile, index: u64, ask: &Ask) -> EngineRequest {
    let tokens = ask.input + if ask.answer { ask.output } else { 0 };
    let count = tokens / profile.block_tokens;
    let shared = ask.shared.min(count);
    let own = (index + 1) << 32 | u64::from(shared);
    let runs = [(0, shared), (own, count - shared)];
    let runs = runs.map(|(id, blocks)| BlockRun { id, blocks });
    let blocks: Blocks = runs.into_iter().collect();
    // As a caller gives them who knows each block's hash only, or which blocks belong together.
    let by_hash = profile.block_tokens.get() == 8;
    EngineRequest {
        priority: ask.priority,
        blocks: if by_hash {
            blocks.hashes().collect()
        } else {
            blocks
        },
        ..EngineRequest::new(index, ask.input, ask.output)
    }
}

/// Plays `asks`, moving from event to event; every request, its end or its cancellation.
fn play(mut engine: Engine, every_token: bool, profile: &Profile, asks: &[Ask]) -> (Engine, Lives) {
    let mut lives = Lives::default();
    let mut watch = Watch {
        lives: &mut lives,
        every_token,
    };
    let mut actions = Vec::new();
    let mut now = 0;
    for (index, ask) in (0_u64..).zip(asks) {
        now += ask.pause;
        actions.push((now, 1, index));
        if let Some(patience) = ask.patience {
            actions.push((now + patience, 0, index));
        }
    }
    actions.sort_unstable();
    for (micros, kind, index) in actions {
        let at = Timestamp::from_nanos(micros * 1_000);
        engine.advance(at, &mut watch);
        if kind == 1 {
            let ask = &asks[usize::try_from(index).unwrap()];
            let _ = engine.submit(at, request(profile, index, ask));
            continue;
        }
        if let Some((tokens, last)) = engine.untold(index) {
            let life = watch.lives.of.entry(index).or_default();
            life.tokens += tokens;
            life.last = Some(last);
        }
        if engine.cancel(at, index) {
            // Of a request that was given up the longest gap is not told.
            watch.lives.of.entry(index).or_default().longest_gap = None;
        }
    }
    engine.advance(Timestamp::FAR_FUTURE, &mut watch);
    (engine, lives)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn many_steps_at_once_are_the_steps_one_by_one(profile in drafting(), asks in asks()) {
        let slow = play(Engine::new(&profile), true, &profile, &asks);
        let fast = play(Engine::new(&profile).fast_forward(), false, &profile, &asks);
        let (one, other) = without_gaps(slow.1, fast.1);
        prop_assert_eq!(one, other);
        prop_assert_eq!(slow.0.counters(), fast.0.counters());
        prop_assert_eq!((fast.0.running(), fast.0.waiting(), fast.0.blocks_held()), (0, 0, 0));
    }

    #[test]
    fn what_is_seen_in_between_is_the_same(profile in drafting(), asks in asks(), every in 100..40_000_u64) {
        let mut slow = Engine::new(&profile);
        let mut fast = Engine::new(&profile).fast_forward();
        let (mut told, mut skipped) = (Log::default(), Log::default());
        let (mut now, mut seen) = (0, 0);
        for (index, ask) in (0_u64..).zip(&asks) {
            now += ask.pause;
            while seen < now {
                seen += every;
                let at = Timestamp::from_nanos(seen.min(now) * 1_000);
                slow.advance(at, &mut told);
                fast.advance(at, &mut skipped);
                prop_assert_eq!(slow.sample(), fast.sample());
            }
            let at = Timestamp::from_nanos(now * 1_000);
            let request = request(&profile, index, ask);
            prop_assert_eq!(slow.submit(at, request.clone()), fast.submit(at, request));
        }
    }

    #[test]
    fn a_change_of_pace_holds_from_the_next_step_on(
        profile in profiles(),
        asks in asks(),
        factors in prop::collection::vec((1..200_000_u64, 0.3..3.0_f64), 1..8),
    ) {
        let run = |mut engine: Engine, every_token| {
            let mut lives = Lives::default();
            let mut watch = Watch { lives: &mut lives, every_token };
            for (index, ask) in (0_u64..).zip(&asks) {
                let _ = engine.submit(Timestamp::ZERO, request(&profile, index, ask));
            }
            let mut now = 0;
            for (pause, factor) in &factors {
                now += pause * 1_000;
                engine.advance(Timestamp::from_nanos(now), &mut watch);
                engine.set_step_time(profile.step_time.slowed(*factor));
            }
            engine.advance(Timestamp::FAR_FUTURE, &mut watch);
            lives
        };
        let slow = run(Engine::new(&profile), true);
        let fast = run(Engine::new(&profile).fast_forward(), false);
        let (one, other) = without_gaps(slow, fast);
        prop_assert_eq!(one, other);
    }

    #[test]
    fn the_engine_keeps_the_rules_step_by_step(profile in profiles(), asks in asks()) {
        let mut engine = Engine::new(&profile);
        let mut log = Log::default();
        let mut taken = Vec::new();
        let mut micros = 0;
        for (index, ask) in (0_u64..).zip(&asks) {
            micros += ask.pause;
            let at = Timestamp::from_nanos(micros * 1_000);
            let request = EngineRequest { priority: 0, ..request(&profile, index, ask) };
            // Who comes at the instant of a step's start takes part in it.
            while let Some(next) = engine.next_event().filter(|&next| next < at) {
                engine.advance(next, &mut log);
            }
            if engine.submit(at, request.clone()).is_ok() {
                taken.push((at.seconds(), request));
            }
        }
        engine.advance(Timestamp::FAR_FUTURE, &mut log);
        let expected = Reference::new(&profile).run(&taken);
        prop_assert_eq!(log.0.len(), expected.len());
        for (mine, theirs) in log.0.iter().zip(&expected) {
            prop_assert_eq!(mine.1, theirs.1);
            prop_assert!((mine.0 - theirs.0).abs() < 1e-6, "{:?} {:?}", mine, theirs);
        }
    }
}
