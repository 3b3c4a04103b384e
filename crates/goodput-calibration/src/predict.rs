//! What coefficients say of a load, by means alone: for intervals, where a simulation for each
//! resample would be too much, and for tables of means.

use goodput_perf_model::{Batch, Demand, StepTime};

/// A load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// Users of a closed loop.
    Users(f64),
    /// Arrivals a second of an open loop.
    Rate(f64),
}

/// Means at a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Means {
    /// Time per output token, the first one left out, in seconds.
    pub tpot_s: f64,
    /// Time to first token in seconds. Where slots bind, of a closed loop, it holds the wait for one;
    /// queues that only chance makes are not in it.
    pub ttft_s: f64,
    /// Sequences that decode.
    pub decodes: f64,
    /// Requests a second.
    pub requests_s: f64,
}

/// A replica as far as means go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Replica {
    /// Its step time.
    pub step: StepTime,
    /// The way in, part of every TTFT.
    pub ingest_s: f64,
    /// Most sequences that decode at once, by slots or KV; infinite where nothing binds.
    pub slots: f64,
}

impl Replica {
    /// Means at a load, by Little's law on the decoding sequences and on the prompts a step computes
    /// beside them. `None` for an open loop beyond what the replica can do.
    #[must_use]
    pub fn means(&self, demand: &Demand, load: Load) -> Option<Means> {
        match load {
            Load::Users(users) => Some(self.closed(demand, users)),
            Load::Rate(rate) => self.open(demand, rate),
        }
    }

    /// Most users of a closed loop whose mean TPOT and TTFT keep these bounds: where goodput peaks, as
    /// far as means tell. `None`: one user alone does not; no more than 65,536 are looked at.
    #[must_use]
    pub fn users_within(&self, demand: &Demand, tpot_s: f64, ttft_s: f64) -> Option<f64> {
        let keeps = |users: f64| {
            let means = self.closed(demand, users);
            means.tpot_s <= tpot_s && means.ttft_s <= ttft_s
        };
        let (mut low, mut high) = (1.0, 65_536.0);
        if !keeps(low) {
            return None;
        }
        while high - low > 1.0 {
            let middle = f64::midpoint(low, high).floor();
            if keeps(middle) {
                low = middle;
            } else {
                high = middle;
            }
        }
        Some(low)
    }

    /// The mean step with `decodes` sequences, `prompts` of which were just admitted in each step.
    fn step_s(&self, demand: &Demand, decodes: f64, prompts: f64) -> f64 {
        let wide = prompts.min(1.0);
        let in_wide = if wide > 0.0 { prompts / wide } else { 0.0 };
        let low = decodes.floor();
        let rest = decodes - low;
        let at = |n: f64| {
            let plain = self.seconds(demand, n, 0.0);
            (1.0 - wide) * plain + wide * self.seconds(demand, n, in_wide)
        };
        at(low) * (1.0 - rest) + at(low + 1.0) * rest
    }

    fn seconds(&self, demand: &Demand, decodes: f64, prompts: f64) -> f64 {
        let context = decodes * demand.context_tokens;
        self.step.seconds(&Batch {
            decodes: goodput_stats::whole_u32(decodes),
            context_tokens: goodput_stats::whole_u64(context),
            window_tokens: goodput_stats::whole_u64(
                decodes
                    * demand
                        .context_tokens
                        .min(f64::from(self.step.window_tokens())),
            ),
            prefill_tokens: goodput_stats::whole_u32(prompts * demand.prefill_tokens),
            prefill_pairs: goodput_stats::whole_u64(prompts * demand.prefill_pairs),
        })
    }

    /// A first token without a queue: the rest of the step under way, and the step of its prompt.
    fn ttft_s(&self, demand: &Demand, step_s: f64, decodes: f64) -> f64 {
        let rest = if decodes >= 1.0 { step_s / 2.0 } else { 0.0 };
        self.ingest_s + rest + self.seconds(demand, decodes.floor(), 1.0)
    }

    fn closed(&self, demand: &Demand, users: f64) -> Means {
        let gaps = (demand.output_tokens - 1.0).max(0.0);
        // The balance is where the users implied by a number of decoding sequences are as many as
        // there are. A token sees itself and, of the others, what it would see with one user less.
        let others = 1.0 - 1.0 / users.max(1.0);
        let implied = |decodes: f64| {
            let prompts = others * decodes / gaps.max(1.0);
            let step_s = self.step_s(demand, 1.0 + others * decodes, prompts);
            let ttft_s = self.ttft_s(demand, step_s, others * decodes);
            (
                decodes * (1.0 + ttft_s / (gaps * step_s).max(1e-12)),
                step_s,
            )
        };
        let most = users.min(self.slots);
        let (mut low, mut high) = (0.0, most);
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            if implied(middle).0 < users {
                low = middle;
            } else {
                high = middle;
            }
        }
        let decodes = f64::midpoint(low, high);
        let (_, step_s) = implied(decodes);
        let requests_s = decodes / (gaps * step_s).max(1e-12);
        Means {
            tpot_s: step_s,
            ttft_s: users / requests_s - gaps * step_s,
            decodes,
            requests_s,
        }
    }

    fn open(&self, demand: &Demand, rate: f64) -> Option<Means> {
        let gaps = (demand.output_tokens - 1.0).max(0.0);
        // While a token comes, which takes `t`, there are `rate gaps t` other sequences and `rate t`
        // prompts. The fixed point is reached from below, so that it is the smallest one.
        let mut t = self.step_s(demand, 1.0, 0.0);
        for _ in 0..10_000 {
            let next = self.step_s(demand, 1.0 + rate * gaps * t, rate * t);
            if rate * gaps * next > self.slots || !next.is_finite() || next > 1e4 {
                return None;
            }
            if (next - t).abs() <= 1e-9 * next {
                return Some(Means {
                    tpot_s: next,
                    ttft_s: self.ttft_s(demand, next, rate * gaps * next),
                    decodes: rate * gaps * next,
                    requests_s: rate,
                });
            }
            t = next;
        }
        None
    }
}
