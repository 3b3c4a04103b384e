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
    #[inline]
    pub(super) fn add(&mut self, step: u64, span: Span) {
        while self.steps.last().is_some_and(|last| last.1 <= span) {
            self.steps.pop();
        }
        self.steps.push((step, span));
    }

    /// The longest of those that ended as a number above `step`.
    #[inline]
    pub(super) fn longest_after(&self, step: u64) -> Option<Span> {
        let after = self.steps.partition_point(|s| s.0 <= step);
        self.steps.get(after).map(|s| s.1)
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.steps.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_longest_since_a_step_is_found(lengths in prop::collection::vec(0..60_u64, 0..200)) {
            let mut stalls = Stalls::default();
            for (step, &length) in (1..).zip(&lengths) {
                // Most fall, so that many are kept.
                stalls.add(step, Span(length + 40 * (200 - step)));
            }
            for step in 0..=lengths.len() as u64 {
                let longest = (1..).zip(&lengths).filter(|(number, _)| *number > step);
                let longest = longest.map(|(number, length)| Span(length + 40 * (200 - number))).max();
                prop_assert_eq!(stalls.longest_after(step), longest);
            }
        }
    }
}
