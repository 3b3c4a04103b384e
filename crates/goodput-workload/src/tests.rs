//! Laws of the workload as a whole.

use std::{
    collections::{BTreeMap, HashSet},
    num::NonZeroU32,
    sync::Arc,
};

use goodput_record::Timestamp;
use proptest::prelude::*;

use crate::{
    Load, PlannedRequest, Role, Shard, Workload, WorkloadSpec, point_seed, presets, spec::Shape,
};

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

#[test]
fn presets_are_whole_and_say_where_they_come_from() {
    for preset in presets() {
        let spec = match WorkloadSpec::parse(preset.name, preset.text) {
            Ok(spec) => spec,
            Err(error) => panic!("{}", error.render(preset.name, preset.text, false)),
        };
        let facts = spec.describe();
        println!("{facts:#?}");
        assert!(!spec.source().is_empty() && !spec.description().is_empty());
        assert_eq!(spec.name(), preset.name);
        assert!(facts.input_tokens.max + 1.0 <= f64::from(spec.longest()));
    }
}
