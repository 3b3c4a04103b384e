//! The normal and Student's t distribution, as far as intervals need them.

/// Standard normal distribution function: the share below `x`.
#[must_use]
pub fn normal_cdf(x: f64) -> f64 {
    0.5 * libm::erfc(-x / std::f64::consts::SQRT_2)
}

/// Standard normal quantile: the value below which a share `p` lies. `None` unless 0 < p < 1.
///
/// Algorithm AS 241, PPND16 (Wichura 1988): about 16 digits.
#[must_use]
pub fn normal_quantile(p: f64) -> Option<f64> {
    if !(p > 0.0 && p < 1.0) {
        return None;
    }
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.180_625 - q * q;
        return Some(q * ratio(&CENTRE, r));
    }
    let r = libm::sqrt(-libm::log(p.min(1.0 - p)));
    let tail = if r <= 5.0 {
        ratio(&SHOULDER, r - 1.6)
    } else {
        ratio(&TAIL, r - 5.0)
    };
    Some(libm::copysign(tail, q))
}

/// Student's t distribution function with `degrees` of freedom (> 0, not only whole numbers).
#[must_use]
pub fn student_cdf(t: f64, degrees: f64) -> f64 {
    let tail = 0.5 * incomplete_beta(degrees / 2.0, 0.5, degrees, t * t);
    if t > 0.0 { 1.0 - tail } else { tail }
}

/// Student's t quantile: the value below which a share `p` lies, with `degrees` of freedom (> 0,
/// not only whole numbers). `None` unless 0 < p < 1 and the degrees are positive.
///
/// Found by bisection of [`student_cdf`]; agrees with published tables to their last digit.
#[must_use]
pub fn student_quantile(p: f64, degrees: f64) -> Option<f64> {
    if !(p > 0.0 && p < 1.0 && degrees > 0.0) {
        return None;
    }
    if degrees > 1e7 {
        return normal_quantile(p);
    }
    let target = p.min(1.0 - p);
    let mut high = 1.0;
    while student_cdf(-high, degrees) > target && high < 1e300 {
        high *= 2.0;
    }
    let mut low = 0.0;
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if student_cdf(-middle, degrees) > target {
            low = middle;
        } else {
            high = middle;
        }
        if high - low <= 1e-13 * high {
            break;
        }
    }
    let size = 0.5 * (low + high);
    Some(if p < 0.5 { -size } else { size })
}

/// The regularised incomplete beta function at `x = part / (part + rest)`, by Lentz's continued
/// fraction (Numerical Recipes, section 6.4).
///
/// `x` comes in two parts because `1 - x` loses its digits where `x` is close to 1.
fn incomplete_beta(a: f64, b: f64, part: f64, rest: f64) -> f64 {
    let (x, y) = (part / (part + rest), rest / (part + rest));
    if x <= 0.0 {
        return 0.0;
    }
    if y <= 0.0 {
        return 1.0;
    }
    let log_front = libm::lgamma(a + b) - libm::lgamma(a) - libm::lgamma(b)
        + a * log_of(x, y)
        + b * log_of(y, x);
    let front = libm::exp(log_front);
    // The fraction converges quickly only on this side of the mean; the other follows by symmetry.
    if x < (a + 1.0) / (a + b + 2.0) {
        front * beta_fraction(a, b, x) / a
    } else {
        1.0 - front * beta_fraction(b, a, y) / b
    }
}

/// `ln(x)` where `y = 1 - x` is known to more digits than that difference.
fn log_of(x: f64, y: f64) -> f64 {
    if y < 0.5 {
        libm::log1p(-y)
    } else {
        libm::log(x)
    }
}

fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let away_from_zero = |v: f64| if v.abs() < TINY { TINY } else { v };
    let mut upper = 1.0;
    let mut lower = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = lower;
    for m in 1..500 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut step = 1.0;
        for term in [even, odd] {
            lower = 1.0 / away_from_zero(1.0 + term * lower);
            upper = away_from_zero(1.0 + term / upper);
            step = upper * lower;
            fraction *= step;
        }
        if (step - 1.0).abs() < 1e-15 {
            break;
        }
    }
    fraction
}

/// Numerator and denominator, lowest power first.
type Rational = ([f64; 8], [f64; 8]);

fn ratio((above, below): &Rational, x: f64) -> f64 {
    let polynomial = |c: &[f64; 8]| c.iter().rev().fold(0.0, |sum, &c| sum * x + c);
    polynomial(above) / polynomial(below)
}

