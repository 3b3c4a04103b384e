//! Steps: when they begin, how many at once, and what they leave.

use goodput_perf_model::Batch;
use goodput_record::{Outcome, Timestamp};

use super::{
    Engine, EngineEvents, State,
    decoders::{Date, Due},
    fine::{Fine, Span, Stretch},
};

impl Engine {
    /// Begins the next step, or as many as differ in nothing but their contexts; goes idle if there is
    /// nothing to do.
    pub(super) fn start_step(&mut self, at: Fine, out: &mut impl EngineEvents) {
        let now = at.timestamp();
        self.reach(now);
        let (reserved, evicted) = self.make_room(at, out);
        let mut batch = Batch {
            decodes: self.decoders.count(),
            context_tokens: self.decoders.context(),
            ..Batch::default()
        };
        let needs = self.decoders.blocks_for(1);
        let taken = self.pool.take(u32::try_from(needs).unwrap_or(u32::MAX));
        debug_assert!(taken, "invariant: room was made for those that decode");
        self.fill(now, (reserved, !evicted), &mut batch, out);
        if batch.tokens() == 0 {
            debug_assert!(self.running() == 0, "invariant: whoever runs can go on");
            self.rest();
            return;
        }
        let first = self.cost.of(&batch);
        let stretch = if self.prefills.is_empty() && !evicted && !self.every_token {
            self.decode_stretch(at, first)
        } else {
            Stretch::step(at, first)
        };
        self.counters.steps += 1;
        self.counters.prefill_tokens += u64::from(batch.prefill_tokens);
        self.count_busy(stretch.boundary(0), stretch.boundary(1));
        self.state = State::Stepping(stretch);
    }

    /// Waits for the next submission.
    fn rest(&mut self) {
        let heads = self.waiting.heads();
        let next = heads.map(|slot| self.slots[slot as usize].submitted).min();
        self.state = next.map_or(State::Idle, |at| State::Starting(Fine::of(at)));
        self.stalls.clear();
    }

    fn count_busy(&mut self, from: Fine, to: Fine) {
        let span = to.timestamp().since(from.timestamp()).unwrap_or_default();
        self.counters.busy_ns += goodput_record::nanos(span);
    }

