//! Speculative decoding: how much of a draft is right, and what it changes.

use goodput_perf_model::Speculation;
use goodput_stats::{Draws, Stream};

use super::Engine;

/// The seed of all drafts. An engine has none of its own: the same request fares the same.
const SEED: u64 = 0x5bec;

/// Drafted tokens that turn out right after `emitted` tokens of request `index`: each is with the
/// same chance, and the first wrong one ends the draft.
fn accepted(of: &Speculation, index: u64, emitted: u32) -> u32 {
    let mut draws = Draws::new(SEED, Stream(index), u64::from(emitted));
    let mut right = 0;
    while right < of.draft_tokens && draws.unit() < of.acceptance {
        right += 1;
    }
    right
}

impl Engine {
    /// Blocks that those that decode need for the next step, with room for their drafts.
    pub(super) fn draft_blocks(&self, speculation: &Speculation) -> u32 {
        let tokens = speculation.draft_tokens + 1;
        let decoding = self.decoding();
        decoding.map(|slot| self.draft_needs(slot, tokens)).sum()
    }

    /// Books these blocks, which were taken.
    pub(super) fn hold_draft_blocks(&mut self, speculation: &Speculation) {
        let tokens = speculation.draft_tokens + 1;
        for slot in self.decoding().collect::<Vec<_>>() {
            let needs = self.draft_needs(slot, tokens);
            self.slots[slot as usize].held += needs;
        }
    }

    fn draft_needs(&self, slot: u32, tokens: u32) -> u32 {
        let sequence = &self.slots[slot as usize];
        let decoded = sequence.decoded(self.decoders.steps());
        // Behind the last token nothing is stored.
        let most = sequence.request.input_tokens + sequence.request.output_tokens - 1;
        let stored = (sequence.computed + decoded + tokens).min(most);
        stored
            .div_ceil(self.block_tokens)
            .saturating_sub(sequence.held)
    }

    /// Those that decode, in order of admission.
    pub(super) fn decoding(&self) -> impl Iterator<Item = u32> {
        let standing = self.running.iter().filter(|r| self.is_running(r.0, r.1));
        let slots = standing.map(|&(_, slot)| slot);
        slots.filter(|&slot| self.slots[slot as usize].joined.is_some())
    }

    /// Takes what was right of each draft behind the token that every step gives.
    pub(super) fn accept_drafts(&mut self, speculation: &Speculation) {
        let steps = self.decoders.steps();
        for slot in self.decoding().collect::<Vec<_>>() {
            let sequence = &mut self.slots[slot as usize];
            let emitted = sequence.emitted + sequence.decoded(steps);
            let left = sequence.request.output_tokens - emitted;
            let right = accepted(speculation, sequence.request.index, emitted - 1).min(left);
            if right == 0 {
                continue;
            }
            sequence.settle(steps);
            self.decoders.leave(sequence.computed);
            self.decoders.forget_end(slot);
            sequence.computed += right;
            sequence.emitted += right;
            self.counters.output_tokens += u64::from(right);
            self.join_decoders(slot);
        }
    }
}
