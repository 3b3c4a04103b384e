use super::*;
use proptest::prelude::*;

/// A distribution that turns into buckets after a few samples.
fn small(values: impl IntoIterator<Item = u64>) -> Distribution {
    let mut distribution = Distribution::with_limit(16);
    distribution.extend(values);
    distribution
}

#[test]
fn an_empty_distribution_has_no_figures() {
    let mut nothing = Distribution::new();
    assert!(nothing.is_empty());
    nothing.record_undefined();
    assert!(!nothing.is_empty());
    assert_eq!((nothing.count(), nothing.undefined()), (0, 1));
    assert_eq!(
        (nothing.mean(), nothing.min(), nothing.max()),
        (None, None, None)
    );
    assert_eq!(nothing.quantile(0.5), None);
    assert_eq!(nothing.share_within(u64::MAX), None);
    assert_eq!(nothing.cdf(5), []);
    assert_eq!(nothing.histogram(5), []);
    assert_eq!(nothing.adjusted_quantile(0.5), Adjusted::Above(None));
    assert_eq!(
        Distribution::new().adjusted_quantile(0.5),
        Adjusted::Nothing
    );
}

#[test]
fn empty_answers_do_not_pull_the_median_to_zero() {
    let mut ttft: Distribution = std::iter::repeat_n(120, 490).collect();
    (0..510).for_each(|_| ttft.record_option(None));
    assert_eq!(ttft.quantile(0.5), Some(120.0));
    assert_eq!((ttft.count(), ttft.undefined()), (490, 510));
    assert_eq!(ttft.adjusted_quantile(0.5), Adjusted::Above(None));
}

#[test]
fn failures_do_not_lower_the_adjusted_percentile() {
    let mut ttft: Distribution = std::iter::repeat_n(200, 90).collect();
    (0..10).for_each(|_| ttft.record_censored(10_000));
    assert_eq!(ttft.quantile(0.95), Some(200.0));
    assert_eq!(
        ttft.adjusted_quantile(0.95),
        Adjusted::Above(Some(10_000.0))
    );
    assert_eq!(ttft.adjusted_quantile(0.5), Adjusted::Value(200.0));
}

#[test]
fn without_failures_the_adjusted_quantile_is_the_plain_one() {
    let values: Distribution = (0..=100).map(|i| i * i).collect();
    for q in [0.0, 0.25, 0.5, 0.99, 1.0] {
        assert_eq!(
            values.adjusted_quantile(q),
            Adjusted::Value(values.quantile(q).unwrap())
        );
    }
}

#[test]
fn the_65537th_sample_turns_it_into_buckets() {
    let mut values: Distribution = (0..65_536).map(|i| 1_000_000 + i * 1_000).collect();
    assert!(values.is_exact());
    let exact = values.quantile(0.99).unwrap();
    values.record(1_000_000);
    assert!(!values.is_exact());
    let rough = values.quantile(0.99).unwrap();
    assert!(
        (rough / exact - 1.0).abs() < 0.001,
        "{rough} against {exact}"
    );
    assert_eq!(values.max(), Some(66_535_000));
}

#[test]
fn a_file_that_was_changed_is_refused() {
    let saved = SavedDistribution::from([5, 7].into_iter().collect::<Distribution>());
    let broken = [
        SavedDistribution {
            steps: None,
            ..saved.clone()
        },
        SavedDistribution {
            buckets: Some(vec![(3, 1)]),
            ..saved.clone()
        },
        SavedDistribution {
            ends: None,
            ..saved.clone()
        },
        SavedDistribution {
            steps: Some(vec![2, u64::MAX]),
            ..saved.clone()
        },
        SavedDistribution {
            steps: Some(vec![0; EXACT_SAMPLES + 1]),
            ..saved.clone()
        },
        SavedDistribution {
            steps: None,
            buckets: Some(vec![(usize::MAX - 1, 1)]),
            ..saved.clone()
        },
        SavedDistribution {
            steps: None,
            buckets: Some(vec![(3, 1), (3, 1)]),
            ..saved.clone()
        },
        SavedDistribution {
            steps: None,
            buckets: Some(vec![(3, 1), (4, u64::MAX)]),
            ..saved.clone()
        },
    ];
    for saved in broken {
        assert!(Distribution::try_from(saved.clone()).is_err(), "{saved:?}");
    }
    assert!(Distribution::try_from(saved).is_ok());
}

