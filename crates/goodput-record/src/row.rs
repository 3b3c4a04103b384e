//! A record as one line of `requests.jsonl`.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    gaps::{GapBuffer, Gaps},
    outcome::{FinishReason, Outcome, TimeoutPhase, TokenCount, UsageReport, Vantage},
    request::{Arrival, End, RequestRecord, RequestSummary},
    series::{Series, SeriesId},
    time::{Timestamp, millis},
};

/// Which part of a load point a request belongs to. Only `measured` enters a point's figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Sent to warm the server up, before any point.
    Warmup,
    /// The first request of each user of a closed loop: the start-up herd.
    FirstWave,
    /// While the load settles, before the window opens.
    Settling,
    /// Its origin lies in the window.
    Measured,
    /// After the window has closed, to keep the load up until the last measured request ends.
    Drain,
}

/// A verdict as a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum VerdictWord {
    /// Every clause held.
    Met,
    /// At least one clause did not.
    Missed,
    /// The SLO file excuses this outcome by name.
    Excused,
}

/// What a row has beside its record: names and derived columns.
#[derive(Clone, Debug)]
pub struct RowContext<'a> {
    /// The run's id: the first part of every request id.
    pub run: &'a str,
    /// The load point's number within the run.
    pub point: u32,
    /// The names behind the record's series.
    pub series: &'a Series,
    /// The part of the load point.
    pub phase: Phase,
    /// Verdicts by SLO name.
    pub verdicts: BTreeMap<String, VerdictWord>,
    /// Whether the gaps are written out.
    pub keep_gaps: bool,
    /// The answer's text, where it is kept.
    pub text: Option<String>,
    /// Why the request failed, in a sentence.
    pub error: Option<String>,
}

