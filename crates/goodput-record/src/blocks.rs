//! The content of KV blocks, by name: what of two prompts is the same.

/// Blocks of a prompt that stand behind each other, as one name.
///
/// A name stands for its content and for everything before it: two prompts that have blocks of one
/// name have the same text up to there. It names as many blocks as there may be, the first, the second
/// and so on; a run is so many of them from the first on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockRun {
    /// The name.
    pub id: u64,
    /// How many blocks, at least 1.
    pub blocks: u32,
}

/// Tells the blocks of a run apart; odd, so that no two of them have one hash.
const STEP: u64 = 0xA24B_AED4_963E_E407;

impl BlockRun {
    /// One block whose own hash is known.
    #[must_use]
    pub const fn one(hash: u64) -> Self {
        Self {
            id: hash,
            blocks: 1,
        }
    }

    /// A hash of one of its blocks, the first being 0, and of all before it.
    #[must_use]
    pub const fn hash(&self, place: u32) -> u64 {
        self.id.wrapping_add((place as u64).wrapping_mul(STEP))
    }
}

/// Leading blocks of a prompt, from the first on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    runs: Vec<BlockRun>,
    count: u32,
}

impl Blocks {
    /// None.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            runs: Vec::new(),
            count: 0,
        }
    }

    /// Adds a run behind the others. One of no blocks is left out.
    #[inline]
    pub fn push(&mut self, run: BlockRun) {
        if run.blocks > 0 {
            self.count = self.count.saturating_add(run.blocks);
            self.runs.push(run);
        }
    }

    /// How many blocks.
    #[must_use]
    #[inline]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Whether there are none.
    #[must_use]
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The runs, in order.
    #[must_use]
    #[inline]
    pub fn runs(&self) -> &[BlockRun] {
        &self.runs
    }

    /// A hash of each block, in order.
    pub fn hashes(&self) -> impl Iterator<Item = u64> {
        let each = |run: &BlockRun| {
            let run = *run;
            (0..run.blocks).map(move |place| run.hash(place))
        };
        self.runs.iter().flat_map(each)
    }

    /// The blocks from number `from` up to number `to`, 0 being the first: by run, the name and which
    /// of its blocks, from and up to.
    #[inline]
    pub fn between(&self, from: u32, to: u32) -> impl Iterator<Item = (u64, u32, u32)> {
        let mut behind = 0_u32;
        let runs = self.runs.iter().map_while(move |run| {
            let first = behind;
            behind = behind.saturating_add(run.blocks);
            let piece = |number: u32| number.saturating_sub(first).min(run.blocks);
            (first < to).then(|| (run.id, piece(from), piece(to)))
        });
        runs.filter(|&(_, from, to)| from < to)
    }

    /// The first `count` blocks, the last run of them first: by run, the name and how many.
    #[inline]
    pub fn backwards(&self, count: u32) -> impl Iterator<Item = (u64, u32)> {
        let mut first = self.count;
        let runs = self.runs.iter().rev().map(move |run| {
            first = first.saturating_sub(run.blocks);
            (run.id, count.saturating_sub(first).min(run.blocks))
        });
        runs.filter(|&(_, blocks)| blocks > 0)
    }

    /// How many leading blocks both have.
    #[must_use]
    pub fn shared_with(&self, other: &Self) -> u32 {
        let mut shared = 0;
        for (mine, theirs) in self.runs.iter().zip(&other.runs) {
            if mine.id != theirs.id {
                break;
            }
            shared += mine.blocks.min(theirs.blocks);
            if mine.blocks != theirs.blocks {
                break;
            }
        }
        shared
    }
}

/// Each hash a block of its own.
impl FromIterator<u64> for Blocks {
    fn from_iter<I: IntoIterator<Item = u64>>(hashes: I) -> Self {
        let runs: Vec<BlockRun> = hashes.into_iter().map(BlockRun::one).collect();
        let count = u32::try_from(runs.len()).unwrap_or(u32::MAX);
        Self { runs, count }
    }
}

impl FromIterator<BlockRun> for Blocks {
    fn from_iter<I: IntoIterator<Item = BlockRun>>(runs: I) -> Self {
        let mut blocks = Self::new();
        runs.into_iter().for_each(|run| blocks.push(run));
        blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(runs: &[(u64, u32)]) -> Blocks {
        let run = |&(id, blocks)| BlockRun { id, blocks };
        runs.iter().map(run).collect()
    }

    #[test]
    fn a_part_is_what_a_walk_through_all_blocks_finds() {
        let all = blocks(&[(7, 3), (9, 1), (4, 0), (2, 5)]);
        assert_eq!(all.count(), 9);
        let hashes: Vec<u64> = all.hashes().collect();
        for count in 0..=11 {
            let forwards = all.between(0, count).map(|(id, _, blocks)| (id, blocks));
            let mut forwards: Vec<(u64, u32)> = forwards.collect();
            forwards.reverse();
            assert!(all.backwards(count).eq(forwards), "{count}");
        }
        for from in 0..=9 {
            for to in 0..=11 {
                let piece = |(id, from, to): (u64, u32, u32)| {
                    (from..to).map(move |i| BlockRun { id, blocks: to }.hash(i))
                };
                let found: Vec<u64> = all.between(from, to).flat_map(piece).collect();
                let expected = hashes.get(from as usize..to.min(9) as usize);
                assert_eq!(found, expected.unwrap_or_default(), "{from}..{to}");
            }
        }
    }

    #[test]
    fn what_two_prompts_share_ends_where_a_name_differs() {
        let one = blocks(&[(1, 4), (2, 3), (3, 1)]);
        assert_eq!(one.shared_with(&one), 8);
        assert_eq!(one.shared_with(&blocks(&[(1, 4), (2, 2), (3, 1)])), 6);
        assert_eq!(one.shared_with(&blocks(&[(1, 4), (5, 3)])), 4);
        assert_eq!(one.shared_with(&Blocks::new()), 0);
        let single: Blocks = [5, 6].into_iter().collect();
        assert_eq!(single.hashes().collect::<Vec<u64>>(), [5, 6]);
    }
}
