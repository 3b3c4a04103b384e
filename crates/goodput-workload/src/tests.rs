//! Laws of the workload as a whole.

use std::{
    collections::{BTreeMap, HashSet},
    fmt::Write as _,
    num::NonZeroU32,
    sync::Arc,
    time::Duration,
};

use goodput_record::Timestamp;
use proptest::prelude::*;

use crate::{Load, PlannedRequest, Role, Shard, Workload, WorkloadSpec, point_seed, presets};

fn spec(text: &str) -> Arc<WorkloadSpec> {
    match WorkloadSpec::parse("test.toml", text) {
        Ok(spec) => Arc::new(spec),
        Err(error) => panic!("{}", error.render("test.toml", text, false)),
    }
}

fn closed(users: u32) -> Load {
    Load::Closed(NonZeroU32::new(users).unwrap())
}

fn open(per_second: f64) -> Load {
    Load::Open { per_second }
}

/// Plays a workload against a server that takes `service_ms` for every request, up to `most`.
fn play(mut workload: Workload, service_ms: u64, most: usize) -> Vec<PlannedRequest> {
    let mut ends: BTreeMap<(Timestamp, u64), u32> = BTreeMap::new();
    let mut requests = Vec::new();
    while requests.len() < most {
        let due = workload.next_due();
        let end = ends
            .first_key_value()
            .map(|(key, session)| (*key, *session));
        match (due, end) {
            (due, Some(((at, index), session))) if due.is_none_or(|due| at <= due) => {
                ends.remove(&(at, index));
                workload.ended(session, at);
            }
            (Some(due), _) => {
                let request = workload.take(due).unwrap();
                assert_eq!(request.due, due);
                let end = due.after(std::time::Duration::from_millis(service_ms));
                ends.insert((end, request.index), request.session);
                requests.push(request);
            }
            (None, _) => break,
        }
    }
    requests
}

const UNIQUE: &str = "input.fixed = 400\noutput.fixed = 10";
const GROUPED: &str = "
    input.uniform = { min = 100, max = 3000 }
    output.log_normal = { median = 60, sigma = 0.7, max = 500 }
    [prefixes]
    system_tokens = 64
    groups = { count = 20, zipf = 1.0, tokens = { uniform = { min = 32, max = 512 } } }";
const CHATTY: &str = "
    input.fixed = 100
    output.uniform = { min = 10, max = 30 }
    [prefixes]
    system_tokens = 48
    [sessions]
    steps.uniform = { min = 1, max = 6 }
    next_input.fixed = 20
    think_time.exponential.mean = '3s'";

fn whole(text: &str, load: Load, seed: u64, most: usize) -> Vec<PlannedRequest> {
    play(
        Workload::new(&spec(text), load, seed, Shard::WHOLE),
        700,
        most,
    )
}

#[test]
fn presets_are_whole_and_say_where_they_come_from() {
    for preset in presets() {
        let spec = match WorkloadSpec::parse(preset.name, preset.text) {
            Ok(spec) => spec,
            Err(error) => panic!("{}", error.render(preset.name, preset.text, false)),
        };
        let facts = spec.describe();
        assert!(!spec.source().is_empty() && !spec.description().is_empty());
        assert_eq!(spec.name(), preset.name);
        assert!(facts.input_tokens.max + 1.0 <= f64::from(spec.longest()));
    }
    let error = WorkloadSpec::preset("azure-convresation").unwrap_err();
    let hint = error.problems[0].hint.as_deref();
    assert_eq!(hint, Some("did you mean `azure-conversation`?"));
}

