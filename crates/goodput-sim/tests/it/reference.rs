//! The rules of the engine once more, one step and one sequence at a time, in the plainest form:
//! what the engine under test does with sums and stretches is held against it.

use std::collections::{BTreeMap, VecDeque, btree_map::Entry};

use goodput_perf_model::{Batch, Profile};
use goodput_sim::EngineRequest;

/// What happens, in order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Told {
    Admitted(u64, u32),
    Token(u64),
    Preempted(u64),
    Ended(u64),
}

#[derive(Clone, Debug)]
struct Sequence {
    request: EngineRequest,
    computed: u32,
    emitted: u32,
    scheduled: u32,
    held: u32,
    known: u32,
    /// Whether its last step was one more token, and not a prompt.
    decodes: bool,
}

impl Sequence {
    fn length(&self) -> u32 {
        self.request.input_tokens + self.emitted
    }

    fn missing(&self) -> u32 {
        self.length() - self.computed
    }

    fn hashes(&self) -> impl Iterator<Item = u64> {
        self.request.blocks.hashes().take(self.known as usize)
    }
}

/// Blocks one by one: free ones in the order in which they are taken, each with its content.
#[derive(Clone, Debug)]
struct Blocks {
    free: VecDeque<Option<u64>>,
    holders: BTreeMap<u64, u32>,
}

impl Blocks {
    fn take(&mut self, count: u32) -> bool {
        if (self.free.len() as u64) < u64::from(count) {
            return false;
        }
        for _ in 0..count {
            if let Some(Some(hash)) = self.free.pop_front() {
                self.holders.remove(&hash);
            }
        }
        true
    }

    fn hold(&mut self, hash: u64) {
        let holders = self.holders.get_mut(&hash).unwrap();
        if *holders == 0 {
            self.free.retain(|&free| free != Some(hash));
        }
        *holders += 1;
    }

    fn publish(&mut self, hash: u64) {
        if let Entry::Vacant(unknown) = self.holders.entry(hash) {
            unknown.insert(1);
        } else {
            self.hold(hash);
            self.free.push_back(None);
        }
    }

    fn release(&mut self, sequence: &Sequence) {
        for _ in 0..sequence.held - sequence.known {
            self.free.push_back(None);
        }
        let hashes: Vec<u64> = sequence.hashes().collect();
        for &hash in hashes.iter().rev() {
            let holders = self.holders.get_mut(&hash).unwrap();
            *holders -= 1;
            if *holders == 0 {
                self.free.push_back(Some(hash));
            }
        }
    }
}

/// The engine, step by step, in seconds.
#[derive(Clone, Debug)]
pub(crate) struct Reference {
    profile: Profile,
    blocks: Blocks,
    running: Vec<Sequence>,
    waiting: VecDeque<Sequence>,
    pub(crate) log: Vec<(f64, Told)>,
}

impl Reference {
    pub(crate) fn new(profile: &Profile) -> Self {
        Self {
            blocks: Blocks {
                free: vec![None; profile.kv_blocks as usize].into(),
                holders: BTreeMap::new(),
            },
            profile: profile.clone(),
            running: Vec::new(),
            waiting: VecDeque::new(),
            log: Vec::new(),
        }
    }

    /// Runs requests, each with the second at which it comes, in order of time, to their ends.
    pub(crate) fn run(mut self, requests: &[(f64, EngineRequest)]) -> Vec<(f64, Told)> {
        let mut coming = requests.iter().peekable();
        let mut now = 0.0;
        loop {
            while let Some((_, request)) = coming.next_if(|(at, _)| *at <= now) {
                self.waiting.push_back(Sequence {
                    request: request.clone(),
                    computed: 0,
                    emitted: 0,
                    scheduled: 0,
                    held: 0,
                    known: 0,
                    decodes: false,
                });
            }
            let batch = self.schedule(now);
            if batch.tokens() > 0 {
                now += self.profile.step_time.seconds(&batch);
                self.finish(now);
            } else if let Some((at, _)) = coming.peek() {
                now = *at;
            } else {
                return self.log;
            }
        }
    }

