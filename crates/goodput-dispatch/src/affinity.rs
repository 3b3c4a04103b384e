//! Which replicas were sent a prefix or a session lately, in bounded memory.

use goodput_record::BlockRun;
use goodput_stats::mix;

use crate::{
    request::ReplicaId,
    slab::{KEPT_HASHES, Landmarks},
};

/// Replicas remembered for one hash. A prefix that is too much for one replica is known by several.
const HOMES: usize = 4;
/// Entries that one hash may be in.
const WAYS: usize = 4;
const NONE: u16 = u16::MAX;

#[derive(Clone, Copy, Debug)]
struct Entry {
    hash: u64,
    /// When it was used last, in uses of the table; 0: empty.
    used: u32,
    /// The latest first.
    homes: [u16; HOMES],
}

const EMPTY: Entry = Entry {
    hash: 0,
    used: 0,
    homes: [NONE; HOMES],
};

/// A table of fixed size: each hash has its place in one row of a few entries, and takes that of
/// the one not used for the longest.
#[derive(Clone, Debug)]
pub(crate) struct Affinity {
    rows: Vec<[Entry; WAYS]>,
    uses: u32,
}

impl Affinity {
    /// Room for about `entries` hashes.
    pub(crate) fn new(entries: u32) -> Self {
        let rows = (entries as usize).div_ceil(WAYS).max(1).next_power_of_two();
        Self {
            rows: vec![[EMPTY; WAYS]; rows],
            uses: 0,
        }
    }

    fn row(&self, hash: u64) -> usize {
        let mask = self.rows.len() - 1;
        usize::try_from(mix(hash) >> 16).unwrap_or(0) & mask
    }

    /// The replicas that know a hash, the latest first.
    pub(crate) fn homes(&self, hash: u64) -> impl Iterator<Item = ReplicaId> {
        let row = &self.rows[self.row(hash)];
        let entry = row.iter().find(|e| e.used > 0 && e.hash == hash);
        let homes = entry.map_or([NONE; HOMES], |e| e.homes);
        homes.into_iter().filter(|&h| h != NONE).map(ReplicaId)
    }

    /// A replica was sent this.
    pub(crate) fn learn(&mut self, hash: u64, replica: ReplicaId) {
        self.uses = match self.uses.checked_add(1) {
            Some(uses) => uses,
            None => self.halve_ages(),
        };
        let (uses, row) = (self.uses, self.row(hash));
        let row = &mut self.rows[row];
        let known = row.iter().position(|e| e.used > 0 && e.hash == hash);
        let oldest = || (0..WAYS).min_by_key(|&way| row[way].used).unwrap_or(0);
        let way = known.unwrap_or_else(oldest);
        let entry = &mut row[way];
        if known.is_none() {
            *entry = Entry { hash, ..EMPTY };
        }
        entry.used = uses;
        let found = entry.homes.iter().position(|&h| h == replica.0);
        entry.homes[..=found.unwrap_or(HOMES - 1)].rotate_right(1);
        entry.homes[0] = replica.0;
    }

    /// A replica has lost its cache.
    pub(crate) fn forget(&mut self, replica: ReplicaId) {
        for entry in self.rows.iter_mut().flatten() {
            for home in &mut entry.homes {
                if *home == replica.0 {
                    *home = NONE;
                }
            }
        }
    }

    /// The counter of uses has come to its end: every age is halved, once in four billion uses.
    fn halve_ages(&mut self) -> u32 {
        for entry in self.rows.iter_mut().flatten() {
            entry.used = entry.used.div_ceil(2);
        }
        u32::MAX / 2 + 2
    }
}

/// Hashes of a prompt at depths of 1, 2, 3, 4, 6, 8, 12, 16, ... blocks: two for each doubling, the
/// deepest sixteen of them, the shallowest first. Prompts that share a beginning share depths.
pub(crate) fn landmarks(prefix: &[BlockRun]) -> Landmarks {
    let blocks = prefix.iter().map(|run| u64::from(run.blocks)).sum();
    let depths = || (0..).map(depth).take_while(|&d| d <= blocks);
    let beyond = depths().count().saturating_sub(KEPT_HASHES);
    let mut found = Landmarks::NONE;
    let (mut runs, mut before) = (prefix.iter().peekable(), 0);
    for (place, depth) in found.hashes.iter_mut().zip(depths().skip(beyond)) {
        while let Some(run) = runs.next_if(|run| before + u64::from(run.blocks) < depth) {
            before += u64::from(run.blocks);
        }
        let in_run = u32::try_from(depth - 1 - before).unwrap_or(u32::MAX);
        *place = runs.peek().map_or(0, |run| run.hash(in_run));
        found.count += 1;
    }
    found
}

/// 1, 2, 3, 4, 6, 8, 12, 16, 24, ...
const fn depth(number: u32) -> u64 {
    match number {
        0 => 1,
        n if n % 2 == 1 => 2 << (n / 2),
        n => 3 << (n / 2 - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depths_are_two_for_each_doubling() {
        let depths: Vec<u64> = (0..11).map(depth).collect();
        assert_eq!(depths, [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48]);
        let chain: Vec<BlockRun> = (1..=5_000).map(BlockRun::one).collect();
        let deep = landmarks(&chain);
        let last = &deep.hashes()[14..];
        assert_eq!((deep.count, last), (16, &[3_072, 4_096][..]));
        assert_eq!(landmarks(&chain[..7]).hashes(), [1, 2, 3, 4, 6]);
        assert_eq!(landmarks(&[]).count, 0);
        // The same, told as runs.
        let runs = [(10, 5), (20, 1), (30, 20)].map(|(id, blocks)| BlockRun { id, blocks });
        let each = runs
            .iter()
            .flat_map(|run| (0..run.blocks).map(|i| run.hash(i)));
        let each: Vec<BlockRun> = each.map(BlockRun::one).collect();
        assert_eq!(landmarks(&runs).hashes(), landmarks(&each).hashes());
        assert_eq!(landmarks(&runs).count, 9);
    }

    #[test]
    fn the_latest_home_comes_first_and_the_table_stays_as_large_as_it_is() {
        let mut table = Affinity::new(64);
        for replica in [1, 2, 1, 3, 4, 5] {
            table.learn(9, ReplicaId(replica));
        }
        let homes: Vec<u16> = table.homes(9).map(|r| r.0).collect();
        assert_eq!(homes, [5, 4, 3, 1]);
        table.forget(ReplicaId(4));
        assert_eq!(table.homes(9).count(), 3);
        for hash in 100..100_000 {
            table.learn(hash, ReplicaId(0));
        }
        assert_eq!(table.rows.len() * WAYS, 64);
        assert_eq!(table.homes(9).count(), 0);
        assert_eq!(table.homes(99_999).count(), 1);
    }
}
