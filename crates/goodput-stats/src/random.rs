//! Randomness keyed by (seed, stream, index): any draw can be made alone, in any order, on any
//! machine, with the same result.

/// What a draw is for. Draws of different streams are independent under one seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stream(pub u64);

/// A short sequence of draws for one (seed, stream, index).
///
/// The generator is `SplitMix64` (Steele, Lea and Flood 2014) started from a mix of the three
/// keys. Its whole output for given keys never changes. What a sampler makes of these bits may change
/// with a version; the changelog says so.
#[derive(Clone, Debug)]
pub struct Draws {
    state: u64,
}

impl Draws {
    /// Opens the sequence for these keys.
    #[inline]
    #[must_use]
    pub fn new(seed: u64, stream: Stream, index: u64) -> Self {
        StreamDraws::new(seed, stream).at(index)
    }

    /// The next 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        mix(self.state)
    }

    /// Uniform in [0, 1), with 53 random bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// What [`Draws`] of one seed and stream have in common, for those who open many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamDraws {
    state: u64,
}

impl StreamDraws {
    /// All draws of a stream under a seed.
    #[inline]
    #[must_use]
    pub fn new(seed: u64, stream: Stream) -> Self {
        Self {
            state: mix(mix(seed) ^ stream.0.wrapping_mul(GOLDEN)),
        }
    }

    /// The sequence of an index: [`Draws::new`] of the three.
    #[inline]
    #[must_use]
    pub fn at(self, index: u64) -> Draws {
        Draws {
            state: mix(self.state ^ index.wrapping_mul(ODD)),
        }
    }
}

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
const ODD: u64 = 0xD1B5_4A32_D192_ED03;

/// The finalizer of `SplitMix64`: every input bit moves every output bit.
#[inline]
#[must_use]
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bits that were written down when the first results were recorded.
    #[test]
    fn the_bits_of_given_keys_never_change() {
        let mut draws = Draws::new(7, Stream(0x574C_0001), 3);
        assert_eq!(
            [draws.bits(), draws.bits()],
            [0xAA32_54EB_5833_FEAC, 0x3DD0_1E40_50AE_3BEF]
        );
        let whole = Draws::new(u64::MAX, Stream(u64::MAX), u64::MAX).bits();
        assert_eq!(whole, 0x7B82_F96E_443D_9828);
    }
}
