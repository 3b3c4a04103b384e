//! The ziggurat of Marsaglia and Tsang ("The ziggurat method for generating random variables", Journal of
//! Statistical Software 5(8), 2000): a falling density covered by layers of one area.
//!
//! Some 99 of 100 draws take one random number, one product and one comparison. The distribution is
//! exact but for the rounding of the 53 bits that a draw has. Layer and place come from bits of their own
//! (Doornik 2005 shows what it costs if they do not).

use std::sync::LazyLock;

use crate::Draws;

/// Layers.
const LAYERS: usize = 256;
/// Where the tail of the exponential begins, with so many layers (Marsaglia and Tsang 2000).
const EXPONENTIAL_TAIL: f64 = 7.697_117_470_131_05;
/// The same for the normal.
const NORMAL_TAIL: f64 = 3.654_152_885_361_009;

/// Right edges of the layers, from the lowest to none at the top. The lowest has a tail, and its edge is
/// where a rectangle of its area and height would have it.
type Edges = [f64; LAYERS + 1];

static EXPONENTIAL: LazyLock<Edges> = LazyLock::new(|| {
    let area = (EXPONENTIAL_TAIL + 1.0) * falling(EXPONENTIAL_TAIL);
    edges(EXPONENTIAL_TAIL, area, falling, |y| -libm::log(y))
});

static NORMAL: LazyLock<Edges> = LazyLock::new(|| {
    let half_root = core::f64::consts::FRAC_PI_2.sqrt();
    let tail = half_root * libm::erfc(NORMAL_TAIL * core::f64::consts::FRAC_1_SQRT_2);
    let area = NORMAL_TAIL * bell(NORMAL_TAIL) + tail;
    edges(NORMAL_TAIL, area, bell, |y| libm::sqrt(-2.0 * libm::log(y)))
});

/// The density of the exponential.
fn falling(x: f64) -> f64 {
    libm::exp(-x)
}

/// The density of the normal on its positive side, 1 at its peak.
fn bell(x: f64) -> f64 {
    libm::exp(-0.5 * x * x)
}

fn edges(tail: f64, area: f64, density: fn(f64) -> f64, inverse: fn(f64) -> f64) -> Edges {
    let mut edges = [0.0; LAYERS + 1];
    edges[0] = area / density(tail);
    edges[1] = tail;
    for layer in 2..LAYERS {
        let below = edges[layer - 1];
        edges[layer] = inverse(density(below) + area / below);
    }
    edges
}

/// A draw's layer: bits that its place does not take.
const fn layer(bits: u64) -> usize {
    (bits & 0xFF) as usize
}

/// Whether a point of a layer at `x` lies under the curve: it is as likely at any height of the layer.
fn is_under(edges: &Edges, density: fn(f64) -> f64, layer: usize, x: f64, level: f64) -> bool {
    let (bottom, top) = (density(edges[layer]), density(edges[layer + 1]));
    bottom + level * (top - bottom) < density(x)
}

/// Exponential with mean 1.
#[inline]
pub(crate) fn exponential(draws: &mut Draws) -> f64 {
    let edges: &Edges = &EXPONENTIAL;
    let bits = draws.bits();
    let layer = layer(bits);
    let x = (bits >> 11) as f64 / (1_u64 << 53) as f64 * edges[layer];
    if x < edges[layer + 1] {
        return x;
    }
    exponential_at_the_rim(draws, layer, x)
}

#[cold]
#[inline(never)]
fn exponential_at_the_rim(draws: &mut Draws, layer: usize, x: f64) -> f64 {
    if layer == 0 {
        // What lies beyond an instant is as the whole.
        return EXPONENTIAL_TAIL - libm::log(1.0 - draws.unit());
    }
    if is_under(&EXPONENTIAL, falling, layer, x, draws.unit()) {
        return x;
    }
    exponential(draws)
}

/// Standard normal.
#[inline]
pub(crate) fn normal(draws: &mut Draws) -> f64 {
    let edges: &Edges = &NORMAL;
    let bits = draws.bits();
    let layer = layer(bits);
    // The sign is the first of the 53 bits.
    let x = (bits.cast_signed() >> 11) as f64 / (1_u64 << 52) as f64 * edges[layer];
    if x.abs() < edges[layer + 1] {
        return x;
    }
    normal_at_the_rim(draws, layer, x)
}

#[cold]
#[inline(never)]
fn normal_at_the_rim(draws: &mut Draws, layer: usize, x: f64) -> f64 {
    if layer == 0 {
        return libm::copysign(normal_tail(draws), x);
    }
    if is_under(&NORMAL, bell, layer, x.abs(), draws.unit()) {
        return x;
    }
    normal(draws)
}

