//! Whether intervals hold the truth as often as they say, and are no wider than they must be.
//!
//! Each experiment is an engine of random coefficients under three low loads, with steps that are off
//! by chance (correlated from step to step) and a few pauses. Its calibration then has to say what the
//! mean TPOT and TTFT are at another load, and which rate keeps a TPOT.
//!
//! The best possible width is that of the Cramer-Rao bound: of an estimate that knows how the noise is
//! correlated and which steps are pauses.

use goodput_calibration::{Ask, Form, Load, Replica, Square, StepSample, calibrate};
use goodput_perf_model::Demand;
use goodput_stats::{Draws, Stream, sampler};

/// Correlation of neighbouring steps' errors.
const PHI: f64 = 0.5;
/// Users of the three loads.
const USERS: [u32; 3] = [1, 4, 12];

/// An engine, its noise and what it is asked.
struct World {
    theta: Vec<f64>,
    noise: f64,
    input: f64,
    output: f64,
    seed: u64,
}

impl World {
    fn draw(seed: u64) -> Self {
        let mut draws = Draws::new(seed, Stream(1), 0);
        let mut between = |low: f64, high: f64| {
            let share = draws.unit();
            low * libm::pow(high / low, share)
        };
        Self {
            // Step, sequence, context, prefill, pair, ingest: of a small model on a fast GPU to a
            // large one on a slow GPU.
            theta: vec![
                between(3e-3, 20e-3),
                between(8e-6, 80e-6),
                between(10e-9, 80e-9),
                between(8e-6, 60e-6),
                between(0.5e-9, 3e-9),
                between(0.3e-3, 3e-3),
            ],
            noise: between(0.01, 0.08),
            input: between(200.0, 1_500.0),
            output: between(60.0, 250.0),
            seed,
        }
    }

    /// Steps of a closed loop whose users answer log-normal lengths, without noise.
    fn steps(&self, point: u32, users: u32, count: usize) -> Vec<StepSample> {
        let mut next = 0_u64;
        let mut lengths = |scale: f64| {
            let mut draws = Draws::new(self.seed, Stream(2), (u64::from(point) << 40) | next);
            next += 1;
            let input = sampler::log_normal(&mut draws, self.input * scale, 0.7)
                .round()
                .max(8.0);
            let output = sampler::log_normal(&mut draws, self.output, 0.5)
                .round()
                .max(3.0);
            (input, output)
        };
        // Context and tokens left of each user's request.
        let mut users: Vec<(f64, f64)> = (0..users).map(|_| lengths(1.0)).collect();
        let mut samples = Vec::new();
        while samples.len() < count {
            let alone = users.len() == 1;
            let mut sample = StepSample {
                seconds: 0.0,
                steps: 1.0,
                decodes: 0.0,
                context: 0.0,
                prefill: 0.0,
                pairs: 0.0,
                prefill_steps: 0.0,
                from_send: false,
                point,
                weight: 1.0,
            };
            for user in &mut users {
                if user.1 < 1.0 {
                    // Its prompt is computed in this step; the two prompt lengths of a single user
                    // tell prefill from its quadratic part.
                    *user = lengths(if alone && samples.len().is_multiple_of(2) {
                        6.0
                    } else {
                        1.0
                    });
                    sample.prefill += user.0;
                    sample.pairs += user.0 * (user.0 + 1.0) / 2.0;
                    sample.prefill_steps = 1.0;
                    sample.from_send = alone;
                    continue;
                }
                sample.decodes += 1.0;
                sample.context += user.0;
                user.0 += 1.0;
                user.1 -= 1.0;
            }
            samples.push(sample);
        }
        samples
    }

    /// The measurement: noise that is correlated, and half a percent of pauses.
    fn measured(&self) -> (Vec<StepSample>, Vec<f64>) {
        let form = Form::default();
        let mut draws = Draws::new(self.seed, Stream(3), 0);
        let (mut samples, mut truths) = (Vec::new(), Vec::new());
        for (point, users) in (0_u32..).zip(USERS) {
            let mut off = sampler::normal(&mut draws);
            for mut sample in self.steps(point, users, 1_000) {
                let truth = dot(&form.row(&sample), &self.theta);
                off = PHI * off + libm::sqrt(1.0 - PHI * PHI) * sampler::normal(&mut draws);
                sample.seconds = truth * (1.0 + self.noise * off).max(0.2);
                if draws.unit() < 0.005 {
                    sample.seconds += 0.05 + 0.2 * draws.unit();
                }
                samples.push(sample);
                truths.push(truth);
            }
        }
        (samples, truths)
    }

