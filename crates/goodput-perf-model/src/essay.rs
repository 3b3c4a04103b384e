//! The plain form of a step's time, as the essay on inference SLOs has it.
//!
//! `T(n) = W/B + n K/B + f(n)`: weights, KV reads and a compute term that is negligible until
//! saturation (A. Agrawal, "Inference SLOs: TTFT, TPOT, and Why Throughput Is the Wrong Target",
//! 2026). Its `K` is one number for all sequences. Against measured kernels such a form is off by 13
//! to 23 %, one that reads `K` for each token of context by 3 to 5 %: [`StepTime`](super::StepTime).
//! It stays for what it is good at, a picture in the head.

/// `T(n) = W/B + n K/B + f(n)`, and how many sequences fit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlainForm {
    /// `W/B`: seconds to read the weights.
    pub weights_s: f64,
    /// `K/B`: seconds to read one sequence's keys and values.
    pub kv_s: f64,
    /// Sequences up to which arithmetic costs nothing.
    pub saturation: u32,
    /// Seconds of arithmetic each sequence beyond these adds.
    pub compute_s: f64,
    /// Sequences whose keys and values fit; more of them wait.
    pub capacity: u32,
}

/// What a request must keep to count, and how long its answer is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlainSlo {
    /// Longest wait for the first token, in seconds.
    pub ttft_s: f64,
    /// Longest time of an output token, in seconds.
    pub tpot_s: f64,
    /// Mean output tokens; their number is taken to be geometric.
    pub output_tokens: f64,
}

impl PlainForm {
    /// A replica of the essay's illustrative shape: about five times the tokens per second of one
    /// sequence at 8, ten times at 32, a peak at 128. No real one.
    #[must_use]
    pub const fn illustrative() -> Self {
        Self {
            weights_s: 4.65e-3,
            kv_s: 0.35e-3,
            saturation: 64,
            compute_s: 0.05e-3,
            capacity: 128,
        }
    }

    /// Seconds of a step with `n` sequences in it. It is also their time per output token.
    #[must_use]
    pub fn step_s(&self, n: u32) -> f64 {
        let beyond = n.saturating_sub(self.saturation);
        self.weights_s + self.kv_s * f64::from(n) + self.compute_s * f64::from(beyond)
    }

    /// Tokens per second with `n` requests in flight, those beyond the capacity waiting:
    /// `n / T(n)`.
    #[must_use]
    pub fn tokens_per_s(&self, n: u32) -> f64 {
        let running = n.min(self.capacity);
        f64::from(running) / self.step_s(running)
    }

    /// Tokens per second of the requests that keep `slo`, with `n` in flight in a closed loop.
    ///
    /// Beyond the capacity each newcomer waits until as many have left as wait before it. With
    /// geometric lengths they leave at a constant rate, so the wait is an Erlang variable.
    /// Recomputation is not counted: throughput barely falls there in published runs (0 to 3 %),
    /// goodput does.
    #[must_use]
    pub fn good_tokens_per_s(&self, n: u32, slo: &PlainSlo) -> f64 {
        let running = n.min(self.capacity);
        let step = self.step_s(running);
        if step > slo.tpot_s {
            return 0.0;
        }
        let leave = f64::from(running) / (slo.output_tokens * step);
        let in_time = erlang_cdf(n - running, leave * slo.ttft_s);
        self.tokens_per_s(n) * in_time
    }

    /// The largest number of sequences whose step takes at most twice that of one, while arithmetic
    /// costs nothing: from `W/B + n K/B <= 2 (W/B + K/B)`, `n <= W/K + 2`. Not whole.
    #[must_use]
    pub fn knee(&self) -> f64 {
        self.weights_s / self.kv_s + 2.0
    }
}

/// The chance that `stages` exponential stages of rate 1 take at most `time`:
/// `1 - e^-t (1 + t + ... + t^(k-1)/(k-1)!)`.
fn erlang_cdf(stages: u32, time: f64) -> f64 {
    let mut term = libm::exp(-time);
    let mut sum = 0.0;
    for stage in 0..stages {
        sum += term;
        term *= time / f64::from(stage + 1);
    }
    (1.0 - sum).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_illustrative_shape_is_the_essays() {
        let form = PlainForm::illustrative();
        let times = |n| form.tokens_per_s(n) / form.tokens_per_s(1);
        assert!((times(8) - 5.0).abs() <= 0.5, "{}", times(8));
        assert!((times(32) - 10.0).abs() <= 1.0, "{}", times(32));
        for n in 1..128 {
            assert!(form.tokens_per_s(n) < form.tokens_per_s(n + 1), "{n}");
        }
        for n in 128..512 {
            assert!(form.tokens_per_s(n) <= form.tokens_per_s(128), "{n}");
        }
    }

    #[test]
    fn goodput_falls_beyond_capacity_while_throughput_stays() {
        let form = PlainForm::illustrative();
        let slo = PlainSlo {
            ttft_s: 0.5,
            tpot_s: 0.060,
            output_tokens: 130.0,
        };
        let good = |n| form.good_tokens_per_s(n, &slo);
        for n in 1..=128 {
            assert!((good(n) - form.tokens_per_s(n)).abs() < 1e-9, "{n}");
        }
        for n in 128..300 {
            assert!(good(n + 1) < good(n) || good(n) < 1e-9, "{n}");
        }
        assert!(good(140) < 0.5 * good(128), "{}", good(140));
        assert!(good(300) < 1e-6 * good(128));
        // A tighter bound on TPOT puts the peak well to the left of throughput's.
        let chat = PlainSlo {
            tpot_s: 0.030,
            ..slo
        };
        let peak = (1..=256).max_by(|a, b| {
            let good = |n: &u32| form.good_tokens_per_s(*n, &chat);
            good(a).total_cmp(&good(b))
        });
        assert_eq!(peak, Some(71));
    }

    #[test]
    fn an_erlang_wait_is_exponential_at_one_stage_and_none_at_zero() {
        assert!((erlang_cdf(0, 0.3) - 1.0).abs() < 1e-12);
        assert!((erlang_cdf(1, 0.3) - (1.0 - libm::exp(-0.3))).abs() < 1e-12);
        // The Poisson table: 10 or more events of mean 10 with probability 0.5421.
        assert!((erlang_cdf(10, 10.0) - 0.5421).abs() < 5e-5);
    }

    #[test]
    fn the_knee_is_where_a_step_has_doubled() {
        let form = PlainForm {
            saturation: u32::MAX,
            ..PlainForm::illustrative()
        };
        let knee = form.knee();
        let step = form.weights_s + form.kv_s * knee;
        assert!((step - 2.0 * form.step_s(1)).abs() < 1e-12);
        let grouped = PlainForm {
            kv_s: form.kv_s / 8.0,
            ..form
        };
        assert!((grouped.knee() - 2.0 - 8.0 * (knee - 2.0)).abs() < 1e-9);
    }
}
