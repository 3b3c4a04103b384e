//! From requests as they were told to records, books and rows.

use std::{collections::BTreeMap, time::Duration};

use goodput_ledger::{ClientRow, Mode, PointBooks, PointFacts, PointRow};
use goodput_record::{
    Outcome, Phase, RequestRecord, RequestRow, RowContext, Series, SeriesId, Timestamp, VerdictWord,
};
use goodput_slo::{Slo, Verdict};
use goodput_stats::{Distribution, mix};
use goodput_sweep::{PointChart, RequestBar};

use super::{
    Import, ImportAsk, Told, ToldLoad, Tool,
    findings::{self, Seen},
    load::{Laid, in_flight, lay},
};
use crate::error::{Result, ResultsError};

/// Width of the books' bins: that of a measured run, so that windows are cut alike.
const BIN: Duration = Duration::from_millis(100);
/// Requests of a point that the timeline shows.
const BARS: usize = 120;

/// One load point, judged.
struct Booked {
    row: PointRow,
    chart: PointChart,
    requests: Vec<RequestRow>,
    seen: Seen,
}

/// Judges every point and gathers what is to be said of them all.
pub(super) fn gather(
    tool: Tool,
    told: &[Told],
    ask: &ImportAsk,
    slos: &[Slo],
    digest: u64,
) -> Result<Import> {
    let model = ask
        .model
        .clone()
        .or_else(|| told.iter().find_map(|t| t.model.clone()));
    let mut booked = Vec::new();
    for (point, number) in told.iter().zip(0_u32..) {
        let laid = lay(point, ask.load).map_err(|trouble| ResultsError::Told {
            because: format!("{tool}: {}", trouble.message),
            hint: trouble.hint,
        })?;
        booked.push(book(point, &laid, number, model.as_deref(), ask.gpus, slos));
    }
    let mut lengths = (Distribution::new(), Distribution::new());
    for request in booked.iter().flat_map(|b| &b.requests) {
        lengths.0.record_option(request.input_tokens.map(u64::from));
        if request.outcome == Outcome::Ok {
            lengths
                .1
                .record_option(request.output_tokens.map(u64::from));
        }
    }
    let three = |d: &Distribution| [0.5, 0.9, 0.99].map(|q| d.quantile(q));
    let seen: Vec<(&PointRow, &Seen)> = booked.iter().map(|b| (&b.row, &b.seen)).collect();
    let findings = findings::of(tool, &seen);
    let longest = booked.iter().map(|b| b.row.window_s).fold(0.0, f64::max);
    let (mut points, mut charts, mut requests) = (Vec::new(), Vec::new(), Vec::new());
    for point in booked {
        points.push(point.row);
        charts.push(point.chart);
        requests.extend(point.requests);
    }
    Ok(Import {
        tool,
        model,
        points,
        charts,
        requests,
        findings,
        input: three(&lengths.0),
        output: three(&lengths.1),
        longest_s: longest,
        digest: mix(digest),
    })
}

fn book(
    told: &Told,
    laid: &Laid,
    number: u32,
    model: Option<&str>,
    gpus: Option<u32>,
    slos: &[Slo],
) -> Booked {
    let mut books = PointBooks::new(slos, BIN);
    let series = Series {
        model: model.unwrap_or_default().to_owned(),
        ..Series::default()
    };
    let mut bars = Vec::new();
    let mut requests = Vec::with_capacity(told.requests.len());
    let mut records = Vec::with_capacity(told.requests.len());
    for ((request, place), id) in told.requests.iter().zip(&laid.places).zip(0_u64..) {
        let (record, phase) = record(request, id, place);
        books.arrived(record.summary.arrival());
        let verdicts = books.post(&record.summary, &record.gaps, phase);
        let met = verdicts.first() == Some(&Verdict::Met);
        if phase == Phase::Measured && bars.len() < BARS {
            bars.push(RequestBar::of(&record.summary, met));
        }
        let context = RowContext {
            run: told.tool.flag(),
            point: number,
            series: &series,
            phase,
            verdicts: words(slos, &verdicts),
            keep_gaps: true,
            text: None,
            error: request.error.clone(),
        };
        let mut row = RequestRow::new(&record, context);
        if let Some(id) = &request.id {
            row.id.clone_from(id);
        }
        requests.push(row);
        records.push(record);
    }
    let window = Timestamp::from_nanos(laid.window.0)..Timestamp::from_nanos(laid.window.1);
    let row = row(told, laid, &books, number, gpus, &window);
    let charted = books.charted(&window);
    let [ttft_ms, tpot_ms, e2e_ms, stall_ms] = charted.quantiles;
    Booked {
        chart: PointChart {
            point: number,
            ttft_ms,
            tpot_ms,
            e2e_ms,
            stall_ms,
            requests: RequestBar::since_the_first(bars, BARS),
            timeline: charted.timeline,
        },
        seen: findings::look(told, laid, &records),
        row,
        requests,
    }
}

