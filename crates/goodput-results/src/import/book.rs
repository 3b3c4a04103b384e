//! From requests as they were told to records, books and rows.

use std::{collections::BTreeMap, time::Duration};

use goodput_ledger::{Mode, PointBooks, PointFacts, PointRow};
use goodput_record::{
    Outcome, Phase, RequestRecord, RequestRow, RowContext, Series, SeriesId, Timestamp, VerdictWord,
};
use goodput_slo::{Slo, Verdict};
use goodput_stats::{Distribution, mix};
use goodput_sweep::{PointChart, RequestBar};

use super::{
    Import, ReadIn, Told, ToldLoad, Tool,
    findings::{self, Seen},
    load::{Laid, Place, in_flight},
    request::Foreign,
};

/// Width of the books' bins: that of a measured run, so that windows are cut alike.
const BIN: Duration = Duration::from_millis(100);
/// Requests of a point that the timeline shows.
const BARS: usize = 120;

/// One load point, judged.
struct Booked {
    row: PointRow,
    chart: PointChart,
    seen: Seen,
}

/// What all points have in common while they are judged.
struct Books<'a> {
    slos: &'a [Slo],
    model: Option<String>,
    gpus: Option<u32>,
    input: Distribution,
    output: Distribution,
}

/// Judges every point and gathers what is to be said of them all.
pub(super) fn gather<E>(
    read: ReadIn,
    slos: &[Slo],
    mut each: impl FnMut(RequestRow) -> Result<(), E>,
) -> Result<Import, E> {
    let mut books = Books {
        slos,
        model: read.model,
        gpus: read.gpus,
        input: Distribution::new(),
        output: Distribution::new(),
    };
    let (mut points, mut charts, mut all_seen) = (Vec::new(), Vec::new(), Vec::new());
    for ((told, laid), number) in read.points.into_iter().zip(0_u32..) {
        let point = books.book(told, &laid, number, &mut each)?;
        points.push(point.row);
        charts.push(point.chart);
        all_seen.push(point.seen);
    }
    let three = |d: &Distribution| [0.5, 0.9, 0.99].map(|q| d.quantile(q));
    let seen: Vec<(&PointRow, &Seen)> = points.iter().zip(&all_seen).collect();
    Ok(Import {
        tool: read.tool,
        findings: findings::of(read.tool, &seen),
        longest_s: points.iter().map(|row| row.window_s).fold(0.0, f64::max),
        model: books.model,
        points,
        charts,
        input: three(&books.input),
        output: three(&books.output),
        digest: mix(read.digest),
    })
}

impl Books<'_> {
    /// Judges the requests of one point.
    fn book<E>(
        &mut self,
        mut told: Told,
        laid: &Laid,
        number: u32,
        each: &mut impl FnMut(RequestRow) -> Result<(), E>,
    ) -> Result<Booked, E> {
        let mut books = PointBooks::new(self.slos, BIN);
        let series = Series {
            model: self.model.clone().unwrap_or_default(),
            ..Series::default()
        };
        let mut bars = Vec::new();
        let mut seen = Seen::of(&told, laid);
        let in_flight = in_flight(&told.requests, &laid.places, laid.window.1);
        let requests = std::mem::take(&mut told.requests);
        for ((request, place), id) in requests.into_iter().zip(&laid.places).zip(0_u64..) {
            let (record, phase) = record(&request, id, place);
            books.arrived(record.summary.arrival());
            let verdicts = books.post(&record.summary, &record.gaps, phase);
            seen.take(&request, &record);
            let met = verdicts.first() == Some(&Verdict::Met);
            if phase == Phase::Measured && bars.len() < BARS {
                bars.push(RequestBar::of(&record.summary, met));
            }
            let row = written(
                request,
                &record,
                RowContext {
                    run: told.tool.flag(),
                    point: number,
                    series: &series,
                    phase,
                    verdicts: words(self.slos, &verdicts),
                    keep_gaps: true,
                    text: None,
                    error: None,
                },
            );
            self.lengths(&row);
            each(row)?;
        }
        let window = Timestamp::from_nanos(laid.window.0)..Timestamp::from_nanos(laid.window.1);
        let row = row(
            &told,
            laid,
            &seen,
            &books,
            PointFacts {
                point: number,
                gpus: self.gpus,
                ..facts(&told, laid, in_flight, &seen)
            },
        );
        let charted = books.charted(&window);
        let [ttft_ms, tpot_ms, e2e_ms, stall_ms] = charted.quantiles;
        Ok(Booked {
            chart: PointChart {
                point: number,
                ttft_ms,
                tpot_ms,
                e2e_ms,
                stall_ms,
                requests: RequestBar::since_the_first(bars, BARS),
                timeline: charted.timeline,
            },
            seen,
            row,
        })
    }

    /// The lengths of a request, into what is said of all.
    fn lengths(&mut self, row: &RequestRow) {
        self.input.record_option(row.input_tokens.map(u64::from));
        if row.outcome == Outcome::Ok {
            self.output.record_option(row.output_tokens.map(u64::from));
        }
    }
}
/// The row of a request: of our own the one that was read, with the new verdicts.
fn written(request: Foreign, record: &RequestRecord, context: RowContext<'_>) -> RequestRow {
    if let Some(own) = request.row {
        return RequestRow {
            point: context.point,
            verdicts: context.verdicts,
            ..*own
        };
    }
    let error = request.error.map(String::from);
    let mut row = RequestRow::new(record, RowContext { error, ..context });
    if let Some(id) = request.id {
        row.id = id.into();
    }
    row
}

