//! Which schedule and prompts a load point has, whatever came before it.

use goodput_ledger::PointRow;
use goodput_stats::mix;
use goodput_workload::Load;

/// What the seed of the next point of this load depends on: the load, how requests come, and how often
/// it is among `points` already. So two runs of one seed ask the same at the same load, in whatever
/// order a search came to it, and their requests can be compared one by one.
pub(crate) fn place(points: &[PointRow], load: Load, other_arrivals: Option<&str>) -> u32 {
    let (users, rate) = match load {
        Load::Closed(users) => (Some(users.get()), None),
        Load::Open { per_second } => (None, Some(per_second)),
    };
    let other = other_arrivals.filter(|_| rate.is_some());
    let same = |p: &&PointRow| {
        (p.concurrency, p.rate_req_s) == (users, rate) && p.other_arrivals.as_deref() == other
    };
    let load = users.map_or_else(|| rate.unwrap_or(0.0).to_bits(), u64::from);
    let kind = (points.iter().filter(same).count() as u64) << 1 | u64::from(other.is_some());
    of_load(load, kind)
}

/// The place of a load that is measured once more beside a search: no search comes to it.
pub(crate) fn fresh_place(load: Load) -> u32 {
    let load = match load {
        Load::Closed(users) => u64::from(users.get()),
        Load::Open { per_second } => per_second.to_bits(),
    };
    of_load(load, u64::MAX >> 1)
}

fn of_load(load: u64, kind: u64) -> u32 {
    // The highest half is the warm-up's.
    u32::try_from(mix(mix(load).wrapping_add(kind)) >> 33).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    #[test]
    fn loads_and_arrivals_have_places_of_their_own() {
        let closed = |n| Load::Closed(NonZeroU32::new(n).unwrap());
        let open = |per_second| Load::Open { per_second };
        let mut places: Vec<u32> = (1..200).map(|n| place(&[], closed(n), None)).collect();
        places.extend((1..200).map(|n| place(&[], open(f64::from(n) / 3.0), None)));
        places.extend((1..200).map(|n| place(&[], open(f64::from(n) / 3.0), Some("poisson"))));
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), 3 * 199);
        assert_eq!(
            place(&[], closed(4), Some("poisson")),
            place(&[], closed(4), None),
            "users have no arrivals"
        );
    }
}
