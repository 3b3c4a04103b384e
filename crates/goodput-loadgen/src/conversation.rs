//! The served answers of sessions that go on: a conversation's history is what the model said.

use std::collections::BTreeMap;

/// Answers by session and step.
#[derive(Debug, Default)]
pub(crate) struct Conversations {
    sessions: BTreeMap<u32, Vec<Option<String>>>,
}

impl Conversations {
    /// The answers of `session` so far, by step.
    pub(crate) fn replies(&self, session: u32) -> &[Option<String>] {
        self.sessions.get(&session).map_or(&[], Vec::as_slice)
    }

    /// Keeps the answer of a step, unless it was the last: then the session is forgotten.
    pub(crate) fn remember(&mut self, session: u32, step: u16, last: bool, text: Option<String>) {
        if last {
            self.sessions.remove(&session);
            return;
        }
        let replies = self.sessions.entry(session).or_default();
        replies.resize(usize::from(step), None);
        replies.push(text.filter(|text| !text.is_empty()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_kept_by_step_until_the_session_ends() {
        let mut all = Conversations::default();
        all.remember(7, 0, false, Some("one".to_owned()));
        all.remember(7, 1, false, None);
        assert_eq!(all.replies(7), [Some("one".to_owned()), None]);
        assert!(all.replies(8).is_empty());
        all.remember(7, 2, true, Some("three".to_owned()));
        assert!(all.replies(7).is_empty());
    }
}
