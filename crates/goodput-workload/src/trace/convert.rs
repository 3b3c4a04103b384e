//! From a trace to a workload file, without anything that was said.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    hash::Hasher as _,
};

use super::{Trace, TraceRequest};
use crate::file::{Row, When, render_row};

/// The secret under which names of blocks are hashed, so that who knows a prompt cannot look for it
/// in the file. Traces converted under one key can be joined; to join none, take a new one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyOfNames(pub [u64; 2]);

impl std::fmt::Debug for KeyOfNames {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyOfNames(..)")
    }
}

impl KeyOfNames {
    /// `SipHash-2-4`, whose output without the key tells nothing.
    #[expect(deprecated, reason = "the replacement has no key")]
    fn hash(self, name: u64) -> u64 {
        let mut hasher = std::hash::SipHasher::new_with_keys(self.0[0], self.0[1]);
        hasher.write(&name.to_le_bytes());
        hasher.finish()
    }
}

impl Trace {
    /// The trace as a workload file: arrivals, lengths, sessions and hashed names of blocks; no
    /// text, and no name from the trace. [`crate::WorkloadSpec::parse`] reads it.
    #[must_use]
    pub fn convert(&self, name: &str, key: KeyOfNames) -> String {
        let mut out = String::new();
        self.head(name, &mut out);
        // Blocks tell what is shared, each request at its own time; without them, a session whose
        // steps wait for each other does.
        let sessions = self.block_tokens.is_none();
        let shared = if sessions {
            self.sessions_of_several()
        } else {
            BTreeSet::new()
        };
        let mut before: BTreeMap<u32, &TraceRequest> = BTreeMap::new();
        for request in &self.requests {
            let session = request.session.filter(|session| shared.contains(session));
            let last = session.and_then(|session| before.insert(session, request));
            let label = session.map(|session| session.to_string());
            let blocks = request.blocks.iter().map(|&block| key.hash(block));
            let row = Row {
                when: last.map_or(When::At(request.arrival_ns), |last| {
                    When::After(wait(last, request))
                }),
                input_tokens: request.input_tokens,
                output_tokens: request.output_tokens,
                session: label.as_deref(),
                blocks: blocks.collect(),
            };
            render_row(&row, &mut out);
        }
        out.push_str("'''\n");
        out
    }

    fn head(&self, name: &str, out: &mut String) {
        let quoted = |text: &str| toml::Value::from(text).to_string();
        let mut source = format!("{} trace, {} requests", self.format, self.requests.len());
        if !self.skipped.is_empty() {
            let _ = write!(source, ", {} rows skipped", self.skipped.len());
        }
        let _ = writeln!(
            out,
            "# Arrivals, lengths and what is shared; nothing of what was said."
        );
        let _ = writeln!(out, "name = {}", quoted(name));
        let _ = writeln!(out, "source = {}", quoted(&source));
        let _ = writeln!(out, "output_policy = \"max_tokens\"");
        let arrivals = if self.timed { "trace" } else { "poisson" };
        let _ = writeln!(
            out,
            "arrivals = \"{arrivals}\"\n\n[rows]\norder = \"recorded\""
        );
        let _ = writeln!(out, "repeat = false");
        if let Some(tokens) = self.block_tokens {
            let _ = writeln!(out, "block_tokens = {tokens}");
        }
        let _ = writeln!(
            out,
            "# ARRIVAL INPUT OUTPUT [SESSION [BLOCKS]], arrivals in nanoseconds,"
        );
        let _ = writeln!(
            out,
            "# +WAIT for the time since the end of the session's step before."
        );
        let _ = writeln!(out, "table = '''");
    }

    fn sessions_of_several(&self) -> BTreeSet<u32> {
        let (mut seen, mut several) = (BTreeSet::new(), BTreeSet::new());
        for session in self.requests.iter().filter_map(|r| r.session) {
            if !seen.insert(session) {
                several.insert(session);
            }
        }
        several
    }
}

/// From the end of a step to the next: the gap between their arrivals, less the time the step
/// took where that is known.
fn wait(last: &TraceRequest, next: &TraceRequest) -> u64 {
    let gap = next.arrival_ns.saturating_sub(last.arrival_ns);
    gap.saturating_sub(last.duration_ns.unwrap_or(0))
}
