//! The time of one step of a continuously batching engine.

use super::batch::Batch;

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
        self.distinct_of(f64::from(tokens))
    }

    /// The same for a mean number of tokens, which need not be whole.
    pub(crate) fn distinct_of(&self, tokens: f64) -> f64 {
        let count = f64::from(self.count);
        let asleep = 1.0 - f64::from(self.per_token) / count;
        count * (1.0 - libm::pow(asleep, tokens))
    }

    /// Seconds to read the experts that `tokens` tokens wake.
    #[must_use]
    pub fn read_seconds(&self, tokens: u32) -> f64 {
        self.read_s * self.distinct(tokens) / f64::from(self.count)
    }
}

/// Layers with a sliding window, beside those that read the whole context.
///
/// Only decoding is told apart. A prompt's pairs in such layers grow by at most `tokens` for each
/// of its tokens, so they belong to [`StepTime::prefill_s`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Tokens of context these layers look back on, the new one included.
    pub tokens: u32,
    /// Seconds to read one token of context in these layers.
    pub context_s: f64,
}

/// Speculative decoding: a draft of a few tokens is verified in one step.
///
/// What is here is the expectation. How many tokens of a draft are taken in a given step is drawn
/// by the engine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speculation {
    /// Tokens drafted for each sequence in a step, `K`. A sequence needs room in the KV cache for
    /// as many tokens ahead of its own, and takes `K + 1` tokens of a step's budget.
    pub draft_tokens: u32,
    /// The chance that a drafted token is right, given that all before it were, 0 to 1.
    pub acceptance: f64,
    /// Seconds to draft one token for all sequences: a pass of the draft model. A step that decodes
    /// has `K` of these.
    pub draft_s: f64,
}

impl Speculation {
    /// Tokens one sequence gains in a step, on average: `1 + a + a^2 + ... + a^K`, the draft's
    /// accepted tokens and the one that the verification itself gives (Leviathan, Kalman, Matias,
    /// "Fast Inference from Transformers via Speculative Decoding", 2023, eq. 1).
    #[must_use]
    pub fn tokens_per_step(&self) -> f64 {
        let mut sum = 1.0;
        let mut power = 1.0;
        for _ in 0..self.draft_tokens {
            power *= self.acceptance;
            sum += power;
        }
        sum
    }
}

/// The coefficients of a step's time, in seconds, none negative:
///
/// `T = fixed(n, U, Q) + context S + window.context S_w`, with
///
/// `fixed = overhead + communication + K draft + max(weights + experts(m), compute tiles(d)) +
/// communication_token m + sequence n + prefill U + pair Q`
///
/// for `n` decoding sequences with `S` tokens of context (`S_w` of them inside the window), `U`
/// prompt tokens with `Q` attention pairs, `d = n (K + 1)` tokens that decode, `K` of a sequence's
/// being a draft, and `m = d + U` tokens through the model. `tiles(d)` is `d` rounded up to whole
/// tiles.
///
/// The arithmetic of a prompt is added and does not hide behind the weight reads, as that of decoding
/// does: under the maximum, published open loops of Llama-3.1-8B come out 16 to 40 % too quick, so
/// 0 to 10 %.
///
/// It is the weight floor, the roofline of compute with its stairs, the KV reads by context and the
/// interference of prefill; each can be zero. For a batch that stays the same the time is affine in
/// its contexts, which lets a simulator add many steps in one formula.
///
/// Fitted to measured kernels the linear part has a median error of 3 to 5 %; a constant KV term in
/// place of `context S` has 13 to 23 %.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepTime {
    /// A step's fixed cost: scheduling, launches, synchronisation.
    pub overhead_s: f64,
    /// Reading all weights that every token needs.
    pub weights_s: f64,
    /// Reading the experts that are woken; `None` for a dense model.
    pub experts: Option<Experts>,
    /// Arithmetic of one token that decodes. It hides behind the weight reads until these are outgrown.
    pub compute_s: f64,
    /// Arithmetic is done for whole tiles of so many tokens; 0 or 1: no stairs.
    pub tile_tokens: u32,
    /// One more decoding sequence: sampling, detokenising, its share of the scheduler.
    pub sequence_s: f64,
    /// Reading one token of context, in the layers that read all of it.
    pub context_s: f64,
    /// Layers with a sliding window; `None` where there are none.
    pub window: Option<Window>,
    /// One prompt token: its arithmetic, in full.
    pub prefill_s: f64,
    /// One attention pair of a prompt.
    pub pair_s: f64,
    /// What a step waits for its devices to hear from each other, whatever it works on: under
    /// tensor parallelism two all-reduces a layer.
    pub communication_s: f64,
    /// One token's bytes between the devices.
    pub communication_token_s: f64,
    /// Speculative decoding; `None`: every step gives a sequence one token.
    pub speculation: Option<Speculation>,
}