fn words(slos: &[Slo], verdicts: &[Verdict]) -> BTreeMap<String, VerdictWord> {
    let names = slos.iter().map(|slo| slo.name().to_owned());
    names.zip(verdicts.iter().map(|v| v.word())).collect()
}

/// The record of a request, and the part of the point that it belongs to.
fn record(request: &Foreign, id: u64, place: &Place) -> (RequestRecord, Phase) {
    if let Some(row) = &request.row {
        // Moved to the point's own axis: a record is nothing but differences.
        return (on_axis(row, place.origin), row.phase);
    }
    let phase = if request.warm_up {
        Phase::Warmup
    } else {
        Phase::Measured
    };
    let sent = place.sent.map(Timestamp::from_nanos);
    let record = request.record(id, Timestamp::from_nanos(place.origin), sent);
    (record, phase)
}

/// A row of our own as a record whose origin lies at `origin_ns`.
fn on_axis(row: &RequestRow, origin_ns: u64) -> RequestRecord {
    let from = row.origin_ns;
    let moved = move |at: u64| at.saturating_add(origin_ns).saturating_sub(from);
    let mut row = row.clone();
    for at in [
        &mut row.due_ns,
        &mut row.sent_ns,
        &mut row.dispatched_ns,
        &mut row.first_byte_ns,
        &mut row.first_token_ns,
        &mut row.first_answer_ns,
        &mut row.last_token_ns,
    ] {
        *at = at.map(moved);
    }
    row.end_ns = moved(row.end_ns);
    row.origin_ns = origin_ns;
    row.to_record(SeriesId::default())
}

/// What is known of a point beside its requests.
fn facts(told: &Told, laid: &Laid, in_flight: (u32, u32), seen: &Seen) -> PointFacts {
    let (mode, concurrency, rate_req_s) = match laid.load {
        ToldLoad::Users(users) => (Mode::Closed, Some(users), None),
        ToldLoad::Rate(rate) => (Mode::Open, None, Some(rate)),
    };
    let window = Timestamp::from_nanos(laid.window.0)..Timestamp::from_nanos(laid.window.1);
    let mut facts = PointFacts {
        concurrency,
        rate_req_s,
        in_flight_peak: Some(in_flight.0),
        in_flight_at_end: in_flight.1,
        invalid: seen.invalid(),
        warnings: findings::warnings(told, laid),
        ..PointFacts::new(0, mode, window)
    };
    if let Some(own) = &told.own {
        facts.loop_lag_p99_ns = own.loop_lag_p99_ms.map(|ms| ms * 1e6);
        facts.sent_share = own.sent_share;
        facts.client_cpu_share = own.client_cpu_share;
        facts.client = own.client;
        facts.server_cached_share = own.lengths.server_cached_share;
        facts.in_flight_peak = own.in_flight_peak.or(facts.in_flight_peak);
        facts.server_timings = (
            own.server_timings,
            own.server_timings_implausible,
            own.server_timing_ratio,
        );
        let said = own.warnings.iter().cloned();
        if own.valid {
            facts.warnings.extend(said);
        } else {
            // The first reason stands first; what else was said may be another.
            facts.invalid.extend(said);
        }
    }
    facts
}

/// The row of a point.
fn row(
    told: &Told,
    laid: &Laid,
    seen: &Seen,
    books: &PointBooks,
    mut facts: PointFacts,
) -> PointRow {
    if books.measured() == 0 {
        facts
            .invalid
            .insert(0, "no request was measured".to_owned());
    }
    let mut row = books.row(&facts);
    if let Some(own) = &told.own {
        row.server.clone_from(&own.server);
        row.not_streamed = own.not_streamed;
    }
    if told.tool != Tool::Goodput {
        not_told(&mut row, laid, seen);
    }
    row
}

/// Takes out of a row what the file does not tell.
fn not_told(row: &mut PointRow, laid: &Laid, seen: &Seen) {
    if !matches!(laid.load, ToldLoad::Rate(_)) || !seen.tells_lateness() {
        row.send_lag_p50_ms = None;
        row.send_lag_p99_ms = None;
    }
    row.reused_connections_share = None;
    // Whether an answer came with a usage, and how long it was to be, is not told.
    row.checks.usage_absent = 0;
    row.lengths.planned_input = [None; 3];
    row.lengths.planned_output = [None; 3];
    row.lengths.planned_cached_share = None;
    row.lengths.early_stop_share = None;
    if !seen.tells_events() {
        row.lengths.tokens_per_event = None;
    }
    if laid.made_up > 0 {
        // What came in one stretch of time or another is not known.
        row.checks.speed_shift = None;
        row.checks.cut_together = 0;
        row.goodput_interval = None;
        row.throughput_interval = None;
        for slo in &mut row.slos {
            slo.goodput_interval = None;
        }
    }
    if !seen.tells_text() {
        row.characters_per_s = None;
        row.words_per_s = None;
        row.lengths.characters_per_token = None;
        for slo in &mut row.slos {
            slo.good_characters_per_s = None;
            slo.good_words_per_s = None;
        }
    }
}
