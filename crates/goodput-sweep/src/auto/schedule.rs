//! When a running point is looked at.

/// Each look waits for this many times the settled time of the one before.
const GROWTH: f64 = 1.5;

/// Looks on a geometric schedule of settled time: few, so that stopping early costs little width.
#[derive(Clone, Copy, Debug)]
pub(super) struct Looks {
    next_s: f64,
}

impl Looks {
    /// The first look comes when `first_s` seconds are settled.
    pub(super) const fn from(first_s: f64) -> Self {
        Self { next_s: first_s }
    }

    /// Whether a look is due with so much settled; then the next one is put off.
    pub(super) fn due(&mut self, settled_s: f64) -> bool {
        let due = settled_s >= self.next_s;
        if due {
            self.next_s = GROWTH * settled_s;
        }
        due
    }
}
