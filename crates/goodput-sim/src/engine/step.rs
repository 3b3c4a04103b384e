//! Steps: when they begin, how many at once, and what they leave.

use goodput_perf_model::Batch;
use goodput_record::{StepRun, Timestamp};

use super::{
    Engine, EngineEvents, State,
    decoders::{Date, Due},
    fine::{Fine, Span, Stretch},
};

impl Engine {
    /// Steps that have ended by the instant to which the engine was last advanced, since it was made.
    #[must_use]
    pub fn steps_ended(&self) -> u64 {
        let passed = match self.state {
            State::Stepping(stretch) => self.begun(&stretch) - 1,
            State::Starting(_) | State::Idle => 0,
        };
        self.decoders.steps() + passed
    }

    /// The steps in which an open request has got its last tokens, if it is one of those that decode.
    #[must_use]
    pub fn answering_in(&self, index: u64) -> Option<StepRun> {
        let sequence = &self.slots[self.find(index)? as usize];
        sequence.joined.map(|_| StepRun {
            first: sequence.first_step,
            last: self.steps_ended(),
        })
    }

    /// Begins the next step, or as many as differ in nothing but their contexts; goes idle if there is
    /// nothing to do.
    pub(super) fn start_step(&mut self, at: Fine, out: &mut impl EngineEvents) {
        let now = at.timestamp();
        self.reach(now);
        let (decodes, reserved, evicted) = self.make_room(at, out);
        let mut batch = Batch {
            decodes: self.decoders.count(),
            context_tokens: self.decoders.context(),
            window_tokens: self.decoders.window_context(),
            ..Batch::default()
        };
        if decodes > 0 {
            let taken = self.pool.take(decodes);
            debug_assert!(taken, "invariant: room was made for those that decode");
        }
        if let Some(speculation) = self.speculation {
            self.hold_draft_blocks(&speculation);
        }
        self.fill(now, (reserved, !evicted), &mut batch, out);
        if batch.tokens() == 0 {
            debug_assert!(self.running() == 0, "invariant: whoever runs can go on");
            self.rest();
            return;
        }
        let first = self.cost.of(&batch);
        let whole = self.every_token || self.speculation.is_some();
        let stretch = if self.prefills.is_empty() && !evicted && !whole {
            self.decode_stretch(at, first)
        } else {
            Stretch::step(at, first)
        };
        self.counters.steps += 1;
        self.counters.prefill_tokens += u64::from(batch.prefill_tokens);
        self.busy += u128::from(stretch.span(0).0);
        self.state = State::Stepping(stretch);
    }

    /// Waits for the next submission.
    fn rest(&mut self) {
        let heads = self.waiting.heads();
        let next = heads.map(|slot| self.slots[slot as usize].submitted).min();
        self.state = next.map_or(State::Idle, |at| State::Starting(Fine::of(at)));
        self.stalls.clear();
    }

    /// The steps until a sequence ends, a block lacks or somebody who may be admitted comes.
    fn decode_stretch(&mut self, at: Fine, first: Span) -> Stretch {
        let slots = &self.slots;
        let until_due = self.decoders.until_due(|date| {
            let sequence = &slots[date.slot as usize];
            sequence.order == date.order()
        });
        let mut steps = until_due.unwrap_or(1);
        // The blocks of the first step are taken.
        let blocks = u64::from(self.pool.free());
        let (count, block) = (
            u64::from(self.decoders.count()),
            u64::from(self.block_tokens),
        );
        if count.saturating_mul(steps + block) > blocks * block {
            let taken = u64::from(self.decoders.blocks_for_next());
            steps = steps.min(self.decoders.steps_within(blocks + taken));
        }
        let growth = self
            .cost
            .growth(self.decoders.count(), self.decoders.near());
        let mut stretch = Stretch::new(at, first, growth, steps);
        if self.waiting.len() > 0 && self.running() < self.max_num_seqs {
            let to_come = self
                .waiting
                .heads()
                .map(|slot| self.slots[slot as usize].submitted);
            let next = to_come
                .filter(|&submitted| submitted > at.timestamp())
                .min();
            if let Some(next) = next.filter(|&next| next < stretch.end()) {
                stretch.cut(stretch.first_boundary_where(next, |boundary| boundary >= next));
            }
        }
        stretch
    }

    /// How many of the steps have begun by now; at least one.
    pub(super) fn begun(&self, stretch: &Stretch) -> u64 {
        let Some(told) = self.told.filter(|_| stretch.steps() > 1) else {
            return 1;
        };
        if stretch.end() <= told {
            return stretch.steps();
        }
        stretch.first_boundary_where(told, |boundary| boundary > told)
    }