    fn schedule(&mut self, now: f64) -> Batch {
        let budget = self.profile.max_batched_tokens.get();
        let window = self.profile.step_time.window_tokens();
        let mut batch = Batch::default();
        let mut evicted = false;
        let mut place = 0;
        while place < self.running.len() {
            let tokens = self.running[place].missing().min(budget - batch.tokens());
            if tokens == 0 {
                break;
            }
            let stored = self.running[place].computed + tokens;
            let needs = stored.div_ceil(self.profile.block_tokens.get());
            let needs = needs.saturating_sub(self.running[place].held);
            while place < self.running.len() && !self.blocks.take(needs) {
                let mut victim = self.running.pop().unwrap();
                self.blocks.release(&victim);
                (victim.computed, victim.held, victim.known) = (0, 0, 0);
                victim.decodes = false;
                self.log.push((now, Told::Preempted(victim.request.index)));
                self.waiting.push_front(victim);
                evicted = true;
            }
            let Some(sequence) = self.running.get_mut(place) else {
                break;
            };
            sequence.held += needs;
            book(sequence, tokens, window, &mut batch);
            place += 1;
        }
        while !evicted && self.admit(now, &mut batch) {}
        batch
    }

    fn admit(&mut self, now: f64, batch: &mut Batch) -> bool {
        let profile = &self.profile;
        let block = profile.block_tokens.get();
        let window = profile.step_time.window_tokens();
        let budget = profile.max_batched_tokens.get() - batch.tokens();
        let full = self.running.len() >= profile.max_num_seqs.get() as usize;
        let Some(first) = self.waiting.front().filter(|_| budget > 0 && !full) else {
            return false;
        };
        let most = ((first.length() - 1) / block) as usize;
        let hashes = first.request.blocks.hashes().take(most);
        let found: Vec<u64> = hashes
            .take_while(|h| profile.prefix_cache && self.blocks.holders.contains_key(h))
            .collect();
        let idle = found.iter().filter(|h| self.blocks.holders[h] == 0).count();
        let known = u32::try_from(found.len()).unwrap();
        let missing = first.length() - known * block;
        if !profile.chunked_prefill && missing > budget {
            return false;
        }
        let tokens = missing.min(budget);
        let needs = (known * block + tokens).div_ceil(block) - known;
        if needs as usize + idle > self.blocks.free.len() {
            return false;
        }
        let mut sequence = self.waiting.pop_front().unwrap();
        for &hash in &found {
            self.blocks.hold(hash);
        }
        self.blocks.take(needs);
        (sequence.computed, sequence.known) = (known * block, known);
        sequence.held = known + needs;
        let index = sequence.request.index;
        self.log.push((now, Told::Admitted(index, known * block)));
        book(&mut sequence, tokens, window, batch);
        self.running.push(sequence);
        true
    }

    /// Those that decode first: all their blocks, tokens and ends; then the prompts.
    fn finish(&mut self, now: f64) {
        let mut running = std::mem::take(&mut self.running);
        for sequence in running.iter_mut().filter(|s| s.decodes) {
            self.compute(sequence);
        }
        for sequence in running.iter_mut().filter(|s| s.decodes) {
            sequence.emitted += 1;
            self.log.push((now, Told::Token(sequence.request.index)));
        }
        running.retain(|sequence| !sequence.decodes || !self.is_over(now, sequence));
        running.retain_mut(|sequence| {
            if sequence.decodes {
                return true;
            }
            self.compute(sequence);
            if sequence.missing() > 0 {
                return true;
            }
            sequence.decodes = true;
            sequence.emitted += 1;
            self.log.push((now, Told::Token(sequence.request.index)));
            !self.is_over(now, sequence)
        });
        self.running = running;
    }

    fn compute(&mut self, sequence: &mut Sequence) {
        sequence.computed += std::mem::take(&mut sequence.scheduled);
        while self.profile.prefix_cache
            && let Some(hash) = sequence
                .request
                .blocks
                .hashes()
                .nth(sequence.known as usize)
            && sequence.computed >= (sequence.known + 1) * self.profile.block_tokens.get()
        {
            self.blocks.publish(hash);
            sequence.known += 1;
        }
    }

    fn is_over(&mut self, now: f64, sequence: &Sequence) -> bool {
        if sequence.emitted < sequence.request.output_tokens {
            return false;
        }
        self.blocks.release(sequence);
        self.log.push((now, Told::Ended(sequence.request.index)));
        true
    }
}

fn book(sequence: &mut Sequence, tokens: u32, window: u32, batch: &mut Batch) {
    if sequence.emitted > 0 && sequence.missing() == 1 {
        batch.decode(sequence.length(), window);
    } else {
        batch.prefill(sequence.computed, tokens);
    }
    sequence.scheduled = tokens;
}
