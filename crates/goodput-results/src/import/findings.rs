//! What is to be known of figures because another tool took them: its faults, as far as a file
//! shows them, and what it does not tell.

use goodput_ledger::{Mode, PointRow};
use goodput_record::{Outcome, RequestRecord};
use goodput_stats::Distribution;
use goodput_sweep::Finding;

use super::{
    Told, ToldLoad, Tool,
    load::{Fitted, From, Laid},
    request::Foreign,
};

/// A first gap this many times the median of the others is no gap between tokens.
const ROLE_GAP: u64 = 5;
/// From this share of the answers on, the first chunk is taken for one without a token.
const ROLE_SHARE: f64 = 0.5;
/// Above this share of requests whose times cannot be, no figure of the point is believed.
const MOST_IMPOSSIBLE: f64 = 0.05;
/// Answers of fewer gaps say nothing of their first.
const ROLE_GAPS: usize = 4;

/// What was seen in the requests of one point.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    requests: u64,
    failed: u64,
    /// Successes without a token.
    empty: u64,
    /// TTFT in ns of the answers that came.
    ttft: Distribution,
    /// The same as the tool has it: with those that did not come, as 0 where it wrote nothing else.
    ttft_as_told: Distribution,
    one_token: u64,
    /// Answers long enough to compare their first gap with the others, and those where it is none.
    first_gaps: (u64, u64),
    /// Requests whose times contradict each other, and what the first of them says.
    impossible: u64,
    first_impossible: Option<Box<str>>,
    /// Requests of which the file tells how many token events came.
    events: u64,
    /// From due to sent, in ns, where the file tells both.
    waited: Distribution,
    characters: u64,
    /// Output tokens by the tool's own tokenizer and by the server's usage, of answers that have both
    /// and where they differ.
    counted: (u64, u64),
    made_up: u64,
    fitted: Option<Fitted>,
    chat: Option<bool>,
    load: Option<(ToldLoad, From)>,
}

impl Seen {
    /// Nothing yet, of a point.
    pub(super) fn of(told: &Told, laid: &Laid) -> Self {
        Self {
            made_up: laid.made_up as u64,
            chat: told.chat,
            fitted: laid.fitted,
            load: Some((laid.load, laid.from)),
            ..Self::default()
        }
    }

    /// Looks at a request and at the record that it became.
    pub(super) fn take(&mut self, request: &Foreign, record: &RequestRecord) {
        self.requests += 1;
        let end = record.summary.end();
        self.characters += u64::from(end.characters);
        if let Some(own) = end.tokenizer_tokens {
            self.counted.0 += u64::from(own);
            self.counted.1 += u64::from(record.summary.output_tokens());
        }
        self.events += u64::from(request.gaps.is_some() || request.events.is_some());
        match end.outcome {
            _ if request.impossible => {
                self.impossible += 1;
                self.first_impossible = self.first_impossible.take().or(request.error.clone());
            }
            Outcome::Ok => {
                self.ttft.record_option(request.first_token);
                self.ttft_as_told.record_option(request.first_token);
                self.one_token += u64::from(record.summary.output_tokens() == 1);
            }
            Outcome::Empty => {
                self.empty += 1;
                self.ttft_as_told.record(request.told_ttft.unwrap_or(0));
            }
            // Cut off by the end of the run: another finding's matter.
            Outcome::Cancelled => {}
            _ => self.failed += 1,
        }
        if let Some(gaps) = request.gaps.as_deref().filter(|g| g.len() > ROLE_GAPS) {
            self.first_gaps.0 += 1;
            self.first_gaps.1 += u64::from(first_is_apart(gaps));
        }
        if let (Some(due), Some(sent)) = (request.due, request.sent) {
            self.waited.record(sent.saturating_sub(due));
        }
    }

    /// Whether the file tells how late requests were sent.
    pub(super) fn tells_lateness(&self) -> bool {
        self.waited.count() > 0
    }