    /// Blocks that the steps behind the first of a stretch need, up to number `steps`.
    pub(super) fn blocks_after_first(&self, steps: u64) -> u32 {
        let first = u64::from(self.decoders.blocks_for_next());
        u32::try_from(self.decoders.blocks_for(steps) - first).unwrap_or(u32::MAX)
    }

    /// Leaves of a stretch only the step that is under way, so that something can change behind it.
    pub(super) fn end_stretch(&mut self) {
        let State::Stepping(stretch) = self.state else {
            return;
        };
        if stretch.steps() == 1 {
            return;
        }
        let begun = self.begun(&stretch);
        let passed = begun - 1;
        self.pool.take(self.blocks_after_first(begun));
        if passed > 0 {
            self.pass(&stretch, passed);
            self.counters.steps += 1;
            self.busy += u128::from(stretch.span(passed).0);
        }
        let step = Stretch::step(stretch.boundary(passed), stretch.span(passed));
        self.state = State::Stepping(step);
    }

    /// Books `steps` steps of a stretch, the first of which was counted when it began.
    #[inline]
    fn pass(&mut self, stretch: &Stretch, steps: u64) {
        self.counters.output_tokens += u64::from(self.decoders.count()) * steps;
        self.counters.steps += steps - 1;
        if steps > 1 {
            self.busy += stretch.behind_first(steps);
        }
        self.decoders.pass(steps);
        if !self.every_token {
            self.stalls
                .add(self.decoders.steps(), stretch.span(steps - 1));
        }
    }

    /// Books what the steps that are over have done; returns when the next one begins, if one does.
    pub(super) fn finish_steps(
        &mut self,
        stretch: &Stretch,
        out: &mut impl EngineEvents,
    ) -> Option<Fine> {
        let end = stretch.last_boundary();
        let at = end.timestamp();
        self.reach(at);
        if stretch.steps() > 1 {
            self.pool.take(self.blocks_after_first(stretch.steps()));
        }
        self.pass(stretch, stretch.steps());
        if let Some(speculation) = self.speculation {
            // Windows first: who leaves and joins again is counted by its length.
            while let Some(date) = self.decoders.take_due_window() {
                if self.is_running(date.order(), date.slot) {
                    self.outgrow_window(date.slot);
                }
            }
            self.accept_drafts(&speculation);
        }
        if self.every_token {
            self.tell_decoded(at, out);
        }
        while let Some(date) = self.decoders.take_due() {
            if self.is_running(date.order(), date.slot) {
                match date.due() {
                    Due::Window => self.outgrow_window(date.slot),
                    Due::Block => self.publish_answer(date),
                }
            }
        }
        self.finish_answered(at, out);
        if !self.prefills.is_empty() {
            self.finish_chunks(end, out);
        }
        if self.running.len() > 2 * self.running() + 64 {
            let slots = &self.slots;
            self.running
                .retain(|&(order, slot)| slots[slot as usize].order == order);
        }
        if self.running() + self.waiting() == 0 {
            self.stalls.clear();
            self.state = State::Idle;
            return None;
        }
        self.state = State::Starting(end);
        Some(end)
    }

    /// Books the chunks that were computed, and keeps those of whose prompts more is to come.
    fn finish_chunks(&mut self, end: Fine, out: &mut impl EngineEvents) {
        let mut kept = 0;
        for place in 0..self.prefills.len() {
            let slot = self.prefills[place];
            if !self.finish_chunk(slot, end, out) {
                self.prefills[kept] = slot;
                kept += 1;
            }
        }
        self.prefills.truncate(kept);
    }

    /// Ends those that have answered their last token, in order of admission.
    fn finish_answered(&mut self, at: Timestamp, out: &mut impl EngineEvents) {
        self.decoders.take_ends(&mut self.ending);
        if self.ending.is_empty() {
            return;
        }
        let mut ending = std::mem::take(&mut self.ending);
        if ending.len() > 1 {
            let slots = &self.slots;
            ending.sort_unstable_by_key(|&slot| slots[slot as usize].order);
        }
        for slot in ending.drain(..) {
            self.finish(slot, at, out);
        }
        self.ending = ending;
    }

    /// Tells of the tokens of each that decodes.
    fn tell_decoded(&mut self, at: Timestamp, out: &mut impl EngineEvents) {
        let steps = self.decoders.steps();
        for &(order, slot) in &self.running {
            let sequence = &mut self.slots[slot as usize];
            if sequence.order == order && sequence.joined.is_some() {
                let emitted = sequence.emitted + sequence.decoded(steps);
                let new = emitted - std::mem::replace(&mut sequence.told, emitted);
                out.tokens(at, sequence.request.index, new);
            }
        }
    }

    /// Notes that a context is as long as the window. A draft may have taken it further already.
    fn outgrow_window(&mut self, slot: u32) {
        let sequence = &self.slots[slot as usize];
        let stored = sequence.computed + sequence.decoded(self.decoders.steps());
        if stored + 1 == self.window_tokens {
            self.decoders.outgrow();
        }
    }

