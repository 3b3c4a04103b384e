//! From floating point to whole numbers, by name: `as` alone does not say what is meant.

/// To the nearest whole number. What is negative or no number is 0, what is too large the largest.
#[inline]
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates, which is the clamp wanted"
)]
pub fn whole_u32(value: f64) -> u32 {
    // As `round` does it, without a call: where a machine's base has no instruction for it, it is one.
    let below = value as u32;
    below.saturating_add(u32::from(value - f64::from(below) >= 0.5))
}

/// The same for 64 bits.
#[inline]
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates, which is the clamp wanted"
)]
pub fn whole_u64(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_number_can_hold_is_the_nearest_that_one_can() {
        let values = [-1.0, f64::NAN, 0.49, 0.5, 7.6, 1e30, f64::INFINITY];
        let (most, huge) = (u32::MAX, u64::MAX);
        assert_eq!(values.map(whole_u32), [0, 0, 0, 1, 8, most, most]);
        assert_eq!(values.map(whole_u64), [0, 0, 0, 1, 8, huge, huge]);
        for value in [
            0.5_f64.next_down(),
            2.5,
            3.499,
            -0.5,
            4_294_967_294.5,
            4_294_967_295.5,
        ] {
            let expected = value.round().clamp(0.0, f64::from(most));
            assert!(
                (f64::from(whole_u32(value)) - expected).abs() < 0.1,
                "{value}"
            );
        }
    }
}
