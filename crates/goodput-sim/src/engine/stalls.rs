//! The longest step since a given one.

use super::fine::Span;

/// Steps that are longer than all that came after them: whoever asks for the longest since some step
/// finds it among these.
#[derive(Clone, Debug, Default)]
pub(super) struct Stalls {
    /// (number of the step, its length): numbers rise, lengths fall.
    steps: Vec<(u64, Span)>,
}

impl Stalls {
    /// A step that ended as number `step`.
    pub(super) fn add(&mut self, step: u64, span: Span) {
        while self.steps.last().is_some_and(|last| last.1 <= span) {
            self.steps.pop();
        }
        self.steps.push((step, span));
    }

    /// The longest of those that ended as a number above `step`.
    pub(super) fn longest_after(&self, step: u64) -> Option<Span> {
        // The newest are few steps back, and so are most that are asked for.
        let after = self.steps.partition_point(|s| s.0 <= step);
        self.steps.get(after).map(|s| s.1)
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.steps.clear();
    }
}
