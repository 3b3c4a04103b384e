//! Who takes part in a step.

use goodput_perf_model::Batch;
use goodput_record::{StepRun, Timestamp};

use super::{Engine, EngineEvents, fine::Fine};

impl Engine {
    /// Evicts the last admitted until those that run have the blocks they need for the next step;
    /// returns how many those that decode need, how many the prompts, and whether one was evicted.
    pub(super) fn make_room(&mut self, at: Fine, out: &mut impl EngineEvents) -> (u32, u32, bool) {
        let mut evicted = false;
        loop {
            let decodes = self.decode_blocks();
            let prefills = self.prefill_blocks();
            if decodes + prefills <= self.pool.free() {
                return (decodes, prefills, evicted);
            }
            self.preempt_last(at, out);
            evicted = true;
        }
    }

    /// Blocks that those that decode need for the next step.
    #[inline]
    pub(super) fn decode_blocks(&self) -> u32 {
        match &self.speculation {
            Some(speculation) => self.draft_blocks(speculation),
            None => self.decoders.blocks_for_next(),
        }
    }

    /// What a step on `batch` leaves of its tokens.
    #[inline]
    fn budget(&self, batch: &Batch) -> u32 {
        let decodes = batch.decodes * self.tokens_per_decode;
        // A lone sequence goes on even where a step has less room than its draft.
        let taken = decodes + batch.prefill_tokens;
        self.max_batched_tokens.saturating_sub(taken)
    }

    /// Blocks that the prompts under way need for their next chunks.
    #[inline]
    fn prefill_blocks(&self) -> u32 {
        if self.prefills.is_empty() {
            return 0;
        }
        self.blocks_for_chunks()
    }

    fn blocks_for_chunks(&self) -> u32 {
        let mut budget = self.budget(&Batch {
            decodes: self.decoders.count(),
            ..Batch::default()
        });
        let mut blocks = 0;
        for &slot in &self.prefills {
            let tokens = self.slots[slot as usize].missing().min(budget);
            blocks += self.new_blocks(slot, tokens);
            budget -= tokens;
        }
        blocks
    }

    /// Blocks the sequence lacks for `tokens` more.
    fn new_blocks(&self, slot: u32, tokens: u32) -> u32 {
        let sequence = &self.slots[slot as usize];
        let stored = sequence.computed + tokens;
        stored
            .div_ceil(self.block_tokens)
            .saturating_sub(sequence.held)
    }

    fn preempt_last(&mut self, at: Fine, out: &mut impl EngineEvents) {
        let victim = loop {
            match self.running.last() {
                Some(&(order, slot)) if self.is_running(order, slot) => break slot,
                Some(_) => self.running.pop(),
                None => unreachable!("invariant: nobody running needs no block"),
            };
        };
        let longest = self.longest_gap(victim);
        self.drop_running(victim, 0);
        let sequence = &mut self.slots[victim as usize];
        sequence.longest_gap = longest;
        let decoded = sequence.joined.take().is_some();
        if decoded {
            sequence.interrupted = Some(at);
        }
        let steps = StepRun {
            first: sequence.first_step,
            last: self.decoders.steps(),
        };
        (sequence.computed, sequence.held, sequence.known) = (0, 0, 0);
        sequence.order = 0;
        self.counters.preemptions += 1;
        let (index, priority) = (sequence.request.index, sequence.request.priority);
        self.waiting.push_front(priority, victim);
        if decoded && self.speculation.is_none() {
            out.answered_in(index, steps);
        }
        out.preempted(at.timestamp(), index);
    }

    /// Whether the admission still stands.
    pub(super) fn is_running(&self, order: u64, slot: u32) -> bool {
        self.slots[slot as usize].order == order
    }

    /// Takes a sequence out of the batch, and its blocks from it. `under_way` is 1 inside a step, for
    /// which it holds a block already.
    pub(super) fn drop_running(&mut self, slot: u32, under_way: u32) {
        let sequence = &mut self.slots[slot as usize];
        sequence.settle(self.decoders.steps());
        if sequence.joined.is_some() {
            self.decoders.leave(sequence.computed);
            self.decoders.forget_end(slot);
            if self.speculation.is_none() {
                let stored = sequence.computed + under_way;
                sequence.held = stored.div_ceil(self.block_tokens);
            }
        } else {
            self.prefills.retain(|&other| other != slot);
        }
        let blank = sequence.held - sequence.known;
        self.pool
            .release(&sequence.request.blocks, sequence.known, blank);
    }