/// Facts of the traces behind the presets, as published with them: p50, p90, p99 and the share of
/// tokens that a cache which never forgets would hold.
#[test]
fn presets_have_the_facts_of_their_traces() {
    let check = |name: &str, input: [f64; 3], output: [f64; 3], reused: f64| {
        let facts = WorkloadSpec::preset(name).unwrap().describe();
        let near = |got: f64, asked: f64, by: f64| {
            assert!((got / asked - 1.0).abs() < by, "{name}: {got} for {asked}");
        };
        let (i, o) = (facts.input_tokens, facts.output_tokens);
        for (got, asked) in [i.p50, i.p90, i.p99].into_iter().zip(input) {
            // Mooncake's whole trace is a little longer than its first half, which sessions
            // could be rebuilt from.
            near(got, asked, if reused > 0.0 { 0.25 } else { 0.05 });
        }
        for (got, asked) in [o.p50, o.p90, o.p99].into_iter().zip(output) {
            near(got, asked, 0.06);
        }
        assert!((facts.reusable_share - reused).abs() < 0.04, "{name}");
    };
    check(
        "azure-conversation",
        [1020.0, 2735.0, 4142.0],
        [129.0, 424.0, 601.0],
        0.0,
    );
    check(
        "azure-code",
        [1469.0, 5188.0, 7436.0],
        [13.0, 55.0, 251.0],
        0.0,
    );
    check(
        "mooncake-conversation",
        [6909.0, 27367.0, 85400.0],
        [350.0, 597.0, 1119.0],
        0.37,
    );
}

#[test]
fn same_keys_give_the_same_requests() {
    for text in [UNIQUE, GROUPED, CHATTY] {
        for load in [closed(5), open(20.0)] {
            assert_eq!(whole(text, load, 9, 300), whole(text, load, 9, 300));
            assert_ne!(whole(text, load, 9, 300), whole(text, load, 10, 300));
        }
    }
}

/// What a request says depends on its number only, not on how fast the server was.
#[test]
fn the_server_changes_no_request() {
    for load in [closed(7), open(30.0)] {
        let plan = |service_ms| {
            let workload = Workload::new(&spec(CHATTY), load, 3, Shard::WHOLE);
            let requests = play(workload, service_ms, 1_500).into_iter();
            requests.map(|r| (r.index, r)).collect::<BTreeMap<_, _>>()
        };
        let (quick, slow) = (plan(50), plan(2_000));
        let both: Vec<_> = quick
            .values()
            .filter_map(|r| Some((r, slow.get(&r.index)?)))
            .collect();
        assert!(both.len() > 500);
        for (one, other) in both {
            assert_eq!(
                (&one.prompt, one.output_tokens),
                (&other.prompt, other.output_tokens)
            );
            assert_eq!(
                (one.session, one.step, one.steps),
                (other.session, other.step, other.steps)
            );
        }
    }
}

/// Case O-WL-02: two rungs of a ladder against one server share no prompt.
#[test]
fn rungs_share_no_prompt() {
    let firsts = |run_seed, point| {
        let requests = whole(UNIQUE, closed(8), point_seed(run_seed, point), 64).into_iter();
        requests
            .map(|r| r.prompt.segments()[0].key)
            .collect::<HashSet<_>>()
    };
    let rungs = [firsts(7, 0), firsts(7, 1), firsts(8, 0)];
    for (i, rung) in rungs.iter().enumerate() {
        assert_eq!(rung.len(), 64, "within a rung every prompt is unique");
        for other in &rungs[..i] {
            assert_eq!(rung.intersection(other).count(), 0, "cross_rung_repeats");
        }
    }
    // Prefixes shared by plan are shared within a rung, and with no other.
    let system = |point| {
        whole(GROUPED, closed(2), point_seed(7, point), 9)[8]
            .prompt
            .segments()[0]
    };
    assert_ne!(system(0).key, system(1).key);
    assert_eq!(system(0).role, Role::System);
}

#[test]
fn planned_hits_are_those_of_a_cache_that_never_forgets() {
    for text in [UNIQUE, GROUPED, CHATTY] {
        for load in [closed(5), open(20.0)] {
            let mut cache = HashSet::new();
            let (mut planned, mut found) = (0, 0);
            for request in whole(text, load, 4, 400) {
                let blocks: Vec<u64> = request.prompt.blocks(16).hashes().collect();
                let held = blocks
                    .iter()
                    .take_while(|block| cache.contains(*block))
                    .count();
                let most = (request.input_tokens - 1) / 16;
                let held = u32::try_from(held).unwrap().min(most) * 16;
                assert_eq!(request.cached_tokens, held);
                cache.extend(blocks);
                planned += request.cached_tokens;
                found += held;
                assert_eq!(request.prompt.tokens(), request.input_tokens);
            }
            assert_eq!(planned, found);
            assert_eq!(planned > 0, text != UNIQUE);
        }
    }
}