const CENTRE: Rational = (
    [
        3.387_132_872_796_366_5,
        133.141_667_891_784_38,
        1_971.590_950_306_551_3,
        13_731.693_765_509_46,
        45_921.953_931_549_87,
        67_265.770_927_008_7,
        33_430.575_583_588_13,
        2_509.080_928_730_122_7,
    ],
    [
        1.0,
        42.313_330_701_600_91,
        687.187_007_492_057_9,
        5_394.196_021_424_751,
        21_213.794_301_586_597,
        39_307.895_800_092_71,
        28_729.085_735_721_943,
        5_226.495_278_852_545,
    ],
);
const SHOULDER: Rational = (
    [
        1.423_437_110_749_683_5,
        4.630_337_846_156_546,
        5.769_497_221_460_691,
        3.647_848_324_763_204_5,
        1.270_458_252_452_368_4,
        0.241_780_725_177_450_6,
        0.022_723_844_989_269_184,
        7.745_450_142_783_414e-4,
    ],
    [
        1.0,
        2.053_191_626_637_759,
        1.676_384_830_183_803_8,
        0.689_767_334_985_1,
        0.148_103_976_427_480_08,
        0.015_198_666_563_616_457,
        5.475_938_084_995_345e-4,
        1.050_750_071_644_416_9e-9,
    ],
);
const TAIL: Rational = (
    [
        6.657_904_643_501_103,
        5.463_784_911_164_114,
        1.784_826_539_917_291_3,
        0.296_560_571_828_504_87,
        0.026_532_189_526_576_124,
        0.001_242_660_947_388_078_4,
        2.711_555_568_743_487_6e-5,
        2.010_334_399_292_288_1e-7,
    ],
    [
        1.0,
        0.599_832_206_555_888,
        0.136_929_880_922_735_8,
        0.014_875_361_290_850_615,
        7.868_691_311_456_133e-4,
        1.846_318_317_510_054_7e-5,
        1.421_511_758_316_446e-7,
        2.044_263_103_389_939_8e-15,
    ],
);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn close(found: f64, expect: f64, by: f64) {
        assert!((found - expect).abs() <= by, "{found} against {expect}");
    }

    #[test]
    fn normal_quantiles_agree_with_wichura_1988() {
        // The three values that the paper gives for checking, and the ones everyone knows.
        close(
            normal_quantile(0.25).unwrap(),
            -0.674_489_750_196_081_7,
            1e-15,
        );
        close(
            normal_quantile(0.001).unwrap(),
            -3.090_232_306_167_813_5,
            1e-14,
        );
        close(
            normal_quantile(1e-20).unwrap(),
            -9.262_340_089_798_408,
            1e-13,
        );
        close(
            normal_quantile(0.975).unwrap(),
            1.959_963_984_540_054,
            1e-14,
        );
        close(
            normal_quantile(0.95).unwrap(),
            1.644_853_626_951_472_2,
            1e-14,
        );
        assert_eq!(normal_quantile(0.5), Some(0.0));
        assert_eq!([0.0, 1.0, -0.1, f64::NAN].map(normal_quantile), [None; 4]);
    }

    #[test]
    fn student_quantiles_agree_with_the_printed_table() {
        // NIST/SEMATECH e-Handbook of Statistical Methods, section 1.3.6.7.2, to three digits.
        for (p, degrees, expect) in [
            (0.975, 1.0, 12.706),
            (0.975, 2.0, 4.303),
            (0.975, 5.0, 2.571),
            (0.975, 9.0, 2.262),
            (0.975, 30.0, 2.042),
            (0.975, 100.0, 1.984),
            (0.95, 1.0, 6.314),
            (0.95, 10.0, 1.812),
            (0.90, 3.0, 1.638),
            (0.99, 4.0, 3.747),
            (0.995, 20.0, 2.845),
            (0.999, 1.0, 318.309),
            (0.999, 7.0, 4.785),
        ] {
            close(student_quantile(p, degrees).unwrap(), expect, 0.0006);
        }
        assert_eq!(student_quantile(0.975, 0.0), None);
        assert_eq!(student_quantile(1.0, 5.0), None);
    }

    #[test]
    fn student_quantiles_close_to_the_median_keep_their_digits() {
        let (p, degrees) = (0.499_925_158_026_193_9, 272.852_690_599_448_9);
        close(
            student_cdf(student_quantile(p, degrees).unwrap(), degrees),
            p,
            1e-13,
        );
    }

    #[test]
    fn student_t_with_one_degree_is_the_cauchy_distribution() {
        for t in [-50.0, -1.0, -0.1, 0.0, 0.3, 2.0, 1000.0] {
            let cauchy = 0.5 + libm::atan(t) / std::f64::consts::PI;
            close(student_cdf(t, 1.0), cauchy, 1e-14);
        }
    }

    proptest! {
        #[test]
        fn quantile_undoes_distribution(p in 0.0001..0.9999_f64, degrees in 0.6..500.0_f64) {
            prop_assert!((normal_cdf(normal_quantile(p).unwrap()) - p).abs() < 1e-14);
            prop_assert!((student_cdf(student_quantile(p, degrees).unwrap(), degrees) - p).abs() < 1e-11);
        }

        #[test]
        fn student_t_is_wider_than_normal_and_tends_to_it(p in 0.6..0.999_f64) {
            let normal = normal_quantile(p).unwrap();
            prop_assert!(student_quantile(p, 5.0).unwrap() > normal);
            prop_assert!((student_quantile(p, 9e6).unwrap() - normal).abs() < 1e-5);
        }
    }
}
