//! What a replica does on average under a load: a fixed point of its mean batch.
//!
//! In the mean every step decodes `n` sequences and computes `U` prompt tokens, and its time `T`
//! decides how many sequences are there: by Little's law `n = rate E[l] T / g` for `g` tokens a
//! sequence and step, and `U = rate T E[p]`. Below the limits on sequences, memory and tokens
//! continuous batching is processor sharing whose speed depends on its occupancy, and that is
//! insensitive to the lengths' distribution beyond its mean (J. W. Cohen, "The multiple phase service
//! network with generalized processor sharing", 1979). So means come out right; percentiles need the
//! simulator.
//!
//! Where nothing but the linear terms counts, the fixed point is [`StepTime::tpot_at`].

use std::time::Duration;

use goodput_record::span_of;

use crate::{Batch, Demand, Profile, StepTime};

/// What runs out first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Steps grow faster than they work off: compute or memory bandwidth.
    Steps,
    /// Sequences in a batch ([`Profile::max_num_seqs`]).
    Sequences,
    /// Blocks of the KV cache.
    KvCache,
    /// Tokens in a step ([`Profile::max_batched_tokens`]).
    StepTokens,
}

/// The mean step of a replica under a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeanField {
    /// Seconds of a step.
    pub step_s: f64,
    /// Seconds per output token: a step over the tokens a sequence gains in it.
    pub tpot_s: f64,
    /// Sequences that decode.
    pub decodes: f64,
    /// Prompt tokens computed in a step.
    pub prefill_tokens: f64,
    /// Requests per second.
    pub rate_req_s: f64,
    /// Tokens of context the decoding sequences have in the KV cache together.
    pub kv_tokens: f64,
    /// Requests that wait for a place, in a closed loop; 0 in an open one, which has no steady state
    /// once requests must wait on average.
    pub waiting: f64,
}

/// The highest rate a replica keeps up with, and why it is that.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Capacity {
    /// Requests per second.
    pub rate_req_s: f64,
    /// What runs out above it.
    pub limit: Limit,
}

impl StepTime {
    /// Seconds of a mean step: `decodes` sequences with `context` tokens each, `prefill` prompt
    /// tokens with `pairs` attention pairs.
    ///
    /// Sequences in a step vary, so a mean of them takes half a tile more, and one tile at least.
    #[must_use]
    pub fn mean_seconds(&self, decodes: f64, context: f64, prefill: f64, pairs: f64) -> f64 {
        let decoded = decodes * f64::from(self.tokens_per_decode());
        let tokens = decoded + prefill;
        let tile = f64::from(self.tile_tokens.max(1));
        let tiled = if self.tile_tokens > 1 {
            tile.max(decoded + tile / 2.0)
        } else {
            decoded
        };
        let experts = self.experts.map_or(0.0, |e| {
            e.read_s * e.distinct_of(tokens) / f64::from(e.count)
        });
        let window = self.window.map_or(0.0, |w| {
            w.context_s * decodes * context.min(f64::from(w.tokens))
        });
        let draft = self.speculation.map_or(0.0, |s| {
            s.draft_s * f64::from(s.draft_tokens) * decodes.min(1.0)
        });
        self.overhead_s
            + self.communication_s
            + draft
            + (self.weights_s + experts).max(self.compute_s * tiled)
            + self.communication_token_s * tokens
            + self.sequence_s * decodes
            + self.context_s * decodes * context
            + window
            + self.prefill_s * prefill
            + self.pair_s * pairs
    }

    /// The knee: the largest number of sequences, each with `context` tokens, whose step takes at
    /// most twice that of one. `None`: a step takes no time, or never twice as long.
    #[must_use]
    pub fn knee(&self, context: u32) -> Option<u32> {
        const MOST: u32 = 1 << 20;
        let at = |n: u32| {
            self.seconds(&Batch {
                decodes: n,
                context_tokens: u64::from(n) * u64::from(context),
                window_tokens: u64::from(n) * u64::from(context.min(self.window_tokens())),
                ..Batch::default()
            })
        };
        let bound = 2.0 * at(1);
        (bound > 0.0 && at(MOST) > bound).then(|| last_true(1, MOST, |n| at(n) <= bound))
    }

    /// The token budget rule: the most prompt tokens a step may compute, behind `before` tokens of
    /// the same prompt, so that `decodes` sequences of `context` tokens each still get their next
    /// token within `bound`. It is `(bound - a - b n - k S) / c_p` where prompt tokens are linear.
    /// `None`: the step is too long without any.
    #[must_use]
    pub fn prefill_within(
        &self,
        decodes: u32,
        context: u32,
        before: u32,
        bound: Duration,
    ) -> Option<u32> {
        const MOST: u32 = 1 << 24;
        let fits = |tokens: u32| {
            let each = u64::from(decodes);
            let mut batch = Batch {
                decodes,
                context_tokens: each * u64::from(context),
                window_tokens: each * u64::from(context.min(self.window_tokens())),
                ..Batch::default()
            };
            batch.prefill(before, tokens);
            self.seconds(&batch) <= bound.as_secs_f64()
        };
        fits(0).then(|| last_true(0, MOST, fits))
    }
}