#[test]
fn shards_together_are_the_whole() {
    let mut rows = String::new();
    for i in 0..50_u64 {
        writeln!(rows, "{} 900 5 - a,{}", i * 250_000_000, i % 7).unwrap();
    }
    let trace = format!("arrivals = 'trace'\n[rows]\nblock_tokens = 400\ntable = '''\n{rows}'''");
    for text in [UNIQUE, GROUPED, CHATTY, &trace] {
        let spec = spec(text);
        let plan = |shard| {
            // So far that no session is cut off by the count.
            let all = play(Workload::new(&spec, open(40.0), 5, shard), 700, 2_400);
            let early = all
                .into_iter()
                .filter(|r| r.due < Timestamp::from_millis(15_000));
            early.map(|r| (r.index, r)).collect::<BTreeMap<_, _>>()
        };
        let mut joined = BTreeMap::new();
        for index in 0..3 {
            for (index, request) in plan(Shard::new(index, 3).unwrap()) {
                assert!(joined.insert(index, request).is_none());
            }
        }
        assert_eq!(joined, plan(Shard::WHOLE));
    }
    assert_eq!(Shard::new(3, 3), None);
}

#[test]
fn a_closed_loop_keeps_its_users_busy() {
    let spec = spec(CHATTY);
    let mut workload = Workload::with_ramp(
        &spec,
        closed(4),
        1,
        Shard::WHOLE,
        std::time::Duration::from_secs(4),
    );
    let at = Timestamp::from_millis;
    let mut firsts = Vec::new();
    while let Some(request) = workload.take(at(10_000)) {
        firsts.push((request.session, request.due));
    }
    assert_eq!(
        firsts,
        (0..4_u32)
            .map(|u| (u, at(u64::from(u) * 1_000)))
            .collect::<Vec<_>>()
    );
    assert_eq!(workload.next_due(), None, "all are in flight");
    // Think time is left out, and an abandoned session is followed by the same user's next.
    workload.ended(0, at(10_500));
    workload.abandoned(1, at(10_600));
    assert_eq!(workload.next_due(), Some(at(10_500)));
    assert_eq!(workload.take(at(10_400)), None, "not due yet");
    assert_eq!(workload.take(at(10_700)).unwrap().due, at(10_500));
    let next = workload.take(at(10_700)).unwrap();
    assert_eq!((next.session, next.step, next.due), (5, 0, at(10_600)));
}

#[test]
fn sessions_grow_by_answers_and_next_words() {
    let mut last: BTreeMap<u32, PlannedRequest> = BTreeMap::new();
    let mut steps = 0;
    for request in whole(CHATTY, open(5.0), 6, 500) {
        assert!(request.step < request.steps);
        assert_eq!(request.replies.len(), usize::from(request.step));
        if let Some(before) = last.insert(request.session, request.clone()) {
            steps += 1;
            assert_eq!(request.step, before.step + 1);
            assert!(request.due > before.due);
            assert_eq!(
                request.input_tokens,
                before.input_tokens + before.output_tokens + 20
            );
            let (old, new) = (before.prompt.segments(), request.prompt.segments());
            assert_eq!(&new[..old.len()], old, "the history stays as it was");
            let reply = new[request.replies.last().unwrap().segment as usize];
            assert_eq!(
                (reply.role, reply.tokens),
                (Role::Assistant, before.output_tokens)
            );
            assert_eq!(request.cached_tokens, before.input_tokens / 16 * 16);
        }
    }
    assert!(steps > 200);
}

