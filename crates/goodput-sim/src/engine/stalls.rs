//! The longest step since a given one.

use super::fine::Span;

/// So many are looked at one by one.
const NEAR: usize = 8;

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
        let behind = self.steps.len().saturating_sub(NEAR);
        let (before, newest) = self.steps.split_at(behind);
        let older = newest.iter().rposition(|s| s.0 <= step);
        match older {
            Some(older) => newest.get(older + 1),
            None => before
                .get(before.partition_point(|s| s.0 <= step))
                .or(newest.first()),
        }
        .map(|s| s.1)
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
