//! The bar of a load point: what is good, what is late, on the scale of the whole table.

use crate::style::{Ink, Style};

/// A bar of `good` out of `all`, where `full` fills `width` characters: `#` good, `.` late.
///
/// What is above zero shows at least one character, and what is late in part does too.
pub(crate) fn bar(good: f64, all: f64, full: f64, width: usize, style: Style) -> String {
    let cells = |value: f64| cells(value, full, width);
    let (good, all) = (cells(good.min(all)), cells(all));
    let late = all.saturating_sub(good);
    let paint = |ink, glyph: &str, n: usize| style.paint(ink, &glyph.repeat(n));
    paint(Ink::Good, "#", good) + &paint(Ink::Late, ".", late)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "not negative, and at most `width`"
)]
fn cells(value: f64, full: f64, width: usize) -> usize {
    if value.is_nan() || value <= 0.0 || full.is_nan() || full <= 0.0 {
        return 0;
    }
    let share = (value / full).min(1.0) * width as f64;
    (share.round() as usize).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(good: f64, all: f64, expect: &str) {
        assert_eq!(bar(good, all, 100.0, 10, Style::plain()), expect);
    }

    #[test]
    fn bars_share_one_scale() {
        check(0.0, 0.0, "");
        check(100.0, 100.0, "##########");
        check(40.0, 100.0, "####......");
        check(1.0, 1.0, "#");
        check(0.0, 50.0, ".....");
        check(500.0, 500.0, "##########");
        assert_eq!(bar(1.0, 1.0, 0.0, 10, Style::plain()), "");
    }
}
