//! `goodput calibrate`: records of a measurement to an engine profile.

mod limits;
mod records;

use std::collections::BTreeSet;

use goodput_calibration::{
    Ask, Calibration, CalibrationDocument, CalibrationError, CoefficientRow, Form, KvSeen,
    RefinedRow, calibrate as fit, form_of, kv_seen, priors_of, refine,
};
use goodput_perf_model::Profile;
use goodput_report::{json, terminal};
use goodput_results::write_whole;

use crate::{
    emulate,
    exit::{Exit, Failure},
    flags::{CalibrateFlags, CalibrateFormat},
    print,
    talk::Voice,
};
use limits::Limits;
use records::Records;

/// Fits, says what is known, and writes the profile.
pub(crate) fn calibrate(flags: &CalibrateFlags, voice: Voice) -> Result<Exit, Failure> {
    let named = flags
        .base
        .as_deref()
        .map(|base| emulate::profile(base, voice))
        .transpose()?;
    if named
        .as_ref()
        .is_some_and(|base| base.step_time.speculation.is_some())
    {
        return Err(Failure::usage(
            "an engine that speculates gives several tokens a step, which calibrate cannot read",
        )
        .hint("measure with speculation off, and turn it on in the profile"));
    }
    let mut limits = Limits::of(named.as_ref());
    let mut records = Records::read(
        &flags.folders,
        limits.base.as_ref().and_then(|_| limits.step_tokens()),
    )?;
    limits.told_by(&records.results);
    let kv = limits
        .block_tokens()
        .and_then(|block| seen(&records, f64::from(block)));
    limits.set(&flags.set, voice)?;
    let form = named.as_ref().map_or_else(Form::default, form_of);
    let priors = named.as_ref().filter(|_| flags.trust_base).map(priors_of);
    let ask = Ask {
        form,
        priors: priors.unwrap_or_default(),
        resamples: flags.resamples as usize,
        seed: flags.seed,
        ..Ask::default()
    };
    if let Some(base) = &named {
        warn_of_another_model(&records, base, voice);
    }
    let calibration = fit_valid(&mut records, &ask)?;
    let (calibration, refined) = match flags.refine {
        Some(tries) => replay(
            &records,
            calibration,
            &limits.whole(kv.map(|k| k.tokens))?,
            tries as usize,
        )?,
        None => (calibration, None),
    };
    let document = CalibrationDocument {
        refined,
        ..document(&records, &calibration, kv)
    };
    if let Some(out) = &flags.out {
        let base = limits.whole(kv.map(|seen| seen.tokens))?;
        let profile = profile(&records, &calibration, &base);
        write_whole(out, |file| file.write_all(profile.to_toml().as_bytes()))?;
    }
    match flags.format {
        CalibrateFormat::Human => print(&terminal::calibration(&document, voice.style_out()))?,
        CalibrateFormat::Json => print(&json::document(&document))?,
    }
    if let Some(out) = &flags.out {
        voice.say(&format!("profile: {}", out.display()));
    }
    Ok(if records.untrusted {
        Exit::Untrusted
    } else {
        Exit::Yes
    })
}

/// Says where the base is a profile of another model than the one measured: its limits and names are taken
/// over, and with `--trust-base` its coefficients are believed to a half.
fn warn_of_another_model(records: &Records, base: &Profile, voice: Voice) {
    let measured = records.results.iter().map(|r| r.holds_for.model.as_str());
    let others: BTreeSet<&str> = measured
        .filter(|model| !model.is_empty() && !same_model(model, &base.model_id))
        .collect();
    for model in others {
        voice.say(&format!(
            "warning: measured was {model}, --base is a profile of {}: the profile gets that name and the limits of that one; name another base, or none, and --set what the records do not tell",
            base.model_id
        ));
    }
}

/// Whether two names mean one model: servers leave the owner out, and write small and large as they like.
fn same_model(one: &str, other: &str) -> bool {
    let short = |name: &str| name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
    short(one) == short(other)
}

/// Fits to the valid load points. Where these are not enough the invalid ones are taken as well, and
/// what comes of it is not to be trusted.
fn fit_valid(records: &mut Records, ask: &Ask) -> Result<Calibration, Failure> {
    let valid = records.valid();
    if valid.len() < records.samples.len() {
        if let Ok(calibration) = fit(&valid, ask) {
            records.samples = valid;
            return Ok(calibration);
        }
        records.untrusted = true;
    }
    fit(&records.samples, ask).map_err(|error| refused(&error))
}

/// Refines by replaying the measured requests.
fn replay(
    records: &Records,
    calibration: Calibration,
    base: &Profile,
    tries: usize,
) -> Result<(Calibration, Option<RefinedRow>), Failure> {
    let points = records.replayed();
    let Some(refined) = refine(&calibration, base, &points, tries).filter(|_| !points.is_empty())
    else {
        return Err(Failure::usage("no load point can be replayed")
            .hint("it takes 20 requests that all ended well, without prefix hits, and limits that admit them"));
    };
    let row = RefinedRow {
        points: points.len(),
        tries: refined.tries,
        before: refined.before,
        after: refined.after,
    };
    Ok((calibration.refined(&refined), Some(row)))
}

fn refused(error: &CalibrationError) -> Failure {
    let hint = error.hint();
    Failure::usage(error.to_string()).hint(hint)
}

/// The KV cache's size as its usage tells, over all runs whose counters were kept.
fn seen(records: &Records, block_tokens: f64) -> Option<KvSeen> {
    let runs = records.runs.iter();
    let each = runs.filter_map(|run| kv_seen(&run.requests, &run.kv_usage, block_tokens));
    each.max_by_key(|seen| seen.looks)
}

fn profile(records: &Records, calibration: &Calibration, base: &Profile) -> Profile {
    let fitted_on = calibration
        .ranges
        .fitted_on(records.prompts(), records.rates());
    let source = format!(
        "Fitted by goodput calibrate to {} samples of {} load points ({}); median error {:.1} %.",
        calibration.fit.used,
        calibration.ranges.points,
        records.names().join(", "),
        100.0 * calibration.fit.median_error
    );
    let mut profile = calibration.profile(base, fitted_on, source);
    if let Some(tokens) = records.template_tokens() {
        profile.template_tokens = tokens;
    }
    profile
}

fn document(
    records: &Records,
    calibration: &Calibration,
    kv: Option<KvSeen>,
) -> CalibrationDocument {
    let identified = &calibration.identified;
    CalibrationDocument {
        folders: records.names(),
        samples_are: records.samples_are.to_owned(),
        samples: calibration.fit.used,
        pauses: calibration.fit.pauses,
        unclear: records.unclear,
        waiting: records.waiting,
        median_error: calibration.fit.median_error,
        condition: identified.condition,
        knee_tokens: calibration.fit.form.knee_tokens,
        coefficients: identified
            .coefficients
            .iter()
            .map(CoefficientRow::of)
            .collect(),
        points: calibration.quality(&records.samples),
        ranges: calibration.ranges,
        advice: identified
            .advice
            .iter()
            .map(|a| a.words().to_owned())
            .collect(),
        kv,
        template_tokens: records.template_tokens(),
        refined: None,
        warnings: records.warnings(calibration.fit.pauses, calibration.fit.theta.len()),
    }
}
