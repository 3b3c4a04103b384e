//! The time of one step of a continuously batching engine.

/// What one step works on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Sequences that decode one token each.
    pub decodes: u32,
    /// Tokens of context these read, summed over them, the new token included.
    pub context_tokens: u64,
    /// Prompt tokens computed.
    pub prefill_tokens: u32,
    /// Pairs of (prompt token computed, token it attends to), its own included: a chunk of `u`
    /// tokens after `h` has `u h + u (u + 1) / 2`.
    pub prefill_pairs: u64,
}

impl Batch {
    /// Adds one decoding sequence of `context` tokens.
    pub fn decode(&mut self, context: u32) {
        self.decodes += 1;
        self.context_tokens += u64::from(context);
    }

    /// Adds a chunk of `tokens` prompt tokens behind `before` tokens already in the cache.
    pub fn prefill(&mut self, before: u32, tokens: u32) {
        let (before, chunk) = (u64::from(before), u64::from(tokens));
        self.prefill_tokens += tokens;
        self.prefill_pairs += chunk * before + chunk * (chunk + 1) / 2;
    }

    /// Tokens that go through the model in this step.
    #[must_use]
    pub const fn tokens(&self) -> u32 {
        self.decodes + self.prefill_tokens
    }
}

/// Expert weights of a mixture-of-experts model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Experts {
    /// Routed experts in a layer.
    pub count: u32,
    /// Of these, how many one token is sent to.
    pub per_token: u32,
    /// Seconds to read the weights of all experts of all layers once.
    pub read_s: f64,
}

impl Experts {
    /// Distinct experts of a layer that `tokens` tokens wake under even routing:
    /// `E (1 - (1 - k/E)^tokens)`.
    #[must_use]
    pub fn distinct(&self, tokens: u32) -> f64 {
        let count = f64::from(self.count);
        let asleep = 1.0 - f64::from(self.per_token) / count;
        count * (1.0 - libm::pow(asleep, f64::from(tokens)))
    }

    /// Seconds to read the experts that `tokens` tokens wake.
    #[must_use]
    pub fn read_seconds(&self, tokens: u32) -> f64 {
        self.read_s * self.distinct(tokens) / f64::from(self.count)
    }
}

/// The coefficients of a step's time, in seconds, none negative:
///
/// `T = overhead + max(weights + experts(m), compute m) + sequence n + context S + prefill U +
/// pair Q`, for `n` decoding sequences with `S` tokens of context and `U` prompt tokens with `Q`
/// attention pairs, `m = n + U`.
///
/// It is the weight floor, the roofline of compute, the KV reads by context and the interference
/// of prefill; each can be zero. Fitted to measured kernels the linear part has a median error of
/// 3 to 5 %; a constant KV term in place of `context S` has 13 to 23 %.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepTime {
    /// A step's fixed cost: scheduling, launches, synchronisation.
    pub overhead_s: f64,
    /// Reading all weights that every token needs.
    pub weights_s: f64,
    /// Reading the experts that are woken; `None` for a dense model.
    pub experts: Option<Experts>,
    /// Arithmetic of one token. It hides behind the weight reads until they are outgrown.
    pub compute_s: f64,
    /// One more decoding sequence: sampling, detokenising, its share of the scheduler.
    pub sequence_s: f64,
    /// Reading one token of context.
    pub context_s: f64,
    /// One prompt token, in addition to `compute_s`.
    pub prefill_s: f64,
    /// One attention pair of a prompt.
    pub pair_s: f64,
}

impl StepTime {
    /// Seconds a step on `batch` takes.
    #[must_use]
    pub fn seconds(&self, batch: &Batch) -> f64 {
        let tokens = batch.tokens();
        let experts = self.experts.map_or(0.0, |e| e.read_seconds(tokens));
        let compute = self.compute_s * f64::from(tokens);
        self.overhead_s
            + (self.weights_s + experts).max(compute)
            + self.sequence_s * f64::from(batch.decodes)
            + self.context_s * batch.context_tokens as f64
            + self.prefill_s * f64::from(batch.prefill_tokens)
            + self.pair_s * batch.prefill_pairs as f64
    }

    /// The same replica with every step `factor` times as long.
    #[must_use]
    pub fn slowed(&self, factor: f64) -> Self {
        Self {
            overhead_s: self.overhead_s * factor,
            weights_s: self.weights_s * factor,
            experts: self.experts.map(|e| Experts {
                read_s: e.read_s * factor,
                ..e
            }),
            compute_s: self.compute_s * factor,
            sequence_s: self.sequence_s * factor,
            context_s: self.context_s * factor,
            prefill_s: self.prefill_s * factor,
            pair_s: self.pair_s * factor,
        }
    }
}