    /// Makes a block of the answer known, and notes when the next one is. A draft may have filled it
    /// earlier than was noted.
    fn publish_answer(&mut self, date: Date) {
        let sequence = &mut self.slots[date.slot as usize];
        let stored = sequence.computed + sequence.decoded(self.decoders.steps());
        let full = |known: u32| (known + 1) * self.block_tokens;
        if stored < full(sequence.known) {
            return;
        }
        let blocks = &sequence.request.blocks;
        let upto = (stored / self.block_tokens).min(blocks.count());
        self.pool.publish(blocks, sequence.known, upto);
        sequence.known = upto;
        if upto < blocks.count() {
            let next = date.step() + u64::from(full(upto) - stored);
            let next = Date::new(next, Due::Block, date.order(), date.slot);
            self.decoders.note(next);
        }
    }

    /// Books a chunk that was computed: more of the prompt, or the token behind it. Returns whether the
    /// prompt is done.
    fn finish_chunk(&mut self, slot: u32, end: Fine, out: &mut impl EngineEvents) -> bool {
        let at = end.timestamp();
        let block_tokens = self.block_tokens;
        let sequence = &mut self.slots[slot as usize];
        sequence.computed += std::mem::take(&mut sequence.scheduled);
        if self.prefix_cache {
            let blocks = &sequence.request.blocks;
            let upto = (sequence.computed / block_tokens).min(blocks.count());
            if upto > sequence.known {
                self.pool.publish(blocks, sequence.known, upto);
                sequence.known = upto;
            }
        }
        if sequence.missing() > 0 {
            return false;
        }
        sequence.emitted += 1;
        self.counters.output_tokens += 1;
        if let Some(last) = sequence.interrupted.take() {
            sequence.longest_gap = sequence.longest_gap.max(Some(end.since(last)));
        }
        if self.every_token || sequence.told == 0 {
            sequence.told += 1;
            out.tokens(at, sequence.request.index, 1);
        }
        // Also of one that ends here: the steps of its earlier stay were told when it lost its place.
        sequence.first_step = self.decoders.steps();
        if sequence.emitted == sequence.request.output_tokens {
            self.finish(slot, at, out);
            return true;
        }
        self.join_decoders(slot);
        true
    }

    /// Takes a sequence in among those that decode, and notes what will be due of it.
    pub(super) fn join_decoders(&mut self, slot: u32) {
        let steps = self.decoders.steps();
        let sequence = &mut self.slots[slot as usize];
        sequence.joined = Some(steps);
        let order = sequence.order;
        if let Some(outgrown) = self.decoders.join(sequence.computed) {
            let date = Date::new(steps + outgrown, Due::Window, order, slot);
            self.decoders.note(date);
        }
        let left = sequence.request.output_tokens - sequence.emitted;
        self.decoders.note_end(slot, left);
        if self.prefix_cache && sequence.request.blocks.count() > sequence.known {
            let full = (sequence.known + 1) * self.block_tokens;
            let filled = steps + u64::from(full.saturating_sub(sequence.computed));
            self.decoders
                .note(Date::new(filled, Due::Block, order, slot));
        }
    }

    /// The longest gap between two tokens of a sequence so far.
    #[inline]
    pub(super) fn longest_gap(&self, slot: u32) -> Option<Span> {
        let sequence = &self.slots[slot as usize];
        if sequence.joined.is_none() {
            return sequence.longest_gap;
        }
        let since = self.stalls.longest_after(sequence.first_step);
        sequence.longest_gap.max(since)
    }

    /// Ends a sequence that has answered its last token: one that decodes, of which no end is noted any
    /// more, or one whose prompt gave it.
    fn finish(&mut self, slot: u32, at: Timestamp, out: &mut impl EngineEvents) {
        let gap = self.longest_gap(slot);
        let sequence = &self.slots[slot as usize];
        let mut held = sequence.held;
        if sequence.joined.is_some() {
            // The last token is never stored.
            let stored = sequence.request.input_tokens + (sequence.request.output_tokens - 1);
            self.decoders.leave(stored);
            if self.speculation.is_none() {
                held = stored.div_ceil(self.block_tokens);
            }
        }
        let known = sequence.known;
        self.pool
            .release(&sequence.request.blocks, known, held - known);
        let index = sequence.request.index;
        let untold = sequence.request.output_tokens - sequence.told;
        let steps = StepRun {
            first: sequence.first_step,
            last: self.decoders.steps(),
        };
        if self.speculation.is_none() {
            out.answered_in(index, steps);
        }
        self.vacate(slot);
        self.counters.finished += 1;
        let gap = gap.filter(|_| !self.every_token).map(Span::nanos);
        out.finished(at, index, untold, gap);
    }
}
