//! `goodput plan queue`: how long requests wait, by the classics of queueing.

use std::num::NonZeroU32;

use goodput_config::{parse_duration, parse_percent};
use goodput_perf_model::{
    Demand,
    queueing::{Lever, Question, QueueError, View, Views, overview, views},
};
use goodput_report::queue as face;
use goodput_stats::whole_u32;
use goodput_virtual::SingleServer;

use crate::{
    emulate::profile,
    exit::{Exit, Failure},
    flags::{QueueFlags, QueueFormat},
    print,
    talk::Voice,
};

/// Requests a second that a queue may be asked about: beyond them a wait cannot be said in words.
const RATES: [f64; 2] = [1e-6, 1e9];

/// Prints the table; a queue that grows without end is a no.
pub(crate) fn queue(flags: &QueueFlags, voice: Voice) -> Result<Exit, Failure> {
    sensible("--rate", flags.rate)?;
    let seen = replica(flags, voice)?;
    let question = question(flags, seen.as_ref())?;
    let answer = overview(&question).map(|mut answer| {
        answer.lever = through_engine(answer.lever, &question);
        answer
    });
    let unstable = match &answer {
        Err(QueueError::Unstable { .. }) | Ok(_) => answer.is_err(),
        Err(error) => return Err(Failure::usage(error.to_string())),
    };
    let document = face::Document {
        question,
        answer: answer.ok(),
        views: seen,
    };
    print(&match flags.format {
        QueueFormat::Human => face::human(&document, voice.style_out()),
        QueueFormat::Json => face::json(&document),
    })?;
    Ok(if unstable { Exit::No } else { Exit::Yes })
}

/// Requests through the engine behind a p99 of the variance lever, times `(1 - utilization)^2`: a
/// queue forgets in about `8 / (1 - utilization)^2` services, so a p99 is within about 12 % (two
/// standard errors) at any load.
const LEVER_REQUESTS: f64 = 10_000.0;
/// Where it would take more, there is no such figure.
const MOST_LEVER_REQUESTS: f64 = 1.1e6;

/// Puts the p99 of the simulated engine beside the lever's formulas, where the engine is what these
/// speak of: one server, Poisson arrivals.
fn through_engine(lever: Lever, question: &Question) -> Lever {
    let single = question.servers == NonZeroU32::MIN;
    if !single || (question.scv_arrivals - 1.0).abs() > f64::EPSILON {
        return lever;
    }
    lever.with_engine(|row| {
        let server = SingleServer {
            rate_per_s: row.rate_per_s,
            service_s: row.service_s,
            scv_service: row.scv_service,
            seed: 1,
        };
        let idle = 1.0 - row.utilization;
        let requests = LEVER_REQUESTS / (idle * idle);
        (requests <= MOST_LEVER_REQUESTS).then(|| server.wait_p99_s(whole_u32(requests)))?
    })
}

/// The profile that was named, seen as servers.
fn replica(flags: &QueueFlags, voice: Voice) -> Result<Option<Views>, Failure> {
    let (Some(name), Some(input), Some(output)) = (&flags.profile, flags.input, flags.output)
    else {
        return Ok(None);
    };
    let profile = profile(name, voice)?;
    let whole = u64::from(input) + u64::from(output);
    if whole > profile.kv_tokens() || whole > u64::from(profile.context_limit) {
        let most = profile.kv_tokens().min(profile.context_limit.into());
        let message = format!("a request of {whole} tokens never fits: {name} holds {most}");
        return Err(Failure::usage(message).hint("ask for fewer tokens, or name another profile"));
    }
    let demand = Demand::of(&[(input, output)]);
    Ok(demand.map(|demand| views(&profile, &demand, flags.rate)))
}

fn question(flags: &QueueFlags, seen: Option<&Views>) -> Result<Question, Failure> {
    let (service_s, servers) = match (seen, &flags.service, flags.mu) {
        (Some(Views { places, .. }), _, _) => {
            let View {
                servers, service_s, ..
            } = *places;
            (service_s, servers)
        }
        (None, Some(text), _) => (service(text)?, servers(flags)),
        (None, None, Some(mu)) => (1.0 / sensible("--mu", mu)?, servers(flags)),
        (None, None, None) => {
            return Err(Failure::usage("no service time was given").hint("e.g. --service 120ms"));
        }
    };
    let cut = parse_percent(&flags.cut)
        .map_err(|e| Failure::usage(format!("--cut: {e}").replace('\n', "; ")))?;
    Ok(Question {
        rate_per_s: flags.rate,
        service_s,
        servers,
        scv_arrivals: flags.scv_arrivals,
        scv_service: flags.scv_service,
        cut: cut.share(),
    })
}

/// A rate that was given, if one can be worked with.
fn sensible(flag: &str, rate: f64) -> Result<f64, Failure> {
    let [least, most] = RATES;
    if (least..=most).contains(&rate) {
        return Ok(rate);
    }
    Err(Failure::usage(format!(
        "{flag}: {rate:?} is no rate to work with; expected requests a second, {least} to {most}"
    )))
}

fn servers(flags: &QueueFlags) -> NonZeroU32 {
    NonZeroU32::new(flags.servers).unwrap_or(NonZeroU32::MIN)
}

fn service(text: &str) -> Result<f64, Failure> {
    match parse_duration(text) {
        Ok(span) if !span.is_zero() => Ok(span.as_secs_f64()),
        Ok(_) => Err(Failure::usage("--service: a service takes time").hint("e.g. 120ms")),
        Err(e) => Err(Failure::usage(
            format!("--service: {e}").replace('\n', "; "),
        )),
    }
}