#[test]
fn a_session_ends_before_its_context_is_full() {
    let text = format!("{CHATTY}\ncontext_limit = 180");
    for request in whole(&text, open(5.0), 6, 500) {
        assert!(request.input_tokens + request.output_tokens <= 180);
    }
    assert_eq!(spec(&text).longest(), 180);
    assert!(whole(&text, open(5.0), 6, 500).iter().any(|r| r.steps > 1));
}

/// However late a sender is, every arrival comes with the due time it always had.
#[test]
fn a_stall_of_the_sender_moves_and_drops_nothing() {
    for text in [UNIQUE, GROUPED] {
        let prompt = whole(text, open(50.0), 5, 500);
        let mut late = Workload::new(&spec(text), open(50.0), 5, Shard::WHOLE);
        let stalled = Timestamp::from_seconds(4.0);
        let first: Vec<_> = std::iter::from_fn(|| late.take(stalled)).collect();
        assert!(first.len() > 150 && first.iter().all(|r| r.due <= stalled));
        assert!(late.next_due().unwrap() > stalled);
        let end = Timestamp::from_seconds(60.0);
        let rest = std::iter::from_fn(|| late.take(end));
        let all: Vec<_> = first.into_iter().chain(rest).take(500).collect();
        assert_eq!(all, prompt);
    }
}

/// The rate asked for is that of requests, whatever the number of steps.
#[test]
fn the_rate_is_that_of_requests() {
    for (text, service) in [(UNIQUE, 100), (GROUPED, 100), (CHATTY, 100)] {
        let spec = spec(text);
        let requests = play(
            Workload::new(&spec, open(50.0), 2, Shard::WHOLE),
            service,
            30_000,
        );
        // From the start on: sessions are under way already.
        let from = Timestamp::ZERO;
        let late: Vec<_> = requests.iter().filter(|r| r.due >= from).collect();
        let span = late.last().unwrap().due.since(from).unwrap().as_secs_f64();
        let rate = late.len() as f64 / span;
        assert!((rate / 50.0 - 1.0).abs() < 0.04, "{rate}");
    }
}

/// Sessions that began earlier go on within a load point, so that it has its rate at once. What
/// is left of them is a session of its own.
#[test]
fn the_rate_is_there_from_the_first_second() {
    let text = CHATTY.replace("3s", "60s");
    let spec = spec(&text);
    let mut early = 0;
    for seed in 0..10 {
        let workload = Workload::new(&spec, open(20.0), seed, Shard::WHOLE);
        let requests = play(workload, 100, 2_000);
        early += requests
            .iter()
            .filter(|r| r.due < Timestamp::from_seconds(10.0))
            .count();
        let mut first_steps: BTreeMap<u32, &PlannedRequest> = BTreeMap::new();
        for request in &requests {
            let first = *first_steps.entry(request.session).or_insert(request);
            assert_eq!(first.step, 0);
            assert_eq!(first.steps, request.steps);
            assert_eq!(request.replies.len(), usize::from(request.step));
        }
        // Some begin with a history that was never sent, and is not thought to be cached.
        let resumed = first_steps.values().filter(|first| {
            let answers = first.prompt.segments().iter();
            answers.filter(|s| s.role == Role::Assistant).count() > 0
        });
        for first in resumed.clone() {
            assert!(first.cached_tokens <= 48 && first.replies.is_empty());
        }
        assert!(resumed.count() > 50);
    }
    let rate = early as f64 / 100.0;
    assert!((rate / 20.0 - 1.0).abs() < 0.08, "{rate}");
}

