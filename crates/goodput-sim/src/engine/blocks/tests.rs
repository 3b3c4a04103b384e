use std::collections::BTreeSet;

use goodput_record::BlockRun;
use proptest::prelude::*;

use super::{one_by_one::OneByOne, *};

impl BlockPool {
    /// Counts everything anew and compares: the invariants.
    pub(crate) fn is_sound(&self) -> bool {
        let of_run = |run: &Run, stamp| {
            let mut behind = run.held();
            let mut found = 0;
            run.idle.each_from_last(|idle| {
                if idle.stamp == stamp {
                    found = idle.upto - behind;
                }
                behind = idle.upto;
            });
            found
        };
        let queued: u32 = self
            .queue
            .iter()
            .map(|entry| match *entry {
                Free::Blank(blank) => blank,
                Free::Known { slot, stamp } => of_run(&self.runs[slot as usize], stamp),
            })
            .sum();
        let runs = self.places.values().all(|&slot| {
            let run = &self.runs[slot as usize];
            let mut upto = run.held();
            let mut rises = true;
            run.idle.each_from_last(|idle| {
                rises &= idle.upto > upto;
                upto = idle.upto;
            });
            rises && upto == run.known && run.known > 0
        });
        queued == self.free && self.free <= self.total && runs
    }

    /// A hash of each block that can be found.
    fn known(&self) -> BTreeSet<u64> {
        let mut hashes = BTreeSet::new();
        for (&id, &slot) in &self.places {
            let run = BlockRun { id, blocks: 1 };
            hashes.extend((0..self.runs[slot as usize].known).map(|place| run.hash(place)));
        }
        hashes
    }
}

/// What a sequence does next.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// It is admitted with a prompt of shared runs and one of its own, of which it is known how many
    /// blocks each has, and `answer` blocks of an answer.
    Admit {
        shared: [u32; 3],
        own: u32,
        chunk: u32,
    },
    /// The sequence of this number, counted modulo those that run, fills some blocks.
    Fill { who: usize, blocks: u32 },
    /// It takes blocks for its answer.
    Grow { who: usize, blocks: u32 },
    /// It ends, or is evicted or cancelled: it gives back all it has.
    End { who: usize },
}

fn act() -> impl Strategy<Value = Act> {
    let admit = (prop::array::uniform3(0..6_u32), 0..5_u32, 1..9_u32);
    prop_oneof![
        4 => admit.prop_map(|(shared, own, chunk)| Act::Admit { shared, own, chunk }),
        4 => (any::<usize>(), 1..9_u32).prop_map(|(who, blocks)| Act::Fill { who, blocks }),
        2 => (any::<usize>(), 1..4_u32).prop_map(|(who, blocks)| Act::Grow { who, blocks }),
        3 => any::<usize>().prop_map(|who| Act::End { who }),
    ]
}

#[derive(Clone, Debug)]
struct Holder {
    blocks: Blocks,
    hashes: Vec<u64>,
    held: u32,
    known: u32,
}

/// Both pools, and who holds blocks of them.
struct Both {
    runs: BlockPool,
    each: OneByOne,
    held: Vec<Holder>,
    hits: u32,
}

impl Both {
    fn admit(&mut self, (number, most): (u64, u32), shared: [u32; 3], own: u32, chunk: u32) {
        // A run's name says what stands before it: how long the runs before it are.
        let mut before = 0;
        let mut blocks = Blocks::new();
        for (place, &count) in (1_u64..).zip(&shared) {
            let id = place << 32 | u64::from(before);
            blocks.push(BlockRun { id, blocks: count });
            before = before * 8 + count;
        }
        let id = (number + 9) << 32;
        blocks.push(BlockRun { id, blocks: own });
        let hashes: Vec<u64> = blocks.hashes().collect();
        let most = most.min(blocks.count());
        let found = self.runs.find(&blocks, most);
        assert_eq!(found, self.each.find(&hashes[..most as usize]));
        let (found, idle) = found;
        let needs = chunk.min(blocks.count() + 1 - found);
        if needs + idle > self.runs.free() {
            return;
        }
        self.hits += found;
        self.runs.hold(&blocks, found);
        self.each.hold(&hashes[..found as usize]);
        assert!(self.runs.take(needs) && self.each.take(needs));
        self.held.push(Holder {
            blocks,
            hashes,
            held: found + needs,
            known: found,
        });
    }

    fn act(&mut self, number: u64, act: Act) {
        let count = self.held.len();
        let of = |who: usize| (count > 0).then(|| who % count.max(1));
        match act {
            Act::Admit { shared, own, chunk } => {
                let most = if number.is_multiple_of(4) {
                    chunk
                } else {
                    u32::MAX
                };
                self.admit((number, most), shared, own, chunk);
            }
            Act::Fill { who, blocks } => {
                let Some(who) = of(who) else { return };
                let held = &mut self.held[who];
                let most = held.held.min(held.blocks.count());
                let upto = (held.known + blocks).min(most);
                self.runs.publish(&held.blocks, held.known, upto);
                for place in held.known..upto {
                    self.each.publish(held.hashes[place as usize]);
                }
                held.known = upto;
            }
            Act::Grow { who, blocks } => {
                let Some(who) = of(who) else { return };
                let taken = self.runs.take(blocks);
                assert_eq!(taken, self.each.take(blocks));
                self.held[who].held += if taken { blocks } else { 0 };
            }
            Act::End { who } => {
                let Some(who) = of(who) else { return };
                self.end(who);
            }
        }
    }

    fn end(&mut self, who: usize) {
        let held = self.held.swap_remove(who);
        let blank = held.held - held.known;
        self.runs.release(&held.blocks, held.known, blank);
        let known = &held.hashes[..held.known as usize];
        self.each.release(known, blank);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// The same blocks are found, free and forgotten at every moment as in a pool that looks at each.
    #[test]
    fn runs_of_blocks_are_their_blocks_one_by_one(
        total in 12..80_u32,
        acts in prop::collection::vec(act(), 1..150),
    ) {
        let mut both = Both {
            runs: BlockPool::new(total),
            each: OneByOne::new(total),
            held: Vec::new(),
            hits: 0,
        };
        for (number, act) in (0..).zip(acts) {
            both.act(number, act);
            prop_assert!(both.runs.is_sound());
            prop_assert_eq!(both.runs.free(), both.each.free());
            prop_assert_eq!(both.runs.known(), both.each.known().collect::<BTreeSet<u64>>());
        }
        while !both.held.is_empty() {
            both.end(0);
        }
        prop_assert!(both.runs.is_sound());
        prop_assert_eq!(both.runs.held(), 0);
    }
}

/// The property above says something only where blocks are found and forgotten.
#[test]
fn the_play_finds_and_forgets_blocks() {
    let mut both = Both {
        runs: BlockPool::new(30),
        each: OneByOne::new(30),
        held: Vec::new(),
        hits: 0,
    };
    let mut most = 0;
    for number in 0..400_u32 {
        let shared = [number % 3, number % 5, number % 2];
        both.act(
            u64::from(number),
            Act::Admit {
                shared,
                own: 3,
                chunk: 12,
            },
        );
        both.act(0, Act::Fill { who: 0, blocks: 12 });
        most = most.max(both.runs.known().len());
        if number.is_multiple_of(2) {
            both.act(0, Act::End { who: 0 });
        }
    }
    assert!(both.hits > 100 && most > 12, "{} {most}", both.hits);
    assert!(both.runs.queue.len() < 200, "{}", both.runs.queue.len());
}
