//! Randomness keyed by (seed, stream, index): any draw can be made alone, in any order, on any
//! machine, with the same result.

/// What a draw is for. Draws of different streams are independent under one seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stream(pub u64);

/// A short sequence of draws for one (seed, stream, index).
///
/// The generator is `SplitMix64` (Steele, Lea and Flood 2014) started from a mix of the three
/// keys. Its whole output for given keys never changes: recorded seeds stay valid.
#[derive(Clone, Debug)]
pub struct Draws {
    state: u64,
}

impl Draws {
    /// Opens the sequence for these keys.
    #[must_use]
    pub fn new(seed: u64, stream: Stream, index: u64) -> Self {
        let state = mix(mix(mix(seed) ^ stream.0.wrapping_mul(GOLDEN)) ^ index.wrapping_mul(ODD));
        Self { state }
    }

    /// The next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        mix(self.state)
    }

    /// Uniform in [0, 1), with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
const ODD: u64 = 0xD1B5_4A32_D192_ED03;

/// The finalizer of `SplitMix64`: every input bit moves every output bit.
#[must_use]
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
