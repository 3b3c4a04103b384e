//! How far the clocks of the shards are apart, seen from the one thing that all of them looked at:
//! the counters of the server. A counter that grows is a clock of its own: two looks at the same
//! value were made at the same moment, whatever the lookers' clocks said.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufRead, BufReader},
    path::Path,
};

use serde::Deserialize;

/// Counters of tokens grow smoothly while a server works.
const TOKENS: &str = "tokens_total";
/// Looks further apart do not tell when between them a value was reached.
const NEAR_NS: u64 = 3_000_000_000;
/// Fewer pairs of looks say nothing.
const FEWEST: usize = 8;

#[derive(Deserialize)]
struct Look {
    t_ns: u64,
    name: String,
    value: f64,
}

/// The course of every counter of tokens: instants on the looker's clock, and values.
pub(super) type Courses = BTreeMap<String, Vec<(u64, f64)>>;

/// What a shard kept of the server's counters. Nothing where it kept none; lines that cannot be
/// read explain nothing.
pub(super) fn courses(server_metrics: &Path) -> Courses {
    let mut courses = Courses::new();
    let Ok(file) = File::open(server_metrics) else {
        return courses;
    };
    let lines = BufReader::new(file).lines().map_while(Result::ok);
    for line in lines.filter(|line| line.contains(TOKENS)) {
        if let Ok(look) = serde_json::from_str::<Look>(&line) {
            let course = courses.entry(look.name).or_default();
            course.push((look.t_ns, look.value));
        }
    }
    // A counter that falls is that of a server that restarted, or of several behind one name.
    courses.retain(|_, course| course.is_sorted_by(|a, b| a.0 <= b.0 && a.1 <= b.1));
    courses
}

/// How far the clock of `other` is ahead of that of `one`, in ns: the median over the values that
/// `other` saw. `None`: they looked at no counter in common, or too seldom.
pub(super) fn ahead(one: &Courses, other: &Courses) -> Option<i64> {
    let mut ahead: Vec<i64> = Vec::new();
    for (name, looks) in other {
        let Some(course) = one.get(name) else {
            continue;
        };
        // Where a counter stands still, a value says nothing of the moment.
        let moving = looks
            .windows(3)
            .filter(|w| w[0].1 < w[1].1 && w[1].1 < w[2].1);
        for &(at, value) in moving.map(|w| &w[1]) {
            if let Some(reached) = reached(course, value) {
                ahead.push(at.cast_signed().saturating_sub(reached.cast_signed()));
            }
        }
    }
    ahead.sort_unstable();
    (ahead.len() >= FEWEST).then(|| ahead[ahead.len() / 2])
}

/// When a counter reached `value`, between the looks before and after it. `None` where nobody
/// looked.
fn reached(course: &[(u64, f64)], value: f64) -> Option<u64> {
    let after = course.partition_point(|look| look.1 < value);
    let (before, after) = (course.get(after.checked_sub(1)?)?, course.get(after)?);
    let span = after.0.checked_sub(before.0).filter(|ns| *ns <= NEAR_NS)?;
    let share = (value - before.1) / (after.1 - before.1);
    Some(before.0 + goodput_record::nanos_of(span as f64 * share / 1e9))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks every second at a counter that grows by 100 a second from second 5 to second 25, on a
    /// clock that is `ahead` seconds ahead, the first look `from` seconds after the start.
    fn looks(ahead: f64, from: f64) -> Courses {
        let look = |i: u32| {
            let at = from + f64::from(i);
            let value = (at.clamp(5.0, 25.0) - 5.0) * 100.0;
            (goodput_record::nanos_of(at + ahead), value)
        };
        [("x_tokens_total".to_owned(), (0..30).map(look).collect())].into()
    }

    #[test]
    fn a_clock_that_is_ahead_is_found_and_one_that_agrees_too() {
        for off in [0.0, 0.25, 7.0, 40.0] {
            let found = ahead(&looks(0.0, 0.0), &looks(off, 0.4)).unwrap();
            let found = std::time::Duration::from_nanos(found.unsigned_abs()).as_secs_f64();
            assert!((found - off).abs() < 0.01, "{off}: {found}");
        }
        let behind = ahead(&looks(7.0, 0.0), &looks(0.0, 0.4)).unwrap();
        assert!(
            (-7_010_000_000..-6_990_000_000).contains(&behind),
            "{behind}"
        );
    }

    #[test]
    fn without_a_counter_that_moves_nothing_is_said() {
        let still: Courses = [("x_tokens_total".to_owned(), vec![(1, 5.0), (2, 5.0)])].into();
        assert_eq!(ahead(&still, &still), None);
        assert_eq!(ahead(&still, &looks(0.0, 0.0)), None);
        assert_eq!(ahead(&Courses::new(), &looks(0.0, 0.0)), None);
        assert!(courses(Path::new("/nowhere/at-all")).is_empty());
    }
}
