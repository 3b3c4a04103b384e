//! `goodput sweep --dry-run`: what would be run and how long it takes, on stdout.

use std::{num::NonZeroU32, time::Duration};

use goodput_report::{csv, json, terminal};
use serde::Serialize;

use super::{live::minutes, run::Run, sweep::Loads};
use crate::{
    exit::Failure,
    flags::{Format, SweepFlags},
    print,
    talk::Voice,
};

/// What a sweep takes, in seconds; null where requests are counted, which take as long as they take.
#[derive(Debug, Serialize)]
struct Plan {
    boots: u32,
    first_boot_s: Option<f64>,
    further_boot_s: Option<f64>,
    in_all_s: Option<f64>,
}

const COLUMNS: &[&str] = &["boots", "first_boot_s", "further_boot_s", "in_all_s"];

/// Prints it.
pub(crate) fn print_plan(
    run: &Run,
    loads: &Loads,
    flags: &SweepFlags,
    voice: Voice,
) -> Result<(), Failure> {
    let boots = flags.boots.map_or(1, NonZeroU32::get);
    let first = loads.told_length(run);
    let further = loads.further_length(run).filter(|_| boots > 1);
    let in_all = first.map(|first| first + further.unwrap_or_default() * (boots - 1));
    let seconds = |span: Option<Duration>| span.map(|span| span.as_secs_f64());
    let plan = Plan {
        boots,
        first_boot_s: seconds(first),
        further_boot_s: seconds(further),
        in_all_s: seconds(in_all),
    };
    match flags.run.ask.format {
        Format::Human => {
            let head = terminal::head(&run.paper.holds_for, voice.style_out());
            print(&format!("{head}{}{}", loads.cost(run), in_words(&plan)))
        }
        Format::Json => print(&json::document(&plan)),
        Format::Csv => {
            let row = serde_json::to_value(&plan)
                .map_err(|e| Failure::untrusted(format!("cannot write the plan: {e}")))?;
            print(&csv::table(COLUMNS, &[row]))
        }
    }
}

/// What several boots take; nothing of one.
fn in_words(plan: &Plan) -> String {
    if plan.boots < 2 {
        return String::new();
    }
    let span = |seconds: f64| minutes(Duration::from_secs_f64(seconds));
    let times = match (plan.first_boot_s, plan.further_boot_s, plan.in_all_s) {
        (Some(first), Some(further), Some(in_all)) => format!(
            "about {} for the first, {} for each further one, which measures the loads of the first; about {} in all, and the restarts",
            span(first),
            span(further),
            span(in_all)
        ),
        _ => "each measures the loads of the first".to_owned(),
    };
    format!("\nboots     {}: {times}", plan.boots)
}
