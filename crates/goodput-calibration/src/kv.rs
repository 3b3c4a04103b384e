//! How much context fits, where the engine or a curve tells.

use goodput_stats::quantile;
use serde::Serialize;

use crate::observed::Observed;

/// Tokens that the KV cache holds, as seen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct KvSeen {
    /// Tokens: the median over the looks.
    pub tokens: f64,
    /// First and third quartile of these.
    pub quartiles: (f64, f64),
    /// Looks they rest on.
    pub looks: usize,
}

/// Looks below this usage say little: a block more or less is a large part of them.
const LEAST_USAGE: f64 = 0.02;
/// Looks from which on a median is worth having.
const LEAST_LOOKS: usize = 5;

/// The cache's size from its usage (0 to 1) at known instants, in seconds since the run's epoch, and
/// the tokens that the requests in flight had in it then: what they were asked and had answered, and
/// half a block each. `None` with fewer than five looks at a cache in use.
///
/// Prompts whose blocks are shared would be counted twice, so a run with prefix hits has no answer.
#[must_use]
pub fn kv_seen(requests: &[Observed], looks: &[(f64, f64)], block_tokens: f64) -> Option<KvSeen> {
    if requests.iter().any(|r| r.cached > 0.0) {
        return None;
    }
    let mut sizes: Vec<f64> = looks
        .iter()
        .filter(|(_, usage)| *usage >= LEAST_USAGE)
        .filter_map(|(at, usage)| Some(resident(requests, *at, block_tokens)? / usage))
        .collect();
    if sizes.len() < LEAST_LOOKS {
        return None;
    }
    sizes.sort_by(f64::total_cmp);
    Some(KvSeen {
        tokens: quantile(&sizes, 0.5)?,
        quartiles: (quantile(&sizes, 0.25)?, quantile(&sizes, 0.75)?),
        looks: sizes.len(),
    })
}

/// Tokens in the cache at an instant. `None` while a prompt is being computed or waits: how much of it
/// is there nobody knows.
fn resident(requests: &[Observed], at: f64, block_tokens: f64) -> Option<f64> {
    let mut tokens = 0.0;
    for request in requests.iter().filter(|r| r.sent <= at && r.last > at) {
        let first = request.first.filter(|first| *first <= at)?;
        let length = (request.last - first).max(1e-9);
        let answered = 1.0 + (request.output - 1.0) * (at - first) / length;
        tokens += request.input + answered + block_tokens / 2.0;
    }
    (tokens > 0.0).then_some(tokens)
}

/// Sequences that decode where more users add none: the mean of the curve's flat end, for points of
/// (users, sequences decoding) in order of users. `None` where the last two points still differ by
/// more than 3 % although the users grew by a tenth or more.
#[must_use]
pub fn plateau(points: &[(f64, f64)]) -> Option<f64> {
    let (last, rest) = points.split_last()?;
    let flat: Vec<f64> = rest
        .iter()
        .rev()
        .take_while(|p| p.0 * 1.1 <= last.0 && (p.1 / last.1 - 1.0).abs() <= 0.03)
        .map(|p| p.1)
        .collect();
    // A closed loop without a cap is as flat where all users decode: then it is the users that end.
    let capped = last.1 < 0.9 * last.0;
    let all = flat.iter().sum::<f64>() + last.1;
    (capped && !flat.is_empty()).then(|| all / (flat.len() + 1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(sent: f64, input: f64) -> Observed {
        Observed {
            point: 0,
            sent,
            first: Some(sent + 0.1),
            last: sent + 10.1,
            input,
            cached: 0.0,
            output: 101.0,
            events: Vec::new(),
        }
    }

    #[test]
    fn usage_against_what_is_resident_gives_the_size() {
        let requests: Vec<Observed> = (0..8).map(|i| request(f64::from(i), 1_000.0)).collect();
        // Requests sent at 0..7 live 10.1 s: at 9.5 all of them are there and decode.
        let size = 50_000.0;
        let looks: Vec<(f64, f64)> = (0..6)
            .map(|i| {
                let at = 9.0 + 0.1 * f64::from(i);
                (at, resident(&requests, at, 16.0).unwrap() / size)
            })
            .collect();
        let seen = kv_seen(&requests, &looks, 16.0).unwrap();
        assert!((seen.tokens / size - 1.0).abs() < 1e-9, "{seen:?}");
        assert_eq!(kv_seen(&requests, &looks[..4], 16.0), None);
        let mut shared = requests;
        shared[0].cached = 16.0;
        assert_eq!(kv_seen(&shared, &looks, 16.0), None);
    }

    // NVIDIA NIM, Llama-3.3-70B fp8 on two H100, 5000/500 (docs.nvidia.com, NIM benchmarking guide):
    // users, and sequences decoding by Little's law.
    #[test]
    fn a_flat_end_is_a_cap_and_a_rising_one_is_not() {
        let rising = [(1.0, 1.0), (5.0, 4.8), (25.0, 24.1), (50.0, 48.6)];
        assert_eq!(plateau(&rising), None);
        let mut curve = rising.to_vec();
        curve.extend([(100.0, 85.3), (150.0, 85.7), (200.0, 85.9), (250.0, 86.1)]);
        assert!((plateau(&curve).unwrap() - 85.75).abs() < 0.01);
    }
}
