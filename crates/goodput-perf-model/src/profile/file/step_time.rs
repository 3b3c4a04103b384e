//! The coefficients of a step's time in a profile's file.

use std::num::NonZeroU32;

use goodput_config::{Problem, Spanned, TextError};
use serde::{Deserialize, Serialize};

use crate::{Experts, Speculation, StepTime, Window};

pub(super) const MICRO: f64 = 1e-6;
const NANO: f64 = 1e-9;

/// Every coefficient in a unit that gives readable numbers, or else in seconds; the unit is in the
/// name.
#[derive(Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawStepTime {
    overhead_us: Option<Spanned<f64>>,
    overhead_s: Option<Spanned<f64>>,
    weights_us: Option<Spanned<f64>>,
    weights_s: Option<Spanned<f64>>,
    compute_us_per_token: Option<Spanned<f64>>,
    compute_s: Option<Spanned<f64>>,
    tile_tokens: Option<NonZeroU32>,
    us_per_sequence: Option<Spanned<f64>>,
    sequence_s: Option<Spanned<f64>>,
    ns_per_context_token: Option<Spanned<f64>>,
    context_s: Option<Spanned<f64>>,
    us_per_prefill_token: Option<Spanned<f64>>,
    prefill_s: Option<Spanned<f64>>,
    ns_per_prefill_pair: Option<Spanned<f64>>,
    pair_s: Option<Spanned<f64>>,
    communication_us: Option<Spanned<f64>>,
    communication_s: Option<Spanned<f64>>,
    communication_us_per_token: Option<Spanned<f64>>,
    communication_token_s: Option<Spanned<f64>>,
    experts: Option<RawExperts>,
    window: Option<RawWindow>,
    speculation: Option<RawSpeculation>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawExperts {
    count: NonZeroU32,
    per_token: Spanned<NonZeroU32>,
    read_us: Option<Spanned<f64>>,
    read_s: Option<Spanned<f64>>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawWindow {
    tokens: NonZeroU32,
    ns_per_context_token: Option<Spanned<f64>>,
    context_s: Option<Spanned<f64>>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RawSpeculation {
    draft_tokens: NonZeroU32,
    acceptance: Spanned<f64>,
    draft_us: Option<Spanned<f64>>,
    draft_s: Option<Spanned<f64>>,
}

/// One coefficient as a file has it: readable, or in seconds.
pub(super) type Field<'a> = (&'a Option<Spanned<f64>>, f64, &'a Option<Spanned<f64>>);

pub(super) fn value((readable, unit, seconds): Field<'_>) -> Option<f64> {
    let readable = readable.as_ref().map(|v| v.get_ref() * unit);
    readable.or_else(|| seconds.as_ref().map(|v| *v.get_ref()))
}

/// Both spellings of `seconds`, one of them empty.
pub(super) type Spelt = (Option<Spanned<f64>>, Option<Spanned<f64>>);

/// Digits in the shortest text that reads back to the same bits.
fn digits(value: f64) -> usize {
    let text = format!("{value:e}");
    text.split('e').next().map_or(0, str::len)
}

/// The readable spelling where it reads back to the same bits in no more digits, else the seconds;
/// nothing for 0.
pub(super) fn spell(seconds: f64, unit: f64) -> Spelt {
    if seconds == 0.0 {
        return (None, None);
    }
    spell_all(seconds, unit)
}

fn spell_all(seconds: f64, unit: f64) -> Spelt {
    let near = seconds / unit;
    let below = [near, near.next_down(), near.next_down().next_down()];
    let above = [near.next_up(), near.next_up().next_up()];
    let exact = |v: &f64| (v * unit).to_bits() == seconds.to_bits();
    let found = below.into_iter().chain(above).filter(exact);
    let found = found.min_by_key(|v| digits(*v));
    match found.filter(|v| digits(*v) <= digits(seconds).max(4)) {
        Some(readable) => (Some(Spanned::new(0..0, readable)), None),
        None => (None, Some(Spanned::new(0..0, seconds))),
    }
}

pub(super) fn check_field(
    name: &str,
    (readable, _, seconds): Field<'_>,
    problems: &mut Vec<Problem>,
) {
    if let (Some(_), Some(second)) = (readable, seconds) {
        let error = TextError::new(format!("{name} stands here twice"));
        let error = error.expected("one of its spellings");
        problems.push(error.at(second.span()));
    }
    for value in [readable, seconds].into_iter().flatten() {
        check_number(value, problems);
    }
}

fn check_number(value: &Spanned<f64>, problems: &mut Vec<Problem>) {
    let number = *value.get_ref();
    if !(number.is_finite() && number >= 0.0) {
        let error = TextError::new(format!("a step cannot take {number}"));
        problems.push(error.expected("a number of 0 or more").at(value.span()));
    }
}

impl RawStepTime {
    /// Every coefficient that can stand in a file, by name.
    fn fields(&self) -> [(&'static str, Field<'_>); 9] {
        [
            ("overhead", (&self.overhead_us, MICRO, &self.overhead_s)),
            ("weights", (&self.weights_us, MICRO, &self.weights_s)),
            (
                "compute",
                (&self.compute_us_per_token, MICRO, &self.compute_s),
            ),
            ("sequence", (&self.us_per_sequence, MICRO, &self.sequence_s)),
            (
                "context",
                (&self.ns_per_context_token, NANO, &self.context_s),
            ),
            (
                "prefill",
                (&self.us_per_prefill_token, MICRO, &self.prefill_s),
            ),
            ("pair", (&self.ns_per_prefill_pair, NANO, &self.pair_s)),
            (
                "communication",
                (&self.communication_us, MICRO, &self.communication_s),
            ),
            (
                "communication of a token",
                (
                    &self.communication_us_per_token,
                    MICRO,
                    &self.communication_token_s,
                ),
            ),
        ]
    }

    pub(in crate::profile) fn check(&self, problems: &mut Vec<Problem>) {
        for (name, field) in self.fields() {
            check_field(name, field, problems);
        }
        if let Some(e) = &self.experts {
            check_field("read", (&e.read_us, MICRO, &e.read_s), problems);
            if *e.per_token.get_ref() > e.count {
                let error = TextError::new(format!("there are only {} experts", e.count));
                problems.push(error.expected("at most `count`").at(e.per_token.span()));
            }
        }
        if let Some(w) = &self.window {
            let field = (&w.ns_per_context_token, NANO, &w.context_s);
            check_field("context", field, problems);
        }
        if let Some(s) = &self.speculation {
            check_field("draft", (&s.draft_us, MICRO, &s.draft_s), problems);
            if !(0.0..=1.0).contains(s.acceptance.get_ref()) {
                let fact = format!("{} is no share of a draft", s.acceptance.get_ref());
                let error = TextError::new(fact).expected("a number from 0 to 1");
                problems.push(error.at(s.acceptance.span()));
            }
        }
    }

    /// What a step cannot do without: every engine has an overhead, and reads weights.
    pub(in crate::profile) fn check_required(
        &self,
        span: std::ops::Range<usize>,
        problems: &mut Vec<Problem>,
    ) {
        let experts = self
            .experts
            .as_ref()
            .map(|e| (&e.read_us, MICRO, &e.read_s));
        let window = self.window.as_ref();
        let window = window.map(|w| (&w.ns_per_context_token, NANO, &w.context_s));
        let needed = [
            (
                "overhead_us",
                Some((&self.overhead_us, MICRO, &self.overhead_s)),
            ),
            (
                "weights_us",
                Some((&self.weights_us, MICRO, &self.weights_s)),
            ),
            ("experts.read_us", experts),
            ("window.ns_per_context_token", window),
        ];
        for (name, field) in needed {
            if field.is_some_and(|field| value(field).is_none()) {
                let error = TextError::new(format!("`{name}` is missing"));
                let error = error.expected("a number of 0 or more");
                problems.push(error.at(span.clone()));
            }
        }
    }

    pub(in crate::profile) fn seconds(self) -> StepTime {
        let fields = self.fields().map(|(_, field)| value(field).unwrap_or(0.0));
        let [overhead_s, weights_s, compute_s, sequence_s, context_s, ..] = fields;
        let [
            ..,
            prefill_s,
            pair_s,
            communication_s,
            communication_token_s,
        ] = fields;
        StepTime {
            overhead_s,
            weights_s,
            experts: self.experts.map(|e| Experts {
                count: e.count.get(),
                per_token: e.per_token.get_ref().get(),
                read_s: value((&e.read_us, MICRO, &e.read_s)).unwrap_or(0.0),
            }),
            compute_s,
            tile_tokens: self.tile_tokens.map_or(0, NonZeroU32::get),
            sequence_s,
            context_s,
            window: self.window.map(|w| Window {
                tokens: w.tokens.get(),
                context_s: value((&w.ns_per_context_token, NANO, &w.context_s)).unwrap_or(0.0),
            }),
            prefill_s,
            pair_s,
            communication_s,
            communication_token_s,
            speculation: self.speculation.map(|s| Speculation {
                draft_tokens: s.draft_tokens.get(),
                acceptance: *s.acceptance.get_ref(),
                draft_s: value((&s.draft_us, MICRO, &s.draft_s)).unwrap_or(0.0),
            }),
        }
    }

    pub(in crate::profile) fn of(step: &StepTime) -> Self {
        let mut raw = Self {
            tile_tokens: NonZeroU32::new(step.tile_tokens),
            ..Self::default()
        };
        (raw.overhead_us, raw.overhead_s) = spell_all(step.overhead_s, MICRO);
        (raw.weights_us, raw.weights_s) = spell_all(step.weights_s, MICRO);
        (raw.compute_us_per_token, raw.compute_s) = spell(step.compute_s, MICRO);
        (raw.us_per_sequence, raw.sequence_s) = spell(step.sequence_s, MICRO);
        (raw.ns_per_context_token, raw.context_s) = spell(step.context_s, NANO);
        (raw.us_per_prefill_token, raw.prefill_s) = spell(step.prefill_s, MICRO);
        (raw.ns_per_prefill_pair, raw.pair_s) = spell(step.pair_s, NANO);
        (raw.communication_us, raw.communication_s) = spell(step.communication_s, MICRO);
        (raw.communication_us_per_token, raw.communication_token_s) =
            spell(step.communication_token_s, MICRO);
        raw.experts = step.experts.and_then(RawExperts::of);
        raw.window = step.window.and_then(RawWindow::of);
        raw.speculation = step.speculation.and_then(RawSpeculation::of);
        raw
    }
}

impl RawExperts {
    fn of(experts: Experts) -> Option<Self> {
        let (read_us, read_s) = spell_all(experts.read_s, MICRO);
        Some(Self {
            count: NonZeroU32::new(experts.count)?,
            per_token: Spanned::new(0..0, NonZeroU32::new(experts.per_token)?),
            read_us,
            read_s,
        })
    }
}

impl RawWindow {
    fn of(window: Window) -> Option<Self> {
        let (ns_per_context_token, context_s) = spell_all(window.context_s, NANO);
        Some(Self {
            tokens: NonZeroU32::new(window.tokens)?,
            ns_per_context_token,
            context_s,
        })
    }
}

impl RawSpeculation {
    fn of(speculation: Speculation) -> Option<Self> {
        let (draft_us, draft_s) = spell(speculation.draft_s, MICRO);
        Some(Self {
            draft_tokens: NonZeroU32::new(speculation.draft_tokens)?,
            acceptance: Spanned::new(0..0, speculation.acceptance),
            draft_us,
            draft_s,
        })
    }
}