    /// Whether the file tells how many token events came.
    pub(super) const fn tells_events(&self) -> bool {
        self.events > 0
    }

    /// Whether the file tells how long the text was.
    pub(super) const fn tells_text(&self) -> bool {
        self.characters > 0
    }

    /// Why the point may not be used.
    pub(super) fn invalid(&self) -> Vec<String> {
        let share = self.impossible as f64 / self.requests.max(1) as f64;
        let untrue = (share > MOST_IMPOSSIBLE).then(|| {
            format!(
                "{} of {} requests have times that cannot be ({})",
                self.impossible,
                self.requests,
                self.first_impossible.as_deref().unwrap_or_default()
            )
        });
        untrue.into_iter().collect()
    }
}

/// Whether the first gap is far longer than the others: the chunk before it carried no token.
fn first_is_apart(gaps: &[u64]) -> bool {
    let mut others = gaps[1..].to_vec();
    others.sort_unstable();
    gaps[0] > ROLE_GAP * others[others.len() / 2].max(1)
}

/// What a reader of one point should know beside its figures.
pub(super) fn warnings(told: &Told, laid: &Laid) -> Vec<String> {
    let mut warnings = told.warnings.clone();
    if laid.from == From::Seen {
        let what = match laid.load {
            ToldLoad::Users(users) => format!("{users} requests were held in flight"),
            ToldLoad::Rate(rate) => format!("{rate:.3} requests arrived a second"),
        };
        warnings.push(format!(
            "the file does not tell the load; by its times {what} (say it with --concurrency or --rate)"
        ));
    }
    if told.tool == Tool::Goodput && told.own.is_none() {
        warnings.push(
            "whether this point was valid is not known: no result.json that has it lies beside its requests (import the requests.jsonl of a whole result folder)"
                .to_owned(),
        );
    }
    if told.torn {
        warnings.push(
            "the last line of the file is cut off and was left out: the program that wrote it was stopped"
                .to_owned(),
        );
    }
    warnings
}

/// The findings on all points of an import.
pub(super) fn of(tool: Tool, points: &[(&PointRow, &Seen)]) -> Vec<Finding> {
    let mut all = Seen::default();
    for (_, seen) in points {
        all.add(seen);
    }
    if tool == Tool::Goodput {
        return all.impossible(tool).into_iter().collect();
    }
    let open = points.iter().any(|(row, _)| row.mode == Mode::Open);
    [
        Some(all.not_told(tool)),
        all.made_up(),
        all.empty_answers(tool),
        all.failures(tool),
        all.no_failures(tool),
        all.role_chunk(tool),
        all.one_token(tool),
        all.impossible(tool),
        all.clock(tool),
        all.waited(tool, open),
        all.another_tpot(tool),
    ]
    .into_iter()
    .flatten()
    .collect()
}

