//! Simulated requests per second of CPU time through the engine alone: `cargo bench -p goodput-sim`.

#![expect(
    clippy::print_stdout,
    reason = "a benchmark's result is what it prints"
)]

use std::{hint::black_box, time::Duration};

use goodput_perf_model::Profile;
use goodput_record::{Outcome, Timestamp};
use goodput_sim::{Engine, EngineEvents, EngineRequest};
use goodput_stats::{
    Draws, Stream,
    sampler::{exponential, log_normal},
    whole_u32,
};

#[derive(Default)]
struct Count {
    tokens: u64,
    ended: u64,
}

impl EngineEvents for Count {
    fn tokens(&mut self, at: Timestamp, _index: u64, count: u32) {
        black_box(at);
        self.tokens += u64::from(count);
    }
    fn ended(&mut self, _at: Timestamp, _index: u64, _outcome: Outcome) {
        self.ended += 1;
    }
}

/// CPU time of this thread so far; zero where the system does not tell.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures")]
fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split(' ').next().and_then(|n| n.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

fn run(name: &str, profile: &Profile, rate: f64, output: f64, count: u64) {
    let mut requests = Vec::new();
    let mut due = 0.0;
    for index in 0..count {
        let mut draws = Draws::new(1, Stream(1), index);
        due += exponential(&mut draws) / rate;
        let input = whole_u32(log_normal(&mut draws, 450.0, 0.5).clamp(1.0, 8_000.0));
        let output = whole_u32(log_normal(&mut draws, output, 0.5).clamp(1.0, 4_000.0));
        requests.push((
            Timestamp::from_seconds(due),
            EngineRequest::new(index, input, output),
        ));
    }
    let mut engine = Engine::new(profile).fast_forward();
    let mut seen = Count::default();
    let begin = cpu();
    for (at, request) in requests {
        engine.advance(at, &mut seen);
        engine.submit(at, request).expect("it fits");
    }
    engine.advance(Timestamp::FAR_FUTURE, &mut seen);
    let spent = (cpu() - begin).as_secs_f64();
    let counters = engine.counters();
    println!(
        "{name:24} {:8.0} ns/request  {:6.2} M/s   steps/request {:.1} preemptions/request {:.2} simulated {:.0} s",
        spent * 1e9 / count as f64,
        count as f64 / spent / 1e6,
        counters.steps as f64 / count as f64,
        counters.preemptions as f64 / count as f64,
        engine.sample().at.seconds(),
    );
    assert_eq!(seen.ended, count);
}

fn main() {
    let profile = Profile::builtin("qwen3-8b-h100").expect("it is built in");
    for rate in [4.0, 20.0, 40.0, 48.0] {
        run(&format!("plain {rate}/s"), &profile, rate, 113.0, 300_000);
    }
    let small = Profile {
        kv_blocks: 8_000,
        ..profile.clone()
    };
    run("thrash", &small, 30.0, 450.0, 100_000);
}