/// A normal beyond the start of the tail: Marsaglia, "Generating a variable from the tail of the normal
/// distribution", Technometrics 6(1), 1964.
fn normal_tail(draws: &mut Draws) -> f64 {
    loop {
        let beyond = -libm::log(1.0 - draws.unit()) / NORMAL_TAIL;
        if -2.0 * libm::log(1.0 - draws.unit()) > beyond * beyond {
            return NORMAL_TAIL + beyond;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Stream, normal_cdf};

    /// All layers have one area, so the last one ends at the peak: only the right start does that.
    #[test]
    fn the_layers_close_at_the_peak() {
        let closes = |edges: &Edges, density: fn(f64) -> f64, area: f64| {
            let last = edges[LAYERS - 1];
            let peak = density(last) + area / last;
            assert!((peak - 1.0).abs() < 1e-12, "{peak}");
            assert!(edges.windows(2).all(|pair| pair[0] > pair[1]));
        };
        let area = |edges: &Edges, density: fn(f64) -> f64| edges[0] * density(edges[1]);
        closes(&EXPONENTIAL, falling, area(&EXPONENTIAL, falling));
        closes(&NORMAL, bell, area(&NORMAL, bell));
    }

    fn draw(count: u64, sample: fn(&mut Draws) -> f64) -> Vec<f64> {
        (0..count)
            .map(|index| sample(&mut Draws::new(17, Stream(9), index)))
            .collect()
    }

    /// The largest distance between the two distribution functions, times the root of the count: above 1.95
    /// with chance 0.001 (Kolmogorov).
    fn distance(mut values: Vec<f64>, cdf: impl Fn(f64) -> f64) -> f64 {
        values.sort_by(f64::total_cmp);
        let count = values.len() as f64;
        let apart = values.iter().enumerate().map(|(rank, &value)| {
            let expected = cdf(value);
            let (below, upto) = (rank as f64 / count, (rank as f64 + 1.0) / count);
            (expected - below).abs().max((upto - expected).abs())
        });
        apart.fold(0.0, f64::max) * count.sqrt()
    }

    #[test]
    fn draws_follow_their_distribution() {
        let exponential_cdf = |x: f64| 1.0 - libm::exp(-x);
        let found = distance(draw(200_000, exponential), exponential_cdf);
        assert!(found < 1.95, "{found}");
        let found = distance(draw(200_000, normal), normal_cdf);
        assert!(found < 1.95, "{found}");
        // The test sees two percent of a wrong scale, or place.
        let wrong = draw(200_000, |draws| 1.02 * exponential(draws));
        assert!(distance(wrong, exponential_cdf) > 1.95);
        let wrong = draw(200_000, |draws| 0.02 + normal(draws));
        assert!(distance(wrong, normal_cdf) > 1.95);
    }

    /// Rims and tails are rare: asked for alone, they are seen.
    #[test]
    fn the_rim_and_the_tail_follow_it_too() {
        let mut beyond = Vec::new();
        for index in 0..100_000 {
            beyond.push(normal_tail(&mut Draws::new(3, Stream(1), index)));
        }
        let whole = normal_cdf(-NORMAL_TAIL);
        let found = distance(beyond, |x| 1.0 - normal_cdf(-x) / whole);
        assert!(found < 1.95, "{found}");
        // As many on either side, and as many beyond 3.5 as there should be.
        let values = draw(600_000, normal);
        let count = |of: &dyn Fn(f64) -> bool| values.iter().filter(|&&v| of(v)).count() as f64;
        let near = |seen: f64, share: f64| {
            let expected = share * values.len() as f64;
            let off = (seen - expected) / (expected * (1.0 - share)).sqrt();
            assert!(off.abs() < 4.0, "{seen} for {expected}");
        };
        near(count(&|v| v < 0.0), 0.5);
        near(count(&|v| v.abs() > NORMAL_TAIL), 2.0 * whole);
        near(count(&|v| v.abs() > 3.5), 2.0 * normal_cdf(-3.5));
        near(count(&|v| v.abs() < 0.25), 1.0 - 2.0 * normal_cdf(-0.25));
        let values = draw(600_000, exponential);
        let beyond = values.iter().filter(|&&v| v > EXPONENTIAL_TAIL).count() as f64;
        let expected = 6e5 * falling(EXPONENTIAL_TAIL);
        assert!((beyond - expected).abs() < 4.0 * expected.sqrt());
    }
}