    /// Gives prompts under way their next chunks and admits from the queue, both by priority, while
    /// sequences, tokens and blocks last. `reserved` blocks are those of the prompts under way.
    pub(super) fn fill(
        &mut self,
        at: Timestamp,
        (mut reserved, may_admit): (u32, bool),
        batch: &mut Batch,
        out: &mut impl EngineEvents,
    ) {
        let under_way = self.prefills.len();
        if under_way + self.waiting.len() == 0 {
            return;
        }
        let mut done = 0;
        let mut may_admit = may_admit;
        loop {
            let next = (done < under_way).then(|| self.prefills[done]);
            let line = next.map(|slot| self.slots[slot as usize].request.priority);
            if may_admit && let Some(slot) = self.candidate(at, line) {
                may_admit = self.admit(at, slot, reserved, batch, out);
                continue;
            }
            let Some(slot) = next else { break };
            let budget = self.budget(batch);
            let tokens = self.slots[slot as usize].missing().min(budget);
            let needs = self.new_blocks(slot, tokens);
            reserved = reserved.saturating_sub(needs);
            let taken = self.pool.take(needs);
            debug_assert!(taken, "invariant: room was made for prompts under way");
            self.slots[slot as usize].held += needs;
            self.schedule(slot, tokens, batch);
            done += 1;
        }
        self.rank_prefills();
    }

    /// Puts the prompts that are computed in the order in which they go on.
    fn rank_prefills(&mut self) {
        // They are in order of admission; only who is served before others breaks it.
        if self.prefills.len() > 1 && self.waiting.has_lines() {
            let slots = &self.slots;
            self.prefills.sort_by_key(|&slot| {
                let sequence = &slots[slot as usize];
                (sequence.request.priority, sequence.order)
            });
        }
    }

    /// Who is next to be admitted before a prompt of priority `line` goes on.
    #[inline]
    fn candidate(&self, at: Timestamp, line: Option<u8>) -> Option<u32> {
        if self.waiting.len() == 0 {
            return None;
        }
        let mut heads = self.waiting.heads();
        heads.find(|&slot| {
            let sequence = &self.slots[slot as usize];
            sequence.submitted <= at && line.is_none_or(|line| sequence.request.priority < line)
        })
    }

    /// Admits a sequence if it fits; returns whether it did.
    fn admit(
        &mut self,
        at: Timestamp,
        slot: u32,
        reserved: u32,
        batch: &mut Batch,
        out: &mut impl EngineEvents,
    ) -> bool {
        let budget = self.budget(batch);
        if budget == 0 || self.running() >= self.max_num_seqs {
            return false;
        }
        let (found, idle) = self.find_prefix(slot);
        let sequence = &mut self.slots[slot as usize];
        let cached = found * self.block_tokens;
        let missing = sequence.length() - cached;
        if !self.chunked_prefill && missing > budget {
            return false;
        }
        let tokens = missing.min(budget);
        let needs = (cached + tokens).div_ceil(self.block_tokens) - found;
        if needs + idle + reserved > self.pool.free() {
            return false;
        }
        (sequence.computed, sequence.known) = (cached, found);
        sequence.held = found + needs;
        self.admissions += 1;
        sequence.order = self.admissions;
        self.pool.hold(&sequence.request.blocks, found);
        self.pool.take(needs);
        if !sequence.returned && self.prefix_cache {
            self.counters.prefix_queries += u64::from(sequence.request.input_tokens);
            self.counters.prefix_hits += u64::from(cached);
        }
        sequence.returned = true;
        self.waiting.pop(sequence.request.priority);
        out.admitted(at, sequence.request.index, cached);
        self.running.push((sequence.order, slot));
        self.prefills.push(slot);
        self.schedule(slot, tokens, batch);
        true
    }

    /// Leading blocks of the sequence in the cache, and how many of these are free. The block of the
    /// last token never counts, so that there is something to compute.
    #[inline]
    fn find_prefix(&self, slot: u32) -> (u32, u32) {
        let sequence = &self.slots[slot as usize];
        if !self.prefix_cache || sequence.request.blocks.is_empty() {
            return (0, 0);
        }
        let most = (sequence.length() - 1) / self.block_tokens;
        self.pool.find(&sequence.request.blocks, most)
    }

    /// Books `tokens` of a prompt into the step.
    #[inline]
    fn schedule(&mut self, slot: u32, tokens: u32, batch: &mut Batch) {
        let sequence = &mut self.slots[slot as usize];
        sequence.scheduled = tokens;
        if tokens == 0 {
            return;
        }
        if sequence.emitted > 0 && sequence.missing() == 1 {
            // All but the last token was found: no more than a decode.
            batch.decode(sequence.length(), self.window_tokens);
        } else {
            batch.prefill(sequence.computed, tokens);
        }
    }
}
