//! Work in seconds: what lets one budget serve another mix of lengths.

use goodput_perf_model::{Demand as Work, StepTime};

/// Seconds of a replica that the mean request takes for itself:
/// `w = c_p p + d pairs + l (b + k c)`.
///
/// Rate times work is the share of the replica that is taken; the rest is what every step costs
/// whoever is in it. So where lengths shift, the demand in work shifts and the capacity stays.
/// Prompt tokens count with the arithmetic that hides behind the weight reads left out, as in
/// [`StepTime::saturation_rate`], whose reciprocal this is. 0 where nothing grows with load.
#[must_use]
pub fn work_seconds(step: &StepTime, work: &Work) -> f64 {
    step.saturation_rate(work).map_or(0.0, |rate| 1.0 / rate)
}

/// The budget in requests per second after lengths have shifted: `rate x w_before / w_after`.
///
/// An estimate of the first order. It takes the clause that binds to stay the same; longer prompts
/// make first tokens later, which no budget of work sees. `None` where either work is 0.
#[must_use]
pub fn shifted_rate(rate: f64, step: &StepTime, before: &Work, after: &Work) -> Option<f64> {
    let (before, after) = (work_seconds(step, before), work_seconds(step, after));
    (before > 0.0 && after > 0.0).then(|| rate * before / after)
}

/// The work of a request whose prompt and answer are so many times as long.
#[must_use]
pub fn scaled(work: &Work, prompts: f64, outputs: f64) -> Work {
    // Context is the whole prompt and half the answer on average: the part of each is not kept
    // apart in the mean, so the answer's half is taken out, scaled and put back.
    let half = work.output_tokens / 2.0;
    let before = (work.context_tokens - half).max(0.0);
    Work {
        prefill_tokens: work.prefill_tokens * prompts,
        prefill_pairs: work.prefill_pairs * prompts * prompts,
        output_tokens: work.output_tokens * outputs,
        context_tokens: before * prompts + half * outputs,
    }
}