    /// The steps until a sequence ends, a block lacks or somebody who may be admitted comes.
    fn decode_stretch(&mut self, at: Fine, first: Span) -> Stretch {
        let slots = &self.slots;
        let until_due = self.decoders.until_due(|date| {
            let sequence = &slots[date.slot as usize];
            sequence.order == date.order
        });
        let mut steps = until_due.unwrap_or(1);
        // The blocks of the first step are taken.
        let blocks = u64::from(self.pool.free());
        let most = u64::from(self.decoders.count()) * steps.div_ceil(u64::from(self.block_tokens));
        if most > blocks {
            let first_needs = self.decoders.blocks_for(1);
            steps = steps.min(self.decoders.steps_within(blocks + first_needs));
        }
        let growth = self.cost.growth(self.decoders.count());
        let mut stretch = Stretch::new(at, first, growth, steps);
        if self.running() < self.max_num_seqs {
            let to_come = self
                .waiting
                .heads()
                .map(|slot| self.slots[slot as usize].submitted);
            let next = to_come
                .filter(|&submitted| submitted > at.timestamp())
                .min();
            if let Some(next) = next.filter(|&next| next < stretch.end()) {
                stretch.cut(stretch.first_boundary(next, |boundary| boundary >= next));
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
        stretch.first_boundary(told, |boundary| boundary > told)
    }

    /// Blocks that the steps behind the first of a stretch need, up to number `steps`.
    pub(super) fn blocks_after_first(&self, steps: u64) -> u32 {
        let blocks = self.decoders.blocks_for(steps) - self.decoders.blocks_for(1);
        u32::try_from(blocks).unwrap_or(u32::MAX)
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
            self.count_busy(stretch.boundary(passed), stretch.boundary(begun));
        }
        let step = Stretch::step(stretch.boundary(passed), stretch.span(passed));
        self.state = State::Stepping(step);
    }

    /// Books `steps` steps of a stretch, the first of which was counted when it began.
    fn pass(&mut self, stretch: &Stretch, steps: u64) {
        self.counters.output_tokens += u64::from(self.decoders.count()) * steps;
        self.counters.steps += steps - 1;
        self.count_busy(stretch.boundary(1), stretch.boundary(steps));
        self.decoders.pass(steps);
        if !self.every_token {
            self.stalls
                .add(self.decoders.steps(), stretch.span(steps - 1));
        }
    }

    /// Books what the steps that are over have done.
    pub(super) fn finish_steps(&mut self, stretch: &Stretch, out: &mut impl EngineEvents) {
        let end = stretch.boundary(stretch.steps());
        let at = end.timestamp();
        self.reach(at);
        if stretch.steps() > 1 {
            self.pool.take(self.blocks_after_first(stretch.steps()));
        }
        self.pass(stretch, stretch.steps());
        if self.every_token {
            self.tell_decoded(at, out);
        }
        while let Some(date) = self.decoders.take_due() {
            if self.is_running(date.order, date.slot) {
                match date.due {
                    Due::Block => self.publish_answer(date),
                    Due::End => self.finish(date.slot, at, out),
                }
            }
        }
        if !self.prefills.is_empty() {
            for slot in std::mem::take(&mut self.prefills) {
                self.finish_chunk(slot, end, out);
            }
        }
        if self.running.len() > 2 * self.running() + 64 {
            let slots = &self.slots;
            self.running
                .retain(|&(order, slot)| slots[slot as usize].order == order);
        }
        self.state = if self.running() + self.waiting() == 0 {
            self.stalls.clear();
            State::Idle
        } else {
            State::Starting(end)
        };
    }

    /// Tells of a token of each that decodes.
    fn tell_decoded(&mut self, at: Timestamp, out: &mut impl EngineEvents) {
        for &(order, slot) in &self.running {
            let sequence = &mut self.slots[slot as usize];
            if sequence.order == order && sequence.joined.is_some() {
                sequence.told += 1;
                out.tokens(at, sequence.request.index, 1);
            }
        }
    }

    /// Makes a block of the answer known, and notes when the next one is.
    fn publish_answer(&mut self, date: Date) {
        let sequence = &mut self.slots[date.slot as usize];
        let known = sequence.known as usize;
        if let Some(&hash) = sequence.request.blocks.get(known) {
            self.pool.publish(hash);
            sequence.known += 1;
            if sequence.request.blocks.len() > known + 1 {
                self.decoders.note(Date {
                    step: date.step + u64::from(self.block_tokens),
                    ..date
                });
            }
        }
    }

    /// Books a chunk that was computed: more of the prompt, or the token behind it.
    fn finish_chunk(&mut self, slot: u32, end: Fine, out: &mut impl EngineEvents) {
        let at = end.timestamp();
        let (steps, block_tokens) = (self.decoders.steps(), self.block_tokens);
        let sequence = &mut self.slots[slot as usize];
        sequence.computed += std::mem::take(&mut sequence.scheduled);
        if self.prefix_cache {
            while let Some(&hash) = sequence.request.blocks.get(sequence.known as usize) {
                if sequence.computed < (sequence.known + 1) * block_tokens {
                    break;
                }
                self.pool.publish(hash);
                sequence.known += 1;
            }
        }
        if sequence.missing() > 0 {
            self.prefills.push(slot);
            return;
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
        sequence.joined = Some(steps);
        self.decoders.join(sequence.computed);
        let left = sequence.request.output_tokens - sequence.emitted;
        if left == 0 {
            self.finish(slot, at, out);
            return;
        }
        let date = Date {
            step: steps + u64::from(left),
            order: sequence.order,
            due: Due::End,
            slot,
        };
        self.decoders.note(date);
        if self.prefix_cache && sequence.request.blocks.len() > sequence.known as usize {
            let full = (sequence.known + 1) * block_tokens;
            self.decoders.note(Date {
                step: steps + u64::from(full - sequence.computed),
                due: Due::Block,
                ..date
            });
        }
    }

    /// The longest gap between two tokens of a sequence so far.
    pub(super) fn longest_gap(&self, slot: u32) -> Option<Span> {
        let sequence = &self.slots[slot as usize];
        let joined = sequence.joined;
        let since = joined.and_then(|joined| self.stalls.longest_after(joined));
        sequence.longest_gap.max(since)
    }

    /// Ends a sequence that has answered its last token.
    fn finish(&mut self, slot: u32, at: Timestamp, out: &mut impl EngineEvents) {
        let gap = self.longest_gap(slot);
        self.drop_running(slot, 0);
        let sequence = &mut self.slots[slot as usize];
        let index = sequence.request.index;
        let untold = sequence.request.output_tokens - sequence.told;
        if untold > 0 {
            out.tokens(at, index, untold);
        }
        if let Some(gap) = gap.filter(|_| !self.every_token) {
            out.longest_gap(index, gap.duration());
        }
        self.vacate(slot);
        self.counters.finished += 1;
        out.ended(at, index, Outcome::Ok);
    }
}
