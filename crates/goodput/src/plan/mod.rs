//! `goodput plan`: how many replicas, in which pools, with which budgets.

mod capacity;
mod inputs;
mod pools;
mod queue;
mod trajectory;

use std::{fs, path::Path};

use goodput_report::html::Html;
use goodput_results::write_whole;

use crate::{
    exit::{Exit, Failure},
    flags::{PlanFlags, PlanFormat, PlanVerb},
    print,
    talk::Voice,
};

/// Does what the flags ask.
pub(crate) fn plan(flags: &PlanFlags, voice: Voice) -> Result<Exit, Failure> {
    match &flags.verb {
        None => capacity::plan(&flags.capacity, voice),
        Some(PlanVerb::Capacity(flags)) => capacity::plan(flags, voice),
        Some(PlanVerb::Pools(flags)) => pools::plan(flags, voice),
        Some(PlanVerb::Trajectory(flags)) => trajectory::plan(flags, voice),
        Some(PlanVerb::Queue(flags)) => queue::queue(flags, voice),
    }
}

/// A plan in every form it is shown in.
struct Shown {
    human: String,
    json: String,
    csv: String,
    markdown: String,
    /// Where the plan has a page.
    html: Option<Html>,
}

/// Prints a plan and writes its files.
fn deliver(
    shown: &Shown,
    out: Option<&Path>,
    format: PlanFormat,
    voice: Voice,
) -> Result<(), Failure> {
    if let Some(folder) = out {
        write(shown, folder)?;
        let page = shown.html.as_ref().map_or("", |_| "  plan.html");
        voice.say(&format!("{}/{page}  plan.md  plan.json", folder.display()));
    }
    print(match format {
        PlanFormat::Human => &shown.human,
        PlanFormat::Json => &shown.json,
        PlanFormat::Csv => &shown.csv,
        PlanFormat::Markdown => &shown.markdown,
    })
}

fn write(shown: &Shown, folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder)
        .map_err(|e| Failure::usage(format!("cannot make {}: {e}", folder.display())))?;
    let text = |name: &str, text: &str| {
        write_whole(&folder.join(name), |out| out.write_all(text.as_bytes()))
    };
    text("plan.json", &shown.json)?;
    text("plan.md", &shown.markdown)?;
    if let Some(page) = &shown.html {
        write_whole(&folder.join("plan.html"), |out| page.write(out))?;
    }
    Ok(())
}
