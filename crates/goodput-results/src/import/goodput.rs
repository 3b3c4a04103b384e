//! Our own `requests.jsonl`, to be judged by another SLO. The loads are taken from the
//! `result.json` beside it.

use std::{collections::BTreeMap, path::Path};

use goodput_ledger::{Mode, PointRow};
use goodput_record::{Outcome, Phase, RequestRow};

use super::{Read, Told, ToldLoad, Tool, Trouble, request::Foreign};
use crate::folder::read_result;

pub(super) fn read(file: &Path, content: &str) -> Read {
    let mut points: BTreeMap<u32, Vec<Foreign>> = BTreeMap::new();
    for line in content.lines().filter(|line| !line.trim().is_empty()) {
        let row: RequestRow =
            serde_json::from_str(line).map_err(|e| Trouble::form(Tool::Goodput, &e))?;
        if row.phase != Phase::Warmup {
            points.entry(row.point).or_default().push(request(row));
        }
    }
    let beside = file.parent().map(|folder| folder.join("result.json"));
    let result = beside.and_then(|path| read_result(&path).ok());
    let row = |number: u32| result.as_ref()?.points.iter().find(|p| p.point == number);
    let told = |(number, requests): (u32, Vec<Foreign>)| Told {
        tool: Tool::Goodput,
        model: result.as_ref().map(|r| r.holds_for.model.clone()),
        load: row(number).and_then(load),
        chat: None,
        window: row(number).and_then(|row| window(&requests, row)),
        requests,
    };
    Ok(points.into_iter().map(told).collect())
}

fn request(row: RequestRow) -> Foreign {
    Foreign {
        due: Some(row.origin_ns),
        sent: row.sent_ns,
        lived: row
            .end_ns
            .saturating_sub(row.sent_ns.unwrap_or(row.origin_ns)),
        row: Some(Box::new(row)),
        ..Foreign::of(Outcome::Ok)
    }
}

fn load(row: &PointRow) -> Option<ToldLoad> {
    match row.mode {
        Mode::Closed => row.concurrency.map(ToldLoad::Users),
        Mode::Open => row.rate_req_s.map(ToldLoad::Rate),
    }
}

/// The window as the run had it: its length is known, its start is taken from the first request
/// that was measured.
fn window(requests: &[Foreign], row: &PointRow) -> Option<(u64, u64)> {
    let measured = requests.iter().filter_map(|r| r.row.as_deref());
    let from = measured
        .filter(|row| row.phase == Phase::Measured)
        .map(|row| row.origin_ns)
        .min()?;
    Some((from, from + goodput_record::nanos_of(row.window_s)))
}