/// One request as a line of JSON. Instants are nanoseconds since the run's epoch; what did not
/// happen is null.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RequestRow {
    /// `x-request-id` as sent: the run's id, a dash, the request's number.
    pub id: String,
    /// The load point's number within the run.
    pub point: u32,
    /// The part of the load point.
    pub phase: Phase,
    /// Who watched.
    pub vantage: Vantage,
    /// Tenant, empty where not said.
    pub tenant: String,
    /// Class, empty where not said.
    pub class: String,
    /// Pool, empty where not said.
    pub pool: String,
    /// The served model's id.
    pub model: String,
    /// Replica, empty where not known.
    pub replica: String,
    /// The session.
    pub session: u32,
    /// Place in the session, from 0.
    pub step: u16,
    /// Steps of the whole session, as planned.
    pub steps: u16,
    /// When it was due (open loop) or issued (closed loop).
    pub origin_ns: u64,
    /// When the client was to send it, where that is not its origin: in a closed loop, whose
    /// latencies run from the send.
    #[serde(default)]
    pub due_ns: Option<u64>,
    /// When its first byte was handed to the kernel.
    pub sent_ns: Option<u64>,
    /// Set-up of the connection made for it; null if one was reused.
    pub connect_ms: Option<f64>,
    /// When a gateway handed it to a replica.
    pub dispatched_ns: Option<u64>,
    /// How often it was sent.
    pub attempts: u8,
    /// When the response's first byte was read.
    pub first_byte_ns: Option<u64>,
    /// First token event of any channel.
    pub first_token_ns: Option<u64>,
    /// First token event that is not reasoning.
    pub first_answer_ns: Option<u64>,
    /// Last token event.
    pub last_token_ns: Option<u64>,
    /// When the request was over.
    pub end_ns: u64,
    /// Time to first token of any channel, from the origin.
    pub ttft_ms: Option<f64>,
    /// Time to first token that is not reasoning, from the origin.
    pub ttft_answer_ms: Option<f64>,
    /// (last - first token event) / (`output_tokens` - 1).
    pub tpot_ms: Option<f64>,
    /// Median gap between tokens.
    pub tpot_median_ms: Option<f64>,
    /// 99th percentile of the gaps between tokens.
    pub itl_p99_ms: Option<f64>,
    /// Longest gap between two token events.
    pub stall_ms: Option<f64>,
    /// From the origin to the last token event.
    pub e2e_ms: Option<f64>,
    /// The end.
    pub outcome: Outcome,
    /// Where a time limit struck.
    pub timeout_phase: Option<TimeoutPhase>,
    /// The HTTP status.
    pub http_status: Option<u16>,
    /// Why the server stopped.
    pub finish_reason: Option<FinishReason>,
    /// Why the request failed, in a sentence.
    #[serde(default)]
    pub error: Option<String>,
    /// Input tokens by the server's count.
    pub input_tokens: Option<u32>,
    /// Input tokens as planned.
    pub planned_input_tokens: u32,
    /// Input tokens from the server's prefix cache, by its count.
    pub cached_tokens: Option<u32>,
    /// Input tokens that an earlier request of the run made reusable, as planned.
    pub planned_cached_tokens: u32,
    /// Output tokens over all choices.
    pub output_tokens: Option<u32>,
    /// Who counted them: `usage`, `tokenizer` or `events` (a lower bound).
    pub output_tokens_source: Option<String>,
    /// What the server's `usage` said, believed or not.
    #[serde(default)]
    pub usage_report: UsageReport,
    /// Output tokens by a tokenizer of ours, where one was given, whatever `output_tokens` is from.
    #[serde(default)]
    pub tokenizer_tokens: Option<u32>,
    /// Output tokens as planned: the limit sent along.
    pub planned_output_tokens: u32,
    /// Output tokens that were reasoning.
    pub reasoning_tokens: Option<u32>,
    /// Token events seen.
    pub events: u32,
    /// Of these, events read at the same instant as the one before.
    #[serde(default)]
    pub bunched_events: u32,
    /// Unicode scalar values of the text.
    pub characters: u32,
    /// Words of the text.
    pub words: u32,
    /// Choices asked or seen.
    pub choices: u16,
    /// Whether the answer came as an event stream.
    pub streamed: bool,
    /// Whether several token events all came at one instant.
    pub one_burst: bool,
    /// Verdicts by SLO name.
    pub verdicts: BTreeMap<String, VerdictWord>,
    /// Gaps between token events, with `--keep-gaps`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap_ns: Option<Vec<u64>>,
    /// Tokens of each event after the first, with `--keep-gaps` and a running `usage`; 0 unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_event: Option<Vec<u32>>,
    /// The answer, with `--keep-text`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl RequestRow {
    /// Writes a record out.
    #[must_use]
    pub fn new(record: &RequestRecord, context: RowContext<'_>) -> Self {
        let summary = &record.summary;
        let (arrival, end) = (summary.arrival(), summary.end());
        let at = |t: Option<Timestamp>| t.map(Timestamp::nanos);
        let ms = |d: Option<Duration>| d.map(millis);
        let kept = record.gaps.kept().filter(|_| context.keep_gaps);
        Self {
            id: format!("{}-{}", context.run, arrival.id),
            point: context.point,
            phase: context.phase,
            vantage: arrival.vantage,
            tenant: context.series.tenant.clone(),
            class: context.series.class.clone(),
            pool: context.series.pool.clone(),
            model: context.series.model.clone(),
            replica: context.series.replica.clone(),
            session: arrival.session,
            step: arrival.step,
            steps: arrival.steps,
            origin_ns: arrival.origin.nanos(),
            due_ns: (summary.due != arrival.origin).then(|| summary.due.nanos()),
            sent_ns: at(summary.sent()),
            connect_ms: ms(summary.connect()),
            dispatched_ns: at(summary.dispatched()),
            attempts: summary.attempts(),
            first_byte_ns: at(summary.first_byte()),
            first_token_ns: at(summary.first_token()),
            first_answer_ns: at(summary.first_answer()),
            last_token_ns: at(summary.last_token()),
            end_ns: summary.ended().nanos(),
            ttft_ms: ms(summary.ttft()),
            ttft_answer_ms: ms(summary.ttft_answer()),
            tpot_ms: ms(summary.tpot()),
            tpot_median_ms: ms(summary.tpot_median()),
            itl_p99_ms: ms(summary.itl_p99()),
            stall_ms: ms(summary.stall()),
            e2e_ms: ms(summary.e2e()),
            outcome: end.outcome,
            timeout_phase: end.timeout_phase,
            http_status: end.http_status,
            finish_reason: end.finish_reason,
            error: context.error,
            input_tokens: end.input_tokens,
            planned_input_tokens: arrival.planned_input_tokens,
            cached_tokens: end.cached_tokens,
            planned_cached_tokens: arrival.planned_cached_tokens,
            output_tokens: end.output_tokens.map(TokenCount::get),
            output_tokens_source: end.output_tokens.map(|t| t.source().to_owned()),
            usage_report: end.usage,
            tokenizer_tokens: end.tokenizer_tokens,
            planned_output_tokens: arrival.planned_output_tokens,
            reasoning_tokens: end.reasoning_tokens,
            events: summary.events(),
            bunched_events: summary.bunched(),
            characters: end.characters,
            words: end.words,
            choices: end.choices,
            streamed: end.streamed,
            one_burst: summary.one_burst(),
            verdicts: context.verdicts,
            gap_ns: kept.map(|g| g.iter().map(crate::nanos).collect()),
            tokens_per_event: kept
                .filter(|g| !g.tokens().is_empty())
                .map(|g| g.tokens().to_vec()),
            text: context.text,
        }
    }

    /// The names it belongs to.
    #[must_use]
    pub fn series(&self) -> Series {
        Series {
            tenant: self.tenant.clone(),
            class: self.class.clone(),
            pool: self.pool.clone(),
            model: self.model.clone(),
            replica: self.replica.clone(),
        }
    }

    /// Reads the record back. Derived columns are not trusted but computed anew, except the gap
    /// quantiles of a row without gaps.
    #[must_use]
    pub fn to_record(&self, series: SeriesId) -> RequestRecord {
        let at = |ns: Option<u64>| ns.map(Timestamp::from_nanos);
        let span = |ms: Option<f64>| ms.map(|ms| crate::span_of(ms / 1e3));
        let number = self.id.rsplit('-').next().and_then(|n| n.parse().ok());
        let arrival = Arrival {
            id: number.unwrap_or_default(),
            origin: Timestamp::from_nanos(self.origin_ns),
            series,
            vantage: self.vantage,
            session: self.session,
            step: self.step,
            steps: self.steps,
            planned_input_tokens: self.planned_input_tokens,
            planned_cached_tokens: self.planned_cached_tokens,
            planned_output_tokens: self.planned_output_tokens,
        };
        let end = End {
            outcome: self.outcome,
            timeout_phase: self.timeout_phase,
            http_status: self.http_status,
            finish_reason: self.finish_reason,
            output_tokens: self.token_count(),
            input_tokens: self.input_tokens,
            cached_tokens: self.cached_tokens,
            reasoning_tokens: self.reasoning_tokens,
            usage: self.usage_report,
            tokenizer_tokens: self.tokenizer_tokens,
            characters: self.characters,
            words: self.words,
            choices: self.choices,
            streamed: self.streamed,
        };
        let summary = RequestSummary {
            arrival,
            due: at(self.due_ns).unwrap_or(arrival.origin),
            sent: at(self.sent_ns),
            connect: span(self.connect_ms),
            dispatched: at(self.dispatched_ns),
            attempts: self.attempts,
            first_byte: at(self.first_byte_ns),
            first_token: at(self.first_token_ns),
            first_answer: at(self.first_answer_ns),
            last_token: at(self.last_token_ns),
            ended: Timestamp::from_nanos(self.end_ns),
            stall: span(self.stall_ms),
            tpot_median: span(self.tpot_median_ms),
            itl_p99: span(self.itl_p99_ms),
            events: self.events,
            bunched: self.bunched_events,
            end,
        };
        RequestRecord {
            summary,
            gaps: self.gaps(),
        }
    }

    fn token_count(&self) -> Option<TokenCount> {
        let tokens = self.output_tokens?;
        Some(match self.output_tokens_source.as_deref() {
            Some("usage") => TokenCount::Usage(tokens),
            Some("tokenizer") => TokenCount::Tokenizer(tokens),
            _ => TokenCount::AtLeast(tokens),
        })
    }

    fn gaps(&self) -> Gaps {
        let Some(gaps) = &self.gap_ns else {
            return Gaps::NotKept;
        };
        let told = self.tokens_per_event.as_deref().unwrap_or_default();
        let mut buffer = GapBuffer::default();
        for (i, &gap) in gaps.iter().enumerate() {
            buffer.push(Duration::from_nanos(gap), told.get(i).copied().unwrap_or(0));
        }
        Gaps::Kept(buffer)
    }
}