impl Seen {
    fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.failed += other.failed;
        self.empty += other.empty;
        self.ttft.merge(&other.ttft);
        self.ttft_as_told.merge(&other.ttft_as_told);
        self.one_token += other.one_token;
        self.first_gaps.0 += other.first_gaps.0;
        self.first_gaps.1 += other.first_gaps.1;
        self.impossible += other.impossible;
        self.events += other.events;
        self.first_impossible = self
            .first_impossible
            .take()
            .or(other.first_impossible.clone());
        self.fitted = self.fitted.or(other.fitted);
        self.waited.merge(&other.waited);
        self.characters += other.characters;
        self.counted.0 += other.counted.0;
        self.counted.1 += other.counted.1;
        self.made_up += other.made_up;
        self.chat = self.chat.or(other.chat);
        self.load = self.load.or(other.load);
    }

    fn not_told(&self, tool: Tool) -> Finding {
        let mut absent = vec!["what the load generator itself held up"];
        if self.characters == 0 {
            absent.push("characters and words");
        }
        if self.waited.count() == 0 {
            absent.push("how late requests were sent");
        }
        Finding::new(
            "imported",
            format!(
                "{} requests as {tool} wrote them down; it does not tell {}",
                self.requests,
                absent.join(", ")
            ),
            "judged by the same books as a run of our own, not measured by the same clock: docs/importing.md says what each tool's figures are worth",
        )
    }

    fn made_up(&self) -> Option<Finding> {
        let how = match self.fitted {
            None => String::new(),
            Some(fitted) if fitted.fits => format!(
                ", and stretched to the {:.1} s that the file says the run took (without that they fill {:.1} s)",
                fitted.told_s, fitted.laid_s
            ),
            Some(fitted) => format!(
                "; the file says that the run took {:.1} s, but they fill {:.1} s: tokens a second are too low, or the load is another one",
                fitted.told_s, fitted.laid_s
            ),
        };
        (self.made_up > 0).then(|| {
            Finding::new(
                "start-times-not-told",
                format!(
                    "{} of {} requests have no start in the file: they were laid out as the load says, users without a pause or arrivals at even distances{how}",
                    self.made_up, self.requests
                ),
                "latencies are as recorded; tokens a second, requests in flight and the course of time are reconstructed",
            )
        })
    }

    fn empty_answers(&self, tool: Tool) -> Option<Finding> {
        if self.empty == 0 {
            return None;
        }
        let (empty, all) = (self.empty, self.requests);
        let seconds = |d: &Distribution| d.quantile(0.5).map(|ns| ns / 1e9);
        let figures = matches!(tool, Tool::Vllm | Tool::ItlLines)
            .then(|| Some((seconds(&self.ttft_as_told)?, seconds(&self.ttft)?)));
        let figures = figures.flatten().map_or_else(String::new, |(told, ours)| {
            format!(
                " and keeps their TTFT, 0 for most: its median TTFT is {told:.3} s, over the answers that came it is {ours:.3} s"
            )
        });
        Some(Finding::new(
            "empty-answers-called-success",
            format!(
                "{empty} of {all} requests returned no token; {tool} counts them as successes{figures}"
            ),
            "they are misses here and in no percentile; look at why the server answered with nothing (chat template, end mark, filter)",
        ))
    }

    fn failures(&self, tool: Tool) -> Option<Finding> {
        if self.failed == 0 {
            return None;
        }
        let what = if tool == Tool::InferencePerf {
            "percentiles and its attainment are"
        } else {
            "percentiles are"
        };
        Some(Finding::new(
            "failures-were-left-out",
            format!(
                "{} of {} requests failed; {tool}'s {what} over the successful ones only",
                self.failed, self.requests
            ),
            "here they are misses, and a percentile that they would move is shown with them",
        ))
    }

    /// Failures that the tool does not write down, so that their absence says nothing.
    fn no_failures(&self, tool: Tool) -> Option<Finding> {
        (tool == Tool::LlmPerf && self.failed == 0).then(|| {
            Finding::new(
                "failures-may-be-missing",
                format!(
                    "none of {} requests failed by the file; in llmperf's last version (f1d6bed) a user whose request fails divides by zero and stops: neither is written down",
                    self.requests
                ),
                "attainment may be too high and the load too small: look for ZeroDivisionError in what llmperf printed, and for fewer requests than were asked",
            )
        })
    }

    /// vLLM's client takes the first chunk with choices for the first token, also one that only
    /// says who speaks.
    fn role_chunk(&self, tool: Tool) -> Option<Finding> {
        if tool != Tool::Vllm || self.chat == Some(false) {
            return None;
        }
        let share = self.first_gaps.1 as f64 / self.first_gaps.0.max(1) as f64;
        if share >= ROLE_SHARE {
            return Some(Finding {
                severe: true,
                ..Finding::new(
                    "ttft-of-role-chunk",
                    format!(
                        "in {} of {} answers the gap after the first chunk is over {ROLE_GAP} times the others: the chunk that {tool} took for the first token only names the role",
                        self.first_gaps.1, self.first_gaps.0
                    ),
                    "TTFT is too short by that gap and TPOT too long: measure again with a client that waits for text",
                )
            });
        }
        (self.chat == Some(true)).then(|| {
            Finding::new(
                "ttft-may-be-of-role-chunk",
                "vLLM bench takes the first chunk of a chat for the first token, even if it only names the role".to_owned(),
                "vLLM itself sends the role with the first token; behind a proxy or on another server TTFT may be too short",
            )
        })
    }

    fn one_token(&self, tool: Tool) -> Option<Finding> {
        let passes = matches!(tool, Tool::Vllm | Tool::ItlLines) && self.one_token > 0;
        passes.then(|| {
            Finding::new(
                "one-token-answers",
                format!(
                    "{} of {} answers have one token: {tool} gives them a TPOT of 0, which passes every bound",
                    self.one_token, self.requests
                ),
                "here they have no TPOT: the clause says nothing of them, and no percentile holds them",
            )
        })
    }

    /// Times that cannot be: a clock was set while the run went on.
    fn impossible(&self, tool: Tool) -> Option<Finding> {
        if self.impossible == 0 {
            return None;
        }
        let clock = if tool == Tool::GuideLlm {
            "GuideLLM stamps by the wall clock, which was set during the run"
        } else {
            "a clock was set during the run, or the file was changed"
        };
        Some(Finding {
            severe: true,
            ..Finding::new(
                "impossible-times",
                format!(
                    "{} of {} requests have times that cannot be ({}); {tool} has them in its percentiles",
                    self.impossible,
                    self.requests,
                    self.first_impossible.as_deref().unwrap_or_default()
                ),
                &format!("they are misses here and in no percentile; {clock}: measure again"),
            )
        })
    }

    fn clock(&self, tool: Tool) -> Option<Finding> {
        (tool == Tool::GuideLlm && self.impossible == 0).then(|| {
            Finding::new(
                "wall-clock",
                "GuideLLM stamps by the wall clock, which may be set while a run goes on; no request of this file has its first token before its start".to_owned(),
                "a step of the clock forward would not show: keep the client's clock slewed, not stepped",
            )
        })
    }

    /// A wait in the client that the tool keeps out of its latencies.
    fn waited(&self, tool: Tool, open: bool) -> Option<Finding> {
        let most = self.waited.quantile(0.99).filter(|ns| *ns > 1e6 && open)? / 1e6;
        let median = self.waited.quantile(0.5)? / 1e6;
        let more = if tool == Tool::AiPerf {
            "; arrivals that AIPerf gave up while it was behind are in no record"
        } else {
            ""
        };
        Some(Finding::new(
            "wait-in-the-client",
            format!(
                "requests were sent {median:.1} ms (p50) and {most:.1} ms (p99) after they were due; {tool} measures from the send{more}"
            ),
            "here latencies run from the instant at which a request was due, as its user would have felt them",
        ))
    }

    /// Figures that the tool calls by a name that means something else here.
    fn another_tpot(&self, tool: Tool) -> Option<Finding> {
        let own_count = format!(
            "{tool} divides by the tokens that its own tokenizer counted, {} in all; the server's usage has {}",
            self.counted.0, self.counted.1
        );
        let told = match tool {
            Tool::LlmPerf => {
                "llmperf's inter-token latency is the whole latency, the wait for the first token included, over the tokens it counted; the end of the stream stands for the last token"
            }
            Tool::ItlLines => {
                "the harness's own TPOT runs to the end of the stream; here to the last token, as its gaps have it"
            }
            Tool::GuideLlm => {
                "GuideLLM's TPOT is the whole latency over all tokens; what is TPOT here it calls ITL; its percentiles are the next larger sample, not between two"
            }
            Tool::AiPerf | Tool::InferencePerf if self.counted.0 > 0 => &own_count,
            _ => return None,
        };
        Some(Finding::new(
            "another-tpot",
            told.to_owned(),
            "TPOT here is (last - first token) / (tokens - 1), by the server's count where it is told: it is not the figure that was published",
        ))
    }
}