/// The last of `from..=to` for which `holds` is true; true at `from` and false from some point on.
fn last_true(from: u32, to: u32, holds: impl Fn(u32) -> bool) -> u32 {
    let (mut yes, mut no) = (from, to.saturating_add(1));
    while no - yes > 1 {
        let middle = yes + (no - yes) / 2;
        if holds(middle) {
            yes = middle;
        } else {
            no = middle;
        }
    }
    yes
}

impl Profile {
    /// Sequences of the mean request that the KV cache holds at once: each has its context, the
    /// room for a draft, and on average half a block that is not full.
    #[must_use]
    pub fn kv_sequences(&self, demand: &Demand) -> f64 {
        let draft = f64::from(self.step_time.tokens_per_decode() - 1);
        let held = demand.context_tokens + draft + f64::from(self.block_tokens.get()) / 2.0;
        self.kv_tokens() as f64 / held
    }

    /// The mean step where requests come at `rate` a second, however the engine is fed.
    ///
    /// An error names what runs out: then queues grow without end and there is no mean. Prompts are
    /// taken to be spread evenly over steps; where `max(reads, compute)` bends between a step with
    /// and one without a prompt the mean is a little longer.
    pub fn mean_field(&self, demand: &Demand, rate: f64) -> Result<MeanField, Limit> {
        let found = first_fixed_point(|step_s| {
            let decodes = self.decodes(demand, rate, step_s);
            self.loaded(demand, decodes, rate * step_s)
        });
        let step_s = found.ok_or(Limit::Steps)?;
        let decodes = self.decodes(demand, rate, step_s);
        let field = self.field(demand, decodes, step_s, rate, 0.0);
        let step_tokens = decodes * f64::from(self.step_time.tokens_per_decode());
        if decodes > f64::from(self.max_num_seqs.get()) {
            Err(Limit::Sequences)
        } else if decodes > self.kv_sequences(demand) {
            Err(Limit::KvCache)
        } else if step_tokens + field.prefill_tokens > f64::from(self.max_batched_tokens.get()) {
            Err(Limit::StepTokens)
        } else {
            Ok(field)
        }
    }

    /// The mean step with `concurrency` requests in flight in a closed loop: the next is sent when
    /// one is answered.
    ///
    /// Each step carries the prompts of those that take the places of the finished, `n g / E[l]` of
    /// them. What neither sequences nor KV cache have room for waits.
    #[must_use]
    pub fn closed_loop(&self, demand: &Demand, concurrency: f64) -> MeanField {
        let gain = self.step_time.output_per_decode();
        let room = f64::from(self.max_num_seqs.get()).min(self.kv_sequences(demand));
        let placed = concurrency.min(room);
        // A request is in its prompt for so many steps, and in its answer for E[l] / g.
        let budget = f64::from(self.max_batched_tokens.get()) - placed;
        let chunks = (demand.prefill_tokens / budget.max(1.0)).max(1.0);
        let decodes = placed / (1.0 + gain * chunks / demand.output_tokens);
        let joins = decodes * gain / demand.output_tokens;
        let step_s = self.loaded(demand, decodes, joins);
        let rate = joins / step_s;
        self.field(demand, decodes, step_s, rate, concurrency - placed)
    }

    /// The highest rate with a mean step, to a thousandth. `None` if no rate has one, or all have.
    #[must_use]
    pub fn capacity(&self, demand: &Demand) -> Option<Capacity> {
        let mut good = 1e-6;
        self.mean_field(demand, good).ok()?;
        let mut bad = 1e9;
        let mut limit = self.mean_field(demand, bad).err()?;
        while bad / good > 1.001 {
            let middle = libm::sqrt(good * bad);
            match self.mean_field(demand, middle) {
                Ok(_) => good = middle,
                Err(found) => (bad, limit) = (middle, found),
            }
        }
        Some(Capacity {
            rate_req_s: good,
            limit,
        })
    }

    /// The highest rate whose mean time per output token is within `bound`, to a thousandth; a mean:
    /// fewer than all requests keep it there. `None` if one request alone does not.
    #[must_use]
    pub fn mean_rate_within(&self, demand: &Demand, bound: Duration) -> Option<f64> {
        let bound = bound.as_secs_f64();
        let keeps = |rate| {
            self.mean_field(demand, rate)
                .is_ok_and(|field| field.tpot_s <= bound)
        };
        let (mut good, mut bad) = (1e-6, 1e9);
        if !keeps(good) {
            return None;
        }
        while bad / good > 1.001 {
            let middle = libm::sqrt(good * bad);
            if keeps(middle) {
                good = middle;
            } else {
                bad = middle;
            }
        }
        Some(good)
    }