#[test]
fn histogram_and_cdf_account_for_every_value() {
    let values: Distribution = [1, 2, 2, 3, 11].into_iter().collect();
    let bars = values.histogram(5);
    assert_eq!(
        bars.iter().map(|bar| bar.count).collect::<Vec<_>>(),
        [3, 1, 0, 0, 1]
    );
    assert_eq!(
        bars[0],
        Bar {
            low: 1.0,
            high: 3.0,
            count: 3
        }
    );
    assert_eq!(values.cdf(3), [(1.0, 0.0), (2.0, 0.5), (11.0, 1.0)]);
    let same: Distribution = [4, 4].into_iter().collect();
    assert_eq!(
        same.histogram(3).iter().map(|bar| bar.count).sum::<u64>(),
        2
    );
}

proptest! {
    #[test]
    fn order_and_shards_change_nothing(
        values in prop::collection::vec(prop::option::of(1_u64..1 << 40), 0..60),
        cuts in prop::collection::vec(0_usize..3, 60),
    ) {
        let mut whole = small([]);
        let mut shards = [small([]), small([]), small([])];
        for (value, &shard) in values.iter().zip(&cuts) {
            whole.record_option(*value);
            shards[shard].record_option(*value);
        }
        let [mut forward, middle, mut backward] = shards.clone();
        forward.merge(&middle);
        forward.merge(&backward);
        backward.merge(&middle);
        backward.merge(&shards[0]);
        prop_assert_eq!(&forward, &whole);
        prop_assert_eq!(&backward, &whole);
        for q in [0.0, 0.5, 0.9, 0.99, 1.0] {
            prop_assert_eq!(backward.quantile(q), whole.quantile(q));
        }
        prop_assert_eq!(whole.count() + whole.undefined(), values.len() as u64);
    }

    #[test]
    fn what_was_saved_comes_back_and_merges_like_what_was_not(
        values in prop::collection::vec(prop::option::of(any::<u64>()), 0..60),
        more in prop::collection::vec(0_u64..1 << 40, 0..60),
        watched in prop::collection::vec(1_u64..1 << 40, 0..3),
    ) {
        for limit in [EXACT_SAMPLES, 16] {
            let mut one = Distribution::with_limit(limit);
            for value in &values {
                one.record_option(*value);
            }
            for least in &watched {
                one.record_censored(*least);
            }
            let mut again = Distribution::try_from(SavedDistribution::from(one.clone())).unwrap();
            again.limit = limit;
            prop_assert_eq!(&again, &one);
            let other: Distribution = more.iter().copied().collect();
            one.merge(&other);
            again.merge(&SavedDistribution::from(other).try_into().unwrap());
            prop_assert_eq!(again, one);
        }
    }

    #[test]
    fn buckets_stay_within_a_thousandth_of_the_exact_figures(
        values in prop::collection::vec(0_u64..1 << 45, 17..80),
        q in 0.0..=1.0_f64,
    ) {
        let rough = small(values.iter().copied());
        let exact: Distribution = values.iter().copied().collect();
        prop_assert!(!rough.is_exact() && exact.is_exact());
        let (r, e) = (rough.quantile(q).unwrap(), exact.quantile(q).unwrap());
        prop_assert!((r - e).abs() <= e * 0.001, "{} against {}", r, e);
        prop_assert_eq!(rough.mean(), exact.mean());
        prop_assert_eq!((rough.min(), rough.max()), (exact.min(), exact.max()));
        prop_assert_eq!(rough.histogram(7).iter().map(|bar| bar.count).sum::<u64>(), values.len() as u64);
    }

    #[test]
    fn the_share_within_a_bound_agrees_with_counting(
        values in prop::collection::vec(0_u64..1000, 17..80),
        bound in 0_u64..1100,
    ) {
        // Below 1,024 every value has its own bucket, so even the buckets are exact.
        let within = values.iter().filter(|&&v| v <= bound).count() as f64 / values.len() as f64;
        let exact: Distribution = values.iter().copied().collect();
        prop_assert_eq!(exact.share_within(bound), Some(within));
        prop_assert_eq!(small(values).share_within(bound), Some(within));
    }
}
