//! How the time of a trajectory is split over its steps.

use goodput_stats::quantile;
use serde::Serialize;

/// A way to split a deadline over steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SplitRule {
    /// Every step the same: the essay's ten steps of one second each.
    Equal,
    /// In proportion to the median time of each step: contexts grow, so later steps get more.
    Proportional,
    /// To each step its mean and its share in the variance of the sum, correlation included: a
    /// normal sum, Euler's allocation.
    VarianceAware,
    /// To each step the same quantile of its time, so that they add up to the deadline: right where
    /// all steps are slow together.
    EqualTail,
    /// After each step what is left is split anew by variance over the steps to come.
    Online,
}

impl SplitRule {
    /// All rules, in the order in which they are shown.
    pub const ALL: [Self; 5] = [
        Self::Equal,
        Self::Proportional,
        Self::VarianceAware,
        Self::EqualTail,
        Self::Online,
    ];
}

/// Times of trajectories of equally many steps: one row a trajectory, one column a step, in seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Times {
    rows: Vec<Vec<f64>>,
    /// Columns, each sorted.
    sorted: Vec<Vec<f64>>,
    means: Vec<f64>,
    /// Covariance of step i and step j.
    covariance: Vec<Vec<f64>>,
}

impl Times {
    /// Of these rows. `None` below two rows, without a step, or if rows differ in length.
    #[must_use]
    pub fn new(rows: Vec<Vec<f64>>) -> Option<Self> {
        let steps = rows.first()?.len();
        if rows.len() < 2 || steps == 0 || rows.iter().any(|row| row.len() != steps) {
            return None;
        }
        let count = rows.len() as f64;
        let column = |k: usize| rows.iter().map(move |row| row[k]);
        let means: Vec<f64> = (0..steps).map(|k| column(k).sum::<f64>() / count).collect();
        let sorted = (0..steps).map(|k| {
            let mut values: Vec<f64> = column(k).collect();
            values.sort_by(f64::total_cmp);
            values
        });
        let sorted = sorted.collect();
        let covariance = (0..steps).map(|i| {
            let with = |j: usize| {
                let products = rows
                    .iter()
                    .map(|row| (row[i] - means[i]) * (row[j] - means[j]));
                products.sum::<f64>() / (count - 1.0)
            };
            (0..steps).map(with).collect()
        });
        Some(Self {
            covariance: covariance.collect(),
            means: means.clone(),
            sorted,
            rows,
        })
    }

    /// Steps of a trajectory.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.means.len()
    }

    /// The trajectories.
    #[must_use]
    pub fn rows(&self) -> &[Vec<f64>] {
        &self.rows
    }

    fn quantile(&self, step: usize, q: f64) -> f64 {
        quantile(&self.sorted[step], q).unwrap_or(0.0)
    }

    /// The budgets of all steps under a rule that is settled ahead; they add up to `deadline_s`.
    /// [`SplitRule::Online`] begins like [`SplitRule::VarianceAware`].
    #[must_use]
    pub fn split(&self, rule: SplitRule, deadline_s: f64) -> Vec<f64> {
        let steps = self.steps();
        match rule {
            SplitRule::Equal => vec![deadline_s / steps as f64; steps],
            SplitRule::Proportional => self.proportional(deadline_s),
            SplitRule::VarianceAware | SplitRule::Online => self.by_variance(0, deadline_s),
            SplitRule::EqualTail => self.equal_tail(deadline_s),
        }
    }

    fn proportional(&self, deadline_s: f64) -> Vec<f64> {
        let medians: Vec<f64> = (0..self.steps()).map(|k| self.quantile(k, 0.5)).collect();
        let sum: f64 = medians.iter().sum();
        medians
            .iter()
            .map(|median| deadline_s * median / sum)
            .collect()
    }

    /// Budgets of the steps from `first` on, which add up to `left_s`: each its mean, and of what is
    /// over its covariance with the sum, as a share of the sum's variance.
    #[must_use]
    pub fn by_variance(&self, first: usize, left_s: f64) -> Vec<f64> {
        let ahead = first..self.steps();
        let mean: f64 = self.means[ahead.clone()].iter().sum();
        let shares: Vec<f64> = ahead
            .clone()
            .map(|i| ahead.clone().map(|j| self.covariance[i][j]).sum())
            .collect();
        let variance: f64 = shares.iter().sum();
        let even = 1.0 / shares.len().max(1) as f64;
        let means = self.means[ahead].iter().zip(&shares);
        let budgets = means.map(|(step, share)| {
            let part = if variance > 0.0 {
                share / variance
            } else {
                even
            };
            step + (left_s - mean) * part
        });
        budgets.collect()
    }

    fn equal_tail(&self, deadline_s: f64) -> Vec<f64> {
        let at = |q: f64| -> Vec<f64> { (0..self.steps()).map(|k| self.quantile(k, q)).collect() };
        let sum = |q: f64| at(q).iter().sum::<f64>();
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..50 {
            let middle = f64::midpoint(low, high);
            if sum(middle) <= deadline_s {
                low = middle;
            } else {
                high = middle;
            }
        }
        // What lies beyond all that was seen, or is lost between two values, is shared in proportion.
        let budgets = at(low);
        let whole: f64 = budgets.iter().sum();
        budgets
            .iter()
            .map(|budget| budget * deadline_s / whole)
            .collect()
    }

    /// What a rule, made from these times, does to a trajectory: for each step whether it outlasted
    /// its budget.
    #[must_use]
    pub fn broken(&self, rule: SplitRule, deadline_s: f64, times: &[f64]) -> Vec<bool> {
        if rule != SplitRule::Online {
            let budgets = self.split(rule, deadline_s);
            return times
                .iter()
                .zip(budgets)
                .map(|(time, budget)| *time > budget)
                .collect();
        }
        let mut left = deadline_s;
        let steps = times.iter().enumerate().map(|(k, time)| {
            // The last step has all that is left, as by_variance says for one step.
            let budget = self.by_variance(k, left)[0];
            left -= time;
            *time > budget
        });
        steps.collect()
    }
}