/// The trace's times are kept, only stretched; when it is used up, it ends or starts again with
/// prompts of its own.
#[test]
fn a_trace_is_replayed_in_time_and_order() {
    let text = "arrivals = 'trace'\n[rows]\nblock_tokens = 4\ntable = '''
        5000000000 9 1 - a,b,c
        7000000000 6 2 - a,d
        11000000000 3 3 - e
        '''";
    let two = spec(text);
    assert_eq!(two.recorded_rate(), Some(2.0 / 6.0));
    assert_eq!((two.available(), two.longest()), (Some(3), 10));
    assert!(two.check_available(3).is_ok());
    assert!(
        two.check_available(6)
            .unwrap_err()
            .to_string()
            .contains("50%")
    );
    let requests = whole(text, open(1.0), 1, 10);
    let due: Vec<_> = requests.iter().map(|r| r.due.nanos()).collect();
    assert_eq!(due, [0, 666_666_667, 2_000_000_000]);
    let lengths: Vec<_> = requests
        .iter()
        .map(|r| (r.input_tokens, r.output_tokens))
        .collect();
    assert_eq!(lengths, [(9, 1), (6, 2), (3, 3)]);
    let shared =
        |i: usize, j: usize| requests[i].prompt.segments()[0] == requests[j].prompt.segments()[0];
    assert!(shared(0, 1) && !shared(0, 2));
    let mut again = spec(&text.replace("[rows]", "[rows]\nrepeat = true"));
    assert_eq!(again.available(), None);
    let requests = play(Workload::new(&again, open(1.0), 1, Shard::WHOLE), 1, 7);
    assert_eq!(requests[3].due, Timestamp::from_seconds(3.0));
    assert_eq!(requests[3].input_tokens, 9);
    assert_ne!(requests[3].prompt, requests[0].prompt);
    again = Arc::new(Arc::unwrap_or_clone(again).with_arrivals(crate::Arrivals::Poisson));
    assert_eq!(
        play(Workload::new(&again, open(1.0), 1, Shard::WHOLE), 1, 7).len(),
        7
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn blocks_are_equal_as_far_as_prompts_are(
        shared in prop::collection::vec((any::<u64>(), 1_u32..70), 0..6),
        ends in (1_u32..90, 1_u32..90),
        block in 1_u32..40,
    ) {
        let prompt = |end_key: u64, end: u32| {
            let mut segments: Vec<_> = shared
                .iter()
                .map(|&(key, tokens)| crate::Segment { key, tokens, role: Role::User })
                .collect();
            segments.push(crate::Segment { key: end_key, tokens: end, role: Role::User });
            crate::Prompt::new(segments)
        };
        let (a, b) = (prompt(1, ends.0), prompt(2, ends.1));
        let hashes = |prompt: &crate::Prompt| prompt.blocks(block).hashes().collect::<Vec<u64>>();
        let (blocks_a, blocks_b) = (hashes(&a), hashes(&b));
        prop_assert_eq!(blocks_a.len(), (a.tokens() / block) as usize);
        let same = blocks_a.iter().zip(&blocks_b).take_while(|(x, y)| x == y).count();
        let common: u32 = shared.iter().map(|s| s.1).sum();
        prop_assert_eq!(same, (common / block) as usize);
        let distinct: HashSet<_> = blocks_a.iter().collect();
        prop_assert_eq!(distinct.len(), blocks_a.len());
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}") {
        let _ = WorkloadSpec::parse("any", &text);
        let table = format!("arrivals = 'trace'\n[rows]\ntable = '''\n{}'''", text.replace('\'', ""));
        let _ = WorkloadSpec::parse("any", &table);
    }
}

/// A long run's memory is that of the sessions under way, not of those that were.
#[test]
fn sessions_that_ended_are_forgotten() {
    let users = NonZeroU32::new(8).unwrap();
    let mut workload = Workload::new(&spec(CHATTY), Load::Closed(users), 3, Shard::WHOLE);
    let mut most = 0;
    let mut now = Timestamp::from_seconds(10.0);
    for _ in 0..20_000 {
        let request = workload.take(now).unwrap();
        now = now.after(Duration::from_millis(1));
        workload.ended(request.session, now);
        let last = request.step + 1 == request.steps;
        assert_eq!(workload.goes_on(request.session), !last);
        most = most.max(workload.remembered());
    }
    // The system prompt, and two segments a step of each session under way.
    assert!(most <= 1 + 8 * 12, "{most} prefixes are remembered");
}
