mod cases;
mod files;
mod flags;
mod laws;

use goodput_record::{Arrival, End, Gaps, Outcome, RequestRecord, Timestamp, TokenCount, testing};

use crate::{Slo, Verdict};

/// A request to be judged. Instants are nanoseconds after its origin, which is 7 s after the epoch.
#[derive(Clone, Debug)]
struct Story {
    tokens_at: Vec<u64>,
    output_tokens: Option<u32>,
    ended: u64,
    end: End,
    planned: (u32, u32),
}

const ORIGIN: u64 = 7_000_000_000;
const MS: u64 = 1_000_000;

impl Story {
    /// One token at each of these milliseconds, then the end.
    fn ok(tokens_at_ms: &[u64]) -> Self {
        Self {
            tokens_at: tokens_at_ms.iter().map(|ms| ms * MS).collect(),
            output_tokens: None,
            ended: tokens_at_ms.last().map_or(MS, |ms| ms * MS),
            end: End::of(Outcome::Ok),
            planned: (0, 0),
        }
    }

    fn ending(mut self, outcome: Outcome, at_ms: u64) -> Self {
        self.end.outcome = outcome;
        self.ended = at_ms * MS;
        self
    }

    fn status(mut self, status: u16) -> Self {
        self.end.http_status = Some(status);
        self
    }

    fn tokens(mut self, count: u32) -> Self {
        self.output_tokens = Some(count);
        self
    }

    fn not_streamed(mut self, ended_ms: u64) -> Self {
        self.end.streamed = false;
        self.ended = ended_ms * MS;
        self
    }

    fn record(&self) -> RequestRecord {
        let arrival = Arrival {
            planned_input_tokens: self.planned.0,
            planned_cached_tokens: self.planned.1,
            planned_output_tokens: 10,
            ..testing::arrival(Timestamp::from_nanos(ORIGIN))
        };
        let events = u32::try_from(self.tokens_at.len()).unwrap();
        let count = self.output_tokens.unwrap_or(events);
        let end = End {
            output_tokens: (count > 0).then_some(TokenCount::Usage(count)),
            ..self.end
        };
        let after = |ns: u64| Timestamp::from_nanos(ORIGIN + ns);
        let tokens_at = self.tokens_at.iter().map(|ns| after(*ns));
        testing::record(arrival, tokens_at, after(self.ended), end)
    }

    fn judged(&self, slo: &Slo) -> Verdict {
        let record = self.record();
        slo.judge(&record.summary, &record.gaps)
    }
}

fn slo(clauses: &str) -> Slo {
    Slo::inline(clauses).unwrap_or_else(|error| panic!("{}", error.render("slo", clauses, false)))
}

/// The clauses that a verdict says were missed, by name; "outcome" for the end.
fn missed(slo: &Slo, verdict: Verdict) -> Vec<String> {
    let Verdict::Missed(misses) = verdict else {
        return Vec::new();
    };
    let mut names: Vec<String> = misses.indices().map(|i| slo.clauses()[i].name()).collect();
    if misses.by_outcome() {
        names.push("outcome".to_owned());
    }
    names
}