impl StepTime {
    /// Seconds a step on `batch` takes.
    #[must_use]
    pub fn seconds(&self, batch: &Batch) -> f64 {
        let window = self.window.map_or(0.0, |w| w.context_s);
        self.fixed_seconds(batch)
            + self.context_s * batch.context_tokens as f64
            + window * batch.window_tokens as f64
    }

    /// All of [`Self::seconds`] but the reads of context: the same bits for the same decodes, prompt
    /// tokens and pairs, whatever the contexts are.
    #[must_use]
    pub fn fixed_seconds(&self, batch: &Batch) -> f64 {
        let tokens = self.model_tokens(batch);
        let experts = self.experts.map_or(0.0, |e| e.read_seconds(tokens));
        let decoded = batch.decodes.saturating_mul(self.tokens_per_decode());
        let compute = self.compute_s * f64::from(self.tiled(decoded));
        let draft = if batch.decodes == 0 {
            0.0
        } else {
            self.speculation
                .map_or(0.0, |s| s.draft_s * f64::from(s.draft_tokens))
        };
        self.overhead_s
            + (self.weights_s + experts).max(compute)
            + self.sequence_s * f64::from(batch.decodes)
            + self.prefill_s * f64::from(batch.prefill_tokens)
            + self.pair_s * batch.prefill_pairs as f64
            + self.communication_s
            + self.communication_token_s * f64::from(tokens)
            + draft
    }

    /// Tokens of context that layers with a window look back on, [`u32::MAX`] where there are none:
    /// what [`Batch::decode`] asks for.
    #[must_use]
    pub fn window_tokens(&self) -> u32 {
        self.window.map_or(u32::MAX, |w| w.tokens)
    }

    /// Tokens a decoding sequence takes of a step's budget: one, and its draft.
    #[must_use]
    pub fn tokens_per_decode(&self) -> u32 {
        self.speculation
            .map_or(1, |s| s.draft_tokens.saturating_add(1))
    }

    /// Output tokens a decoding sequence gains in a step, on average.
    #[must_use]
    pub fn output_per_decode(&self) -> f64 {
        self.speculation.map_or(1.0, |s| s.tokens_per_step())
    }

    /// Tokens that go through the model in a step on `batch`, drafts included.
    #[must_use]
    pub fn model_tokens(&self, batch: &Batch) -> u32 {
        let decodes = batch.decodes.saturating_mul(self.tokens_per_decode());
        decodes.saturating_add(batch.prefill_tokens)
    }

    /// `tokens` rounded up to whole tiles.
    fn tiled(&self, tokens: u32) -> u32 {
        let tile = self.tile_tokens.max(1);
        tokens.div_ceil(tile).saturating_mul(tile)
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
            tile_tokens: self.tile_tokens,
            sequence_s: self.sequence_s * factor,
            context_s: self.context_s * factor,
            window: self.window.map(|w| Window {
                context_s: w.context_s * factor,
                ..w
            }),
            prefill_s: self.prefill_s * factor,
            pair_s: self.pair_s * factor,
            communication_s: self.communication_s * factor,
            communication_token_s: self.communication_token_s * factor,
            speculation: self.speculation.map(|s| Speculation {
                draft_s: s.draft_s * factor,
                ..s
            }),
        }
    }
}