    /// The mean time to the first token of a prompt of `tokens` while no request waits for a place:
    /// the way in, the rest of the step under way, the prompts that came in that step and share the
    /// next one, and the prompt's own steps beside the mean batch.
    ///
    /// A step is under way with the chance that anyone is there (`1 - e^-n`, as the number present
    /// is Poisson in processor sharing at light load). Long steps are met more often, so `E[T^2] /
    /// (2 E[T])` of it is left. Prompts that must wait because a step's tokens are spent are not
    /// counted: near saturation the truth is longer. `None` where there is no mean step.
    #[must_use]
    pub fn ttft_at(&self, demand: &Demand, rate: f64, tokens: u32) -> Option<Duration> {
        let field = self.mean_field(demand, rate).ok()?;
        let step = &self.step_time;
        let present = field.decodes + field.rate_req_s * field.step_s;
        let busy = 1.0 - libm::exp(-present);
        let met = busy * self.met_step_s(demand, &field);
        let left = f64::from(self.max_batched_tokens.get())
            - field.decodes * f64::from(step.tokens_per_decode());
        let budget = left.max(1.0);
        let (mut sum, mut before) = (0.0, 0.0);
        let tokens = f64::from(tokens);
        while before < tokens {
            let chunk = (tokens - before).min(budget);
            let pairs = chunk * before + chunk * (chunk + 1.0) / 2.0;
            sum += step.mean_seconds(field.decodes, demand.context_tokens, chunk, pairs);
            before += chunk;
        }
        let others = rate * met * self.prompt_s(demand);
        Some(span_of(self.ingest_s + met / 2.0 + others + sum))
    }

    /// Seconds that the mean prompt adds to a step, if experts are awake anyway.
    fn prompt_s(&self, demand: &Demand) -> f64 {
        let step = &self.step_time;
        (step.prefill_s + step.communication_token_s) * demand.prefill_tokens
            + step.pair_s * demand.prefill_pairs
    }

    /// Mean length in seconds of the step that someone meets who comes at any time: `E[T^2] / E[T]`.
    /// Its variance is that of a Poisson number of prompts, each as long as its length.
    fn met_step_s(&self, demand: &Demand, field: &MeanField) -> f64 {
        let mean = demand.prefill_tokens;
        // prefill_pairs are E[p (p + 1) / 2].
        let squared = (2.0 * demand.prefill_pairs - mean).max(mean * mean);
        let spread = if mean > 0.0 {
            squared / (mean * mean)
        } else {
            1.0
        };
        let prompt = self.prompt_s(demand);
        let joins = field.rate_req_s * field.step_s;
        field.step_s + joins * prompt * prompt * spread / field.step_s
    }

    /// Sequences that decode by Little's law, where a step takes `step_s`.
    fn decodes(&self, demand: &Demand, rate: f64, step_s: f64) -> f64 {
        rate * demand.output_tokens * step_s / self.step_time.output_per_decode()
    }

    /// Seconds of the mean step in which `decodes` sequences decode and `joins` requests' prompts are
    /// computed. Joins are Poisson, so that many steps have none: their mean is not the step of the
    /// mean where a prompt wakes all experts and a few decoding sequences wake some.
    fn loaded(&self, demand: &Demand, decodes: f64, joins: f64) -> f64 {
        let with = |joins: f64| {
            self.step_time.mean_seconds(
                decodes,
                demand.context_tokens,
                joins * demand.prefill_tokens,
                joins * demand.prefill_pairs,
            )
        };
        let none = libm::exp(-joins);
        let some = -libm::expm1(-joins);
        if some == 0.0 {
            return with(0.0);
        }
        none * with(0.0) + some * with(joins / some)
    }

    fn field(
        &self,
        demand: &Demand,
        decodes: f64,
        step_s: f64,
        rate: f64,
        waiting: f64,
    ) -> MeanField {
        MeanField {
            step_s,
            tpot_s: step_s / self.step_time.output_per_decode(),
            decodes,
            prefill_tokens: rate * step_s * demand.prefill_tokens,
            rate_req_s: rate,
            kv_tokens: decodes * demand.context_tokens,
            waiting,
        }
    }
}

/// The smallest `t` with `next(t) = t`, for a rising `next`; `None` if it stays above. Searched
/// in steps of 2 % up to a thousand times the shortest step, then halved: `next` may cross more
/// than once (memory-bound, then compute-bound), and the first crossing is the stable one.
fn first_fixed_point(next: impl Fn(f64) -> f64) -> Option<f64> {
    let shortest = next(0.0);
    let (mut low, mut high) = (0.0, shortest);
    if shortest == 0.0 {
        return (next(1.0) < 1.0).then_some(0.0);
    }
    while next(high) > high {
        if high > 1000.0 * shortest {
            return None;
        }
        (low, high) = (high, high * 1.02);
    }
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if next(middle) > middle {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(high)
}

#[cfg(test)]
mod published;
#[cfg(test)]
mod tests;