    /// Fisher's information on the coefficients: rows whitened by the noise's own correlation.
    fn information(&self, samples: &[StepSample], truths: &[f64]) -> Square {
        let form = Form::default();
        let scaled = |i: usize| -> Vec<f64> {
            let scale = truths[i] * self.noise * libm::sqrt(1.0 - PHI * PHI);
            form.row(&samples[i])
                .into_iter()
                .map(|x| x / scale)
                .collect()
        };
        let mut information = Square::zeros(self.theta.len());
        for i in 1..samples.len() {
            let (now, before) = (scaled(i), scaled(i - 1));
            let phi = if samples[i].point == samples[i - 1].point {
                PHI
            } else {
                0.0
            };
            let row: Vec<f64> = now.iter().zip(&before).map(|(n, b)| n - phi * b).collect();
            for (a, x) in row.iter().enumerate() {
                for (b, y) in row.iter().enumerate() {
                    information.add(a, b, x * y);
                }
            }
        }
        information
    }

    /// Lengths of the load asked for: twice the prompts.
    fn demand(&self) -> Demand {
        let requests: Vec<(u32, u32)> = (0..200)
            .map(|i| {
                let mut draws = Draws::new(self.seed, Stream(4), i);
                let input = sampler::log_normal(&mut draws, 2.0 * self.input, 0.7);
                let output = sampler::log_normal(&mut draws, self.output, 0.5).max(2.0);
                (
                    goodput_stats::whole_u32(input),
                    goodput_stats::whole_u32(output),
                )
            })
            .collect();
        Demand::of(&requests).expect("figures exist in this world")
    }
}

/// What is asked: mean TPOT and TTFT of 32 users, and the rate that keeps twice the TPOT of one.
fn figures(theta: &[f64], demand: &Demand) -> [Option<f64>; 3] {
    let form = Form::default();
    let step = form.step_time(theta, None);
    let replica = Replica {
        step,
        ingest_s: theta[5],
        slots: f64::INFINITY,
    };
    let means = replica.means(demand, Load::Users(32.0));
    let bound = std::time::Duration::from_secs_f64(0.05);
    [
        means.map(|m| m.tpot_s),
        means.map(|m| m.ttft_s),
        step.rate_within(demand, bound),
    ]
}

/// Shares of experiments whose interval holds the truth, and median widths over the best possible,
/// by figure.
pub(crate) fn study(experiments: u64) -> [(f64, f64); 3] {
    let mut held = [0_u64; 3];
    let mut wide: [Vec<f64>; 3] = Default::default();
    for seed in 0..experiments {
        let world = World::draw(seed);
        let (samples, truths) = world.measured();
        let ask = Ask {
            resamples: 200,
            seed,
            ..Ask::default()
        };
        let calibration = calibrate(&samples, &ask).expect("figures exist in this world");
        let demand = world.demand();
        let best = world
            .information(&samples, &truths)
            .inverse()
            .expect("figures exist in this world");
        let truth = figures(&world.theta, &demand);
        for (i, truth) in truth.into_iter().enumerate() {
            let truth = truth.expect("figures exist in this world");
            let interval = calibration.resamples.of(|theta| figures(theta, &demand)[i]);
            let interval = interval.expect("figures exist in this world");
            held[i] += u64::from(interval.low <= truth && truth <= interval.high);
            let gradient: Vec<f64> = (0..world.theta.len())
                .map(|j| {
                    let mut moved = world.theta.clone();
                    let by = 1e-3 * moved[j];
                    moved[j] += by;
                    (figures(&moved, &demand)[i].expect("figures exist in this world") - truth) / by
                })
                .collect();
            let least = 2.0 * 1.645 * libm::sqrt(dot(&gradient, &best.times(&gradient)));
            wide[i].push((interval.high - interval.low) / least);
        }
    }
    [0, 1, 2].map(|i| {
        wide[i].sort_by(f64::total_cmp);
        let median = goodput_stats::quantile(&wide[i], 0.5).expect("figures exist in this world");
        (held[i] as f64 / experiments as f64, median)
    })
}

fn dot(row: &[f64], theta: &[f64]) -> f64 {
    row.iter().zip(theta).map(|(x, t)| x * t).sum()
}
