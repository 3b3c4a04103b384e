//! The engine's own time: whole numbers, fine enough that a stretch of many steps ends where the
//! steps one by one would.

use goodput_record::Timestamp;

/// Parts of a nanosecond.
const BITS: u32 = 20;

/// A span in 2^-20 ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Span(pub(super) u64);

impl Span {
    /// The nearest span to so many seconds; negative and undefined ones are none, and the longest is
    /// some four hours.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast to a whole number is clamped to its range"
    )]
    #[inline]
    pub(super) fn of_seconds(seconds: f64) -> Self {
        const UNITS: f64 = 1e9 * (1_u64 << BITS) as f64;
        // To the nearest whole number: what lies beyond these has no fraction.
        const WHOLE: f64 = (1_u64 << 52) as f64;
        let units = seconds * UNITS;
        if units < WHOLE {
            return Self((units + WHOLE - WHOLE) as u64);
        }
        Self(units as u64)
    }

    /// In whole nanoseconds.
    pub(super) const fn nanos(self) -> u64 {
        self.0 >> BITS
    }

    /// Whole nanoseconds of a sum of spans.
    #[expect(clippy::cast_possible_truncation, reason = "584 years of nanoseconds")]
    pub(super) const fn nanos_of(sum: u128) -> u64 {
        (sum >> BITS) as u64
    }

    /// At least a nanosecond: time always moves, whatever the coefficients.
    pub(super) fn at_least_one(self) -> Self {
        Self(self.0.max(1 << BITS))
    }
}

/// An instant in 2^-20 ns since the epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Fine(u128);

impl Fine {
    pub(super) const fn of(at: Timestamp) -> Self {
        Self((at.nanos() as u128) << BITS)
    }

    /// So much later.
    pub(super) const fn after(self, span: Span) -> Self {
        Self(self.0 + span.0 as u128)
    }

    /// From an earlier instant to this one.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "clamped to the range first"
    )]
    #[inline]
    pub(super) fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0).min(u128::from(u64::MAX)) as u64)
    }

    /// The nanosecond it lies in.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "an instant beyond the range of timestamps is clamped to the last"
    )]
    pub(super) const fn timestamp(self) -> Timestamp {
        let nanos = self.0 >> BITS;
        if nanos > u64::MAX as u128 {
            return Timestamp::FAR_FUTURE;
        }
        Timestamp::from_nanos(nanos as u64)
    }
}

/// Steps of which each takes `growth` longer than the one before: a batch that only decodes, whose
/// contexts grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    start: Fine,
    first: Span,
    growth: u64,
    steps: u64,
    last_boundary: Fine,
    end: Timestamp,
}

impl Stretch {
    /// A single step.
    #[inline]
    pub(super) fn step(start: Fine, span: Span) -> Self {
        let first = span.at_least_one();
        let last_boundary = start.after(first);
        Self {
            start,
            first,
            growth: 0,
            steps: 1,
            last_boundary,
            end: last_boundary.timestamp(),
        }
    }

    /// `steps` of them, at least one.
    #[inline]
    pub(super) fn new(start: Fine, first: Span, growth: u64, steps: u64) -> Self {
        let mut stretch = Self::step(start, first);
        stretch.growth = growth;
        if steps > 1 {
            stretch.cut(steps);
        }
        stretch
    }

    /// Ends it after `steps` steps.
    #[inline]
    pub(super) fn cut(&mut self, steps: u64) {
        self.steps = steps;
        self.last_boundary = self.boundary(steps);
        self.end = self.last_boundary.timestamp();
    }

    pub(super) const fn steps(&self) -> u64 {
        self.steps
    }

    /// When the last step ends.
    pub(super) const fn end(&self) -> Timestamp {
        self.end
    }

    /// The same, more finely.
    pub(super) const fn last_boundary(&self) -> Fine {
        self.last_boundary
    }

    /// When step `index`, counted from 0, begins, and the one before it ends.
    #[inline]
    pub(super) fn boundary(&self, index: u64) -> Fine {
        let pairs = index * index.saturating_sub(1) / 2;
        let linear = u128::from(self.first.0) * u128::from(index);
        Fine(self.start.0 + linear + u128::from(self.growth) * u128::from(pairs))
    }

    /// How long the steps behind the first take together, up to number `steps`.
    pub(super) fn behind_first(&self, steps: u64) -> u128 {
        let last = if steps == self.steps {
            self.last_boundary
        } else {
            self.boundary(steps)
        };
        last.0 - self.start.0 - u128::from(self.first.0)
    }

    /// How long step `index` takes.
    pub(super) const fn span(&self, index: u64) -> Span {
        Span(self.first.0 + self.growth * index)
    }

    /// The first boundary of which `reached` is true, no earlier than the end of the first step;
    /// `reached` must stay true once it is. The search starts near `instant`.
    pub(super) fn first_boundary_where(
        &self,
        instant: Timestamp,
        reached: impl Fn(Timestamp) -> bool,
    ) -> u64 {
        let mut index = self.estimate(instant).max(1);
        while index > 1 && reached(self.boundary(index - 1).timestamp()) {
            index -= 1;
        }
        while !reached(self.boundary(index).timestamp()) {
            index += 1;
        }
        index
    }

    /// About how many steps fit before `instant`: the root of `first n + growth n (n - 1) / 2`.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast to a whole number is clamped to its range"
    )]
    fn estimate(&self, instant: Timestamp) -> u64 {
        // Where it is clamped, after five hours in one stretch, the search has farther to go.
        let elapsed = Fine::of(instant).since(self.start).0 as f64;
        let growth = self.growth as f64;
        let linear = self.first.0 as f64 - growth / 2.0;
        let root = libm::sqrt(linear * linear + 2.0 * growth * elapsed);
        (2.0 * elapsed / (linear + root)) as u64
    }
}
