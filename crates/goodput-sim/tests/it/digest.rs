//! The same calls give the same records, on any machine and in any release.

use goodput_perf_model::Profile;
use goodput_record::{Timestamp, nanos};
use goodput_sim::drive::Plan;
use goodput_stats::mix;

use crate::load::{Closed, conversation, simulate};

#[test]
fn the_records_of_a_run_never_change() {
    let profile = Profile::builtin("qwen3-8b-h100-shared").unwrap();
    let plan = Plan::until(Timestamp::from_seconds(30.0));
    let run = simulate(&profile, &mut Closed::new(96, conversation), &plan);
    let mut digest = 0;
    for request in &run.ended {
        let instants = [
            request.origin(),
            request.first_token().unwrap(),
            request.ended(),
        ];
        for instant in instants {
            digest = mix(digest ^ instant.nanos());
        }
        digest = mix(digest ^ request.id() ^ nanos(request.stall().unwrap()));
    }
    assert!(run.engine.counters().preemptions > 5);
    assert_eq!(
        format!("{} records, {digest:016x}", run.ended.len()),
        "519 records, 78ab3c2ebc43869e"
    );
}