fn words(slos: &[Slo], verdicts: &[Verdict]) -> BTreeMap<String, VerdictWord> {
    let names = slos.iter().map(|slo| slo.name().to_owned());
    names.zip(verdicts.iter().map(|v| v.word())).collect()
}

/// The record of a request, and the part of the point that it belongs to.
fn record(
    request: &super::request::Foreign,
    id: u64,
    place: &super::load::Place,
) -> (RequestRecord, Phase) {
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

fn row(
    told: &Told,
    laid: &Laid,
    books: &PointBooks,
    number: u32,
    gpus: Option<u32>,
    window: &std::ops::Range<Timestamp>,
) -> PointRow {
    let (most, at_end) = in_flight(&told.requests, &laid.places, laid.window.1);
    let mut invalid = Vec::new();
    if books.measured() == 0 {
        invalid.push("no request was measured".to_owned());
    }
    let facts = PointFacts {
        point: number,
        mode: match laid.load {
            ToldLoad::Users(_) => Mode::Closed,
            ToldLoad::Rate(_) => Mode::Open,
        },
        concurrency: match laid.load {
            ToldLoad::Users(users) => Some(users),
            ToldLoad::Rate(_) => None,
        },
        rate_req_s: match laid.load {
            ToldLoad::Users(_) => None,
            ToldLoad::Rate(rate) => Some(rate),
        },
        window: window.clone(),
        gpus,
        in_flight_peak: Some(most),
        in_flight_at_end: at_end,
        sent_share: None,
        loop_lag_p99_ns: None,
        client_cpu_share: None,
        client: ClientRow::default(),
        server_cached_share: None,
        server_timings: (0, 0, None),
        invalid,
        warnings: findings::warnings(laid),
    };
    let mut row = books.row(&facts);
    not_told(&mut row, told, laid);
    row
}

/// Takes out of a row what the file does not tell.
fn not_told(row: &mut PointRow, told: &Told, laid: &Laid) {
    if told.tool == Tool::Goodput {
        return;
    }
    let scheduled = matches!(laid.load, ToldLoad::Rate(_));
    if !scheduled
        || told
            .requests
            .iter()
            .all(|r| r.due.is_none() || r.sent.is_none())
    {
        row.send_lag_p50_ms = None;
        row.send_lag_p99_ms = None;
    }
    row.reused_connections_share = None;
    row.lengths.planned_input = [None; 3];
    row.lengths.planned_output = [None; 3];
    row.lengths.planned_cached_share = None;
    row.lengths.early_stop_share = None;
    if told
        .requests
        .iter()
        .all(|r| r.gaps.is_none() && r.events.is_none())
    {
        row.lengths.tokens_per_event = None;
    }
    if laid.made_up > 0 {
        // How fast tokens came in one stretch of time or another is not known.
        row.goodput_interval = None;
        row.throughput_interval = None;
        for slo in &mut row.slos {
            slo.goodput_interval = None;
        }
    }
    if told.requests.iter().all(|r| r.end.characters == 0) {
        row.characters_per_s = None;
        row.words_per_s = None;
        row.lengths.characters_per_token = None;
        for slo in &mut row.slos {
            slo.good_characters_per_s = None;
            slo.good_words_per_s = None;
        }
    }
}
