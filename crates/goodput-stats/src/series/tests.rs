use super::*;
use crate::{Draws, Stream};
use proptest::prelude::*;

fn uniform(length: u64, seed: u64) -> Vec<f64> {
    (0..length)
        .map(|index| Draws::new(seed, Stream(2), index).unit())
        .collect()
}

#[track_caller]
fn close(found: Option<f64>, expect: f64, by: f64) {
    let found = found.unwrap();
    assert!((found - expect).abs() <= by, "{found} against {expect}");
}

#[test]
fn variation_of_known_series() {
    close(
        cv(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]),
        0.4276,
        0.0001,
    );
    assert_eq!(cv(&[3.0]), None);
    assert_eq!(cv(&[0.0, 0.0]), None);
    // Bortkiewicz 1898: deaths by horse kick in 200 corps-years, 0.61 a year, nearly Poisson.
    let kicks: Vec<u64> = [109, 65, 22, 3, 1]
        .into_iter()
        .zip(0..)
        .flat_map(|(years, deaths)| std::iter::repeat_n(deaths, years))
        .collect();
    close(index_of_dispersion(&kicks), 1.0016, 0.0001);
    assert_eq!(index_of_dispersion(&[0, 0, 0]), None);
    assert_eq!(index_of_dispersion(&[5, 5, 5]), Some(0.0));
}

#[test]
fn pearson_agrees_with_anscombe_1973() {
    let x = [10.0, 8.0, 13.0, 9.0, 11.0, 14.0, 6.0, 4.0, 12.0, 7.0, 5.0];
    let y = [
        8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68,
    ];
    close(pearson(&x, &y), 0.8164, 0.0001);
    assert_eq!(pearson(&x, &y[1..]), None);
    assert_eq!(pearson(&x, &[1.0; 11]), None);
}

#[test]
fn white_noise_has_no_memory_and_a_slow_series_has_one() {
    assert!(correlation_time(&uniform(500, 7)) < 1.5);
    let slow: Vec<f64> = (0..500).map(|i| f64::from(i / 25 % 2)).collect();
    assert!(correlation_time(&slow) > 10.0);
    assert_eq!(autocorrelation(&[1.0, 2.0], 2), None);
    close(autocorrelation(&[1.0, 2.0, 3.0], 0), 1.0, 1e-12);
}

#[test]
fn a_warm_up_is_cut_and_a_steady_series_is_kept() {
    let warming: Vec<f64> = uniform(200, 3)
        .into_iter()
        .zip(0..)
        .map(|(noise, i)| noise + 30.0 * libm::exp(-f64::from(i) / 8.0))
        .collect();
    let cut = truncate_mser5(&warming).unwrap();
    assert!((20..=60).contains(&cut), "{cut}");
    assert!(truncate_mser5(&uniform(200, 4)).unwrap() <= 40);
    assert_eq!(truncate_mser5(&[1.0; 40]), Some(0));
}

#[test]
fn a_series_that_never_settles_has_no_cut() {
    let growing: Vec<f64> = (0..100).map(|i| f64::from(i) * f64::from(i)).collect();
    assert_eq!(truncate_mser5(&growing), None);
    assert_eq!(truncate_mser5(&[1.0; 19]), None);
}

proptest! {
    #[test]
    fn correlation_time_stays_in_its_range(values in prop::collection::vec(-1e6..1e6_f64, 0..80)) {
        let tau = correlation_time(&values);
        prop_assert!(tau >= 1.0 && tau <= (values.len() as f64 / 2.0).max(1.0));
    }

    #[test]
    fn scale_and_shift_do_not_move_a_correlation(
        pairs in prop::collection::vec((-100.0..100.0_f64, -100.0..100.0_f64), 3..40),
    ) {
        let (xs, ys): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
        let scaled: Vec<f64> = xs.iter().map(|x| 3.0 * x + 7.0).collect();
        let (plain, moved) = (pearson(&xs, &ys), pearson(&scaled, &ys));
        prop_assert_eq!(plain.is_some(), moved.is_some());
        if let (Some(plain), Some(moved)) = (plain, moved) {
            prop_assert!((plain - moved).abs() < 1e-9);
        }
    }
}
