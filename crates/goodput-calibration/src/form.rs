//! The form of a step's time as columns of a regression.

use goodput_perf_model::{Experts, StepTime};

use crate::sample::StepSample;

/// A coefficient that is estimated, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Term {
    /// A step's fixed cost and its reading of the weights: no step time tells the two apart.
    Step,
    /// Arithmetic of one decoding token, beyond the knee.
    Compute,
    /// Reading the experts of all layers once.
    Experts,
    /// One more decoding sequence.
    Sequence,
    /// Reading one token of context.
    Context,
    /// One prompt token.
    Prefill,
    /// One attention pair of a prompt.
    Pair,
    /// The way in: from the client's send until the engine sees the request, and the first token's
    /// way back.
    Ingest,
}

impl Term {
    /// Its name in a profile's file, without the unit.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Compute => "compute",
            Self::Experts => "experts",
            Self::Sequence => "sequence",
            Self::Context => "context",
            Self::Prefill => "prefill",
            Self::Pair => "pair",
            Self::Ingest => "ingest",
        }
    }

    /// What it is, in a few words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Step => "one step, weight reads included",
            Self::Compute => "arithmetic of one token, past the knee",
            Self::Experts => "reading all experts once",
            Self::Sequence => "one more decoding sequence",
            Self::Context => "reading one token of context",
            Self::Prefill => "one prompt token",
            Self::Pair => "one attention pair of a prompt",
            Self::Ingest => "the way in, from the send",
        }
    }
}

/// How many experts a layer has, and how many of them a token is sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Routing {
    /// Routed experts in a layer.
    pub count: u32,
    /// Of these, how many one token is sent to.
    pub per_token: u32,
}

/// Which terms a step's time has.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Form {
    /// Decoding tokens in a step from which on arithmetic outgrows the weight reads. `None`: no knee.
    pub knee_tokens: Option<f64>,
    /// Arithmetic is done for whole tiles of so many tokens; 0 or 1: no stairs. It says something
    /// only where there is a knee.
    pub tile_tokens: u32,
    /// A mixture of experts.
    pub routing: Option<Routing>,
}

impl Form {
    /// The coefficients, in the order of [`Form::row`].
    #[must_use]
    pub fn coefficients(&self) -> Vec<Term> {
        let mut all = vec![Term::Step];
        if self.knee_tokens.is_some() {
            all.push(Term::Compute);
        }
        if self.routing.is_some() {
            all.push(Term::Experts);
        }
        all.extend([
            Term::Sequence,
            Term::Context,
            Term::Prefill,
            Term::Pair,
            Term::Ingest,
        ]);
        all
    }

    /// What each coefficient is multiplied with in a sample.
    #[must_use]
    pub fn row(&self, sample: &StepSample) -> Vec<f64> {
        let mut row = vec![sample.steps];
        if let Some(knee) = self.knee_tokens {
            // Only what decodes hides behind the weight reads: a prompt's arithmetic is its own term.
            row.push(sample.steps * self.tiled(sample.batch()).max(knee));
        }
        if let Some(routing) = self.routing {
            let asleep = 1.0 - f64::from(routing.per_token) / f64::from(routing.count);
            row.push(sample.over_steps(|tokens| 1.0 - libm::pow(asleep, tokens)));
        }
        row.extend([
            sample.decodes,
            sample.context,
            sample.prefill,
            sample.pairs,
            f64::from(u8::from(sample.from_send)),
        ]);
        row
    }

    fn tiled(&self, tokens: f64) -> f64 {
        let tile = f64::from(self.tile_tokens.max(1));
        if tile <= 1.0 {
            return tokens;
        }
        (tokens / tile).ceil() * tile
    }

    /// The coefficients as a step time. `floor_s` is the time in which the weights can be read, where
    /// it is known: it splits the fixed part in two, which changes no prediction.
    #[must_use]
    pub fn step_time(&self, theta: &[f64], floor_s: Option<f64>) -> StepTime {
        let of = |wanted: Term| {
            let place = self.coefficients().iter().position(|c| *c == wanted);
            place.and_then(|i| theta.get(i).copied()).unwrap_or(0.0)
        };
        let fixed = of(Term::Step);
        let compute_s = of(Term::Compute);
        let hidden = self.knee_tokens.map_or(0.0, |knee| knee * compute_s);
        // Behind a knee the weight reads are what arithmetic outgrows. Without one they are as told.
        let (overhead_s, weights_s) = if hidden > 0.0 {
            (fixed, hidden)
        } else {
            let weights = floor_s.unwrap_or(0.0).min(fixed);
            (fixed - weights, weights)
        };
        StepTime {
            overhead_s,
            weights_s,
            experts: self.routing.map(|r| Experts {
                count: r.count,
                per_token: r.per_token,
                read_s: of(Term::Experts),
            }),
            compute_s,
            tile_tokens: self.tile_tokens,
            sequence_s: of(Term::Sequence),
            context_s: of(Term::Context),
            prefill_s: of(Term::Prefill),
            pair_s: of(Term::Pair),
            ..StepTime::default()
        }
    }

    /// The coefficients of a step time in this form; terms it has no column for are left out.
    #[must_use]
    pub fn theta(&self, time: &StepTime, ingest_s: f64) -> Vec<f64> {
        let hidden = self.knee_tokens.map_or(0.0, |knee| knee * time.compute_s);
        let of = |coefficient| match coefficient {
            Term::Step => {
                time.overhead_s + time.communication_s + (time.weights_s - hidden).max(0.0)
            }
            Term::Compute => time.compute_s,
            Term::Experts => time.experts.map_or(0.0, |e| e.read_s),
            Term::Sequence => time.sequence_s + time.communication_token_s,
            Term::Context => time.context_s,
            Term::Prefill => time.prefill_s + time.communication_token_s,
            Term::Pair => time.pair_s,
            Term::Ingest => ingest_s,
        };
        self.coefficients().into_iter().map(of).collect()
    }
}
