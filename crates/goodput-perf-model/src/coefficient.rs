//! The coefficients of a step's time by name: for files, knobs and fits.

use super::StepTime;

/// One coefficient of [`StepTime`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Coefficient {
    /// [`StepTime::overhead_s`].
    Overhead,
    /// [`StepTime::weights_s`].
    Weights,
    /// [`Experts::read_s`](super::Experts::read_s).
    Experts,
    /// [`StepTime::compute_s`].
    Compute,
    /// [`StepTime::sequence_s`].
    Sequence,
    /// [`StepTime::context_s`].
    Context,
    /// [`Window::context_s`](super::Window::context_s).
    Window,
    /// [`StepTime::prefill_s`].
    Prefill,
    /// [`StepTime::pair_s`].
    Pair,
    /// [`StepTime::communication_s`].
    Communication,
    /// [`StepTime::communication_token_s`].
    CommunicationToken,
    /// [`Speculation::draft_s`](super::Speculation::draft_s).
    Draft,
}

impl Coefficient {
    /// All of them, in the order of the formula.
    pub const ALL: [Self; 12] = [
        Self::Overhead,
        Self::Weights,
        Self::Experts,
        Self::Compute,
        Self::Sequence,
        Self::Context,
        Self::Window,
        Self::Prefill,
        Self::Pair,
        Self::Communication,
        Self::CommunicationToken,
        Self::Draft,
    ];

    /// Its name where it stands in seconds: a knob's, and a key in a profile file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Overhead => "overhead_s",
            Self::Weights => "weights_s",
            Self::Experts => "experts_read_s",
            Self::Compute => "compute_s",
            Self::Sequence => "sequence_s",
            Self::Context => "context_s",
            Self::Window => "window_context_s",
            Self::Prefill => "prefill_s",
            Self::Pair => "pair_s",
            Self::Communication => "communication_s",
            Self::CommunicationToken => "communication_token_s",
            Self::Draft => "draft_s",
        }
    }

    /// The coefficient of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|c| c.name() == name)
    }

    /// Its value in seconds. `None`: the model has no such part (no experts, no window, no draft).
    #[must_use]
    pub fn of(self, step: &StepTime) -> Option<f64> {
        let mut step = *step;
        self.place(&mut step).map(|value| *value)
    }

    /// Puts `seconds` in its place; returns whether the model has one.
    pub fn set(self, step: &mut StepTime, seconds: f64) -> bool {
        self.place(step).is_some_and(|value| {
            *value = seconds;
            true
        })
    }

    const fn place(self, step: &mut StepTime) -> Option<&mut f64> {
        match self {
            Self::Overhead => Some(&mut step.overhead_s),
            Self::Weights => Some(&mut step.weights_s),
            Self::Experts => match &mut step.experts {
                Some(experts) => Some(&mut experts.read_s),
                None => None,
            },
            Self::Compute => Some(&mut step.compute_s),
            Self::Sequence => Some(&mut step.sequence_s),
            Self::Context => Some(&mut step.context_s),
            Self::Window => match &mut step.window {
                Some(window) => Some(&mut window.context_s),
                None => None,
            },
            Self::Prefill => Some(&mut step.prefill_s),
            Self::Pair => Some(&mut step.pair_s),
            Self::Communication => Some(&mut step.communication_s),
            Self::CommunicationToken => Some(&mut step.communication_token_s),
            Self::Draft => match &mut step.speculation {
                Some(speculation) => Some(&mut speculation.draft_s),
                None => None,
            },
        }
    }
}

/// What a fit says of one coefficient: the true value lies inside with a probability of 90 %.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CoefficientInterval {
    /// Which one.
    pub coefficient: Coefficient,
    /// The lower end in seconds, 0 or more.
    pub low_s: f64,
    /// The upper end in seconds, not below the lower.
    pub high_s: f64,
}

/// The loads that a fit has seen. Outside them its predictions are extrapolations.
///
/// `None`: not known, as in a profile that was not fitted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FittedOn {
    /// Sequences that decode in one step.
    pub decodes: Option<Extent>,
    /// Tokens of context of one sequence.
    pub context_tokens: Option<Extent>,
    /// Tokens of one prompt.
    pub prompt_tokens: Option<Extent>,
    /// Requests per second.
    pub rate_req_s: Option<Extent>,
}

/// The smallest and the largest value that was seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extent {
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Extent {
    /// Whether `value` was seen or lies between values that were.
    #[must_use]
    pub fn contains(self, value: f64) -> bool {
        self.min <= value && value <= self.max
    }
}
