//! What the flags ask for that every run has, whoever it asks: counts, lengths, warm-up, the folder.

use std::{num::NonZeroU32, path::PathBuf, time::Duration};

use goodput_config::{Amount, parse_amount};

use super::{
    plan::{Lengths, ServerKind},
    run::WarmUp,
    server, text_failure,
};
use crate::{exit::Failure, flags::AskFlags};

impl AskFlags {
    /// Measured requests a point, where they are counted.
    pub(crate) fn count(&self) -> Result<Option<NonZeroU32>, Failure> {
        let Some(requests) = self.requests else {
            return Ok(None);
        };
        let count = u32::try_from(requests).ok().and_then(NonZeroU32::new);
        count.map(Some).ok_or_else(|| {
            Failure::usage(format!("--requests {requests} is not a number of requests"))
                .hint(format!("name one from 1 to {}", u32::MAX))
        })
    }

    /// What decides how long points last.
    pub(crate) fn lengths(&self, server: ServerKind) -> Result<Lengths, Failure> {
        let asked = self.duration.as_deref();
        let asked = asked
            .map(|text| server::duration("--duration", text))
            .transpose()?;
        if asked.is_some_and(|span| span.is_zero()) {
            return Err(
                Failure::usage("--duration 0 leaves no window to measure in")
                    .hint("name a time, such as 60s, or count with --requests"),
            );
        }
        Ok(Lengths { asked, server })
    }

    /// Over how long the users of a closed loop start, where told.
    pub(crate) fn ramp(&self) -> Result<Option<Duration>, Failure> {
        let asked = self.ramp.as_deref();
        asked
            .map(|text| server::duration("--ramp", text))
            .transpose()
    }

    /// How much the server is to be warmed up, where told.
    pub(crate) fn warm_up(&self) -> Result<Option<WarmUp>, Failure> {
        let Some(text) = &self.warmup else {
            return Ok(None);
        };
        let asked = match parse_amount(text).map_err(|e| text_failure("--warmup", &e))? {
            Amount::Requests(count) => {
                let count = u32::try_from(count).unwrap_or(u32::MAX);
                NonZeroU32::new(count).map_or(WarmUp::Nothing, WarmUp::Requests)
            }
            Amount::Span(span) if span.is_zero() => WarmUp::Nothing,
            Amount::Span(span) => WarmUp::Span(span),
        };
        Ok(Some(asked))
    }

    /// Whether warm-up was switched off: then nothing is sent but what is measured.
    pub(crate) fn is_cold(&self) -> Result<bool, Failure> {
        Ok(self.warm_up()? == Some(WarmUp::Nothing))
    }

    /// The folder named, else one of the verb, the SLO and the time of day.
    pub(crate) fn folder(&self, kind: &str, slo: &str) -> PathBuf {
        self.out.clone().unwrap_or_else(|| {
            let now = jiff::Timestamp::now().strftime("%m%d-%H%M%S").to_string();
            PathBuf::from(format!("runs/{kind}-{slo}-{now}"))
        })
    }
}
