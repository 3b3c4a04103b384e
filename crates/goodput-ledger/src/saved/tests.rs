use goodput_record::{Outcome, Phase};
use goodput_slo::Slo;
use goodput_stats::EXACT_SAMPLES;
use proptest::prelude::*;

use super::*;
use crate::tests::{BIN, Case, facts, seconds, slo};

const SHARDS: usize = 8;

/// A request, its part of the point, its shard, and whether it is a step of a session.
type Posted = (Case, Phase, usize, Option<u16>);

fn posted() -> impl Strategy<Value = Posted> {
    let good = (
        0_u64..9_000,
        1_u64..900,
        prop::collection::vec(1_u64..80, 0..6),
    )
        .prop_map(|(origin, ttft, gaps)| Case::ok(origin, ttft, &gaps));
    let ends = prop::sample::select(vec![
        Outcome::Failed,
        Outcome::Empty,
        Outcome::Rejected,
        Outcome::Cancelled,
    ]);
    let bad = (0_u64..9_000, ends, 1_u64..900)
        .prop_map(|(origin, outcome, after)| Case::failed(origin, outcome, after));
    let phase = prop::sample::select(vec![Phase::Settling, Phase::Measured, Phase::Drain]);
    (
        prop_oneof![4 => good, 1 => bad],
        phase,
        0..SHARDS,
        prop::option::of(2_u16..4),
    )
}

fn post(books: &mut PointBooks, number: usize, (case, phase, _, session): &Posted) {
    let number = u32::try_from(number).unwrap();
    let steps = session.unwrap_or(1);
    // All steps of a session but its last one, now and then: some never end.
    for step in 0..steps - u16::from(number.is_multiple_of(5) && steps > 1) {
        let record = case.step_of(number, step, steps);
        books.arrived(record.summary.arrival());
        books.post(&record.summary, &record.gaps, *phase);
    }
}

/// Through a file and back.
fn filed(books: &PointBooks, slos: &[Slo]) -> PointBooks {
    let line = serde_json::to_string(&books.save()).unwrap();
    PointBooks::restore(serde_json::from_str(&line).unwrap(), slos).unwrap()
}

fn slos() -> Vec<Slo> {
    let mut slos = vec![slo("ttft=300ms,tpot=40ms"), slo("p90 ttft=500ms,e2e=1s")];
    slos.extend(goodput_slo::SloFile::parse("t", TRAJECTORY).unwrap());
    slos
}

const TRAJECTORY: &str = "[[slo]]\nname = \"agent\"\nclass = \"agent\"\nobjective = \"90% over 28d\"\n\
    clauses = [\"trajectory <= 2s\"]\nworkload.preset = \"chat-short\"\n";

proptest! {
    // A case opens three dozen books.
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_books_of_eight_shards_are_the_books_of_the_whole(
        all in prop::collection::vec(posted(), 0..60),
        order in Just((0..SHARDS).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let slos = slos();
        let mut whole = PointBooks::new(&slos, BIN);
        let mut shards = vec![PointBooks::new(&slos, BIN); SHARDS];
        for (number, one) in all.iter().enumerate() {
            post(&mut whole, number, one);
            post(&mut shards[one.2], number, one);
        }
        let mut merged = PointBooks::new(&slos, BIN);
        for shard in order {
            merged.merge(&filed(&shards[shard], &slos));
        }
        let facts = facts(seconds(1, 8));
        let row = |books: &PointBooks| serde_json::to_string(&books.row(&facts)).unwrap();
        prop_assert_eq!(row(&merged), row(&whole));
        prop_assert_eq!(row(&filed(&whole, &slos)), row(&whole));
        prop_assert_eq!(merged.charted(&facts.window), whole.charted(&facts.window));
        prop_assert_eq!(serde_json::to_string(&merged.save()).unwrap(), serde_json::to_string(&whole.save()).unwrap());
    }
}

#[test]
fn shards_that_outgrow_the_exact_samples_only_together_merge_all_the_same() {
    let slos = slos();
    let mut whole = PointBooks::new(&slos, BIN);
    let mut shards = [PointBooks::new(&slos, BIN), PointBooks::new(&slos, BIN)];
    for number in 0..EXACT_SAMPLES + 100 {
        let at = number as u64;
        let one = (
            Case::ok(at % 9_000, 1 + at % 977, &[at % 31]),
            Phase::Measured,
            number % 2,
            None,
        );
        post(&mut whole, number, &one);
        post(&mut shards[number % 2], number, &one);
    }
    let mut merged = filed(&shards[0], &slos);
    merged.merge(&filed(&shards[1], &slos));
    let facts = facts(seconds(0, 10));
    let row = merged.row(&facts);
    assert_eq!(row, whole.row(&facts));
    assert_eq!(row.ttft_n, EXACT_SAMPLES as u64 + 100);
}

#[test]
fn books_of_other_slos_and_changed_files_are_refused() {
    let own = [slo("ttft=300ms")];
    let saved = PointBooks::new(&own, BIN).save();
    let other = PointBooks::restore(saved.clone(), &[slo("ttft=301ms")]);
    assert_eq!(
        other.unwrap_err(),
        BooksError::OtherSlos(vec![own[0].name().to_owned()])
    );
    assert!(PointBooks::restore(saved.clone(), &[]).is_err());
    let line = serde_json::to_string(&saved).unwrap();
    for (from, to) in [
        ("\"clause_misses\":[0]", "\"clause_misses\":[0,0]"),
        ("\"width_ns\":100000000", "\"width_ns\":0"),
        (
            "\"width_ns\":100000000,\"bins\":[]},\"slos\"",
            "\"width_ns\":7,\"bins\":[]},\"slos\"",
        ),
        (
            "\"width_ns\":100000000,\"bins\":[]",
            "\"width_ns\":100000000,\"bins\":[[3,[1]]]",
        ),
        ("\"steps\":[]", "\"steps\":[4]"),
    ] {
        assert!(line.contains(from), "{from} in {line}");
        let changed = line.replacen(from, to, 1);
        let read = serde_json::from_str::<SavedBooks>(&changed);
        let opened = read
            .ok()
            .and_then(|saved| PointBooks::restore(saved, &own).ok());
        assert!(opened.is_none(), "{to}");
    }
}
