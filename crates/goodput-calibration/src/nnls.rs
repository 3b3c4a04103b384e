//! Least squares whose coefficients may not be negative.

use crate::linear::Square;

/// A least-squares problem by its normal equations: `A'WA` and `A'Wb`.
#[derive(Clone, Debug, PartialEq)]
pub struct Normal {
    /// `A'WA`.
    pub gram: Square,
    /// `A'Wb`.
    pub moment: Vec<f64>,
}

impl Normal {
    /// A problem without a row.
    #[must_use]
    pub fn empty(columns: usize) -> Self {
        Self {
            gram: Square::zeros(columns),
            moment: vec![0.0; columns],
        }
    }

    /// Adds a row of the design, what it is to give, and its weight.
    pub fn add(&mut self, row: &[f64], target: f64, weight: f64) {
        for (i, x) in row.iter().enumerate() {
            if *x == 0.0 {
                continue;
            }
            for (j, y) in row.iter().enumerate() {
                self.gram.add(i, j, weight * x * y);
            }
            self.moment[i] += weight * x * target;
        }
    }

    /// Adds `factor` times another problem over the same columns.
    pub fn add_scaled(&mut self, other: &Self, factor: f64) {
        self.gram.add_scaled(&other.gram, factor);
        for (value, more) in self.moment.iter_mut().zip(&other.moment) {
            *value += factor * more;
        }
    }

    /// The coefficients of least squares under `x >= 0`: the active-set method of Lawson and
    /// Hanson (Solving Least Squares Problems, 1974, chapter 23), on the normal equations with
    /// columns of unit length. A column without a row, or that depends on those chosen before it,
    /// has the coefficient 0.
    #[must_use]
    pub fn solve(&self) -> Vec<f64> {
        let n = self.gram.size();
        let scale = column_lengths(&self.gram);
        let gram = self.gram.scaled(&scale);
        let moment: Vec<f64> = (0..n).map(|i| self.moment[i] / scale[i]).collect();
        let mut active = ActiveSet {
            gram: &gram,
            moment: &moment,
            passive: Vec::new(),
            barred: vec![false; n],
            x: vec![0.0; n],
        };
        // Each pass adds a column for good or bars it; the bound is against rounding.
        for _ in 0..10 * (n + 1) {
            if !active.pass() {
                break;
            }
        }
        (0..n).map(|i| active.x[i] / scale[i]).collect()
    }
}

/// The length of each column; 1 for a column of zeros.
pub(crate) fn column_lengths(gram: &Square) -> Vec<f64> {
    (0..gram.size())
        .map(|i| libm::sqrt(gram.at(i, i)))
        .map(|length| if length > 0.0 { length } else { 1.0 })
        .collect()
}

struct ActiveSet<'a> {
    gram: &'a Square,
    moment: &'a [f64],
    /// Columns that may be above zero.
    passive: Vec<usize>,
    /// Columns that depend on the passive ones.
    barred: Vec<bool>,
    x: Vec<f64>,
}

impl ActiveSet<'_> {
    /// Lets in the column along which the error falls fastest. `false`: there is none.
    fn pass(&mut self) -> bool {
        let fitted = self.gram.times(&self.x);
        let largest = self.moment.iter().fold(0.0_f64, |m, v| m.max(v.abs()));
        let outside = (0..self.x.len()).filter(|i| !self.passive.contains(i) && !self.barred[*i]);
        let best = outside
            .map(|i| (i, self.moment[i] - fitted[i]))
            .filter(|(_, slope)| *slope > 1e-12 * largest)
            .max_by(|a, b| a.1.total_cmp(&b.1));
        let Some((entering, _)) = best else {
            return false;
        };
        self.passive.push(entering);
        if self.settle() {
            return true;
        }
        self.passive.retain(|&i| i != entering);
        self.barred[entering] = true;
        true
    }

    /// Solves for the passive columns; takes out those that would turn negative. `false`: they
    /// depend on each other, or the last one came in for nothing.
    fn settle(&mut self) -> bool {
        let entering = self.passive.last().copied();
        for _ in 0..=self.x.len() {
            let right: Vec<f64> = self.passive.iter().map(|&i| self.moment[i]).collect();
            let Some(wanted) = self.gram.of_only(&self.passive).solve(&right) else {
                return false;
            };
            let steps = self.passive.iter().zip(&wanted);
            let blocking = steps
                .filter(|(_, want)| **want <= 0.0)
                .map(|(&i, want)| (i, self.x[i] / (self.x[i] - want).max(f64::MIN_POSITIVE)))
                .min_by(|a, b| a.1.total_cmp(&b.1));
            let Some((_, share)) = blocking else {
                self.x.fill(0.0);
                for (&i, want) in self.passive.iter().zip(wanted) {
                    self.x[i] = want;
                }
                return true;
            };
            for (&i, want) in self.passive.iter().zip(&wanted) {
                self.x[i] += share.min(1.0) * (want - self.x[i]);
            }
            let x = &mut self.x;
            self.passive.retain(|&i| {
                let stays = x[i] > 1e-14;
                if !stays {
                    x[i] = 0.0;
                }
                stays
            });
            if entering.is_some_and(|i| !self.passive.contains(&i)) {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn problem(rows: &[&[f64]], targets: &[f64]) -> Normal {
        let mut normal = Normal::empty(rows[0].len());
        for (row, target) in rows.iter().zip(targets) {
            normal.add(row, *target, 1.0);
        }
        normal
    }

    #[test]
    fn a_line_through_points_is_found() {
        let x = problem(&[&[1.0, 1.0], &[1.0, 2.0], &[1.0, 3.0]], &[3.0, 5.0, 7.0]).solve();
        assert!(
            (x[0] - 1.0).abs() < 1e-10 && (x[1] - 2.0).abs() < 1e-10,
            "{x:?}"
        );
    }

    // Without the bound the slope would be -2; with it the best constant is the mean.
    #[test]
    fn what_would_be_negative_is_zero_and_the_rest_is_fitted_again() {
        let x = problem(&[&[1.0, 1.0], &[1.0, 2.0], &[1.0, 3.0]], &[7.0, 5.0, 3.0]).solve();
        assert!((x[0] - 5.0).abs() < 1e-10, "{x:?}");
        assert!(x[1].abs() < f64::EPSILON, "{x:?}");
    }

    // Lawson and Hanson's own kind of case: a column must be let in and taken out again.
    #[test]
    fn a_column_let_in_first_may_have_to_leave() {
        let rows: [&[f64]; 3] = [&[1.0, 0.9, 0.0], &[0.0, 0.5, 1.0], &[0.2, 0.6, 0.1]];
        let normal = problem(&rows, &[1.0, 1.0, 0.2]);
        kkt(&normal, &normal.solve());
    }

    #[test]
    fn a_column_that_depends_on_another_is_left_out() {
        let x = problem(&[&[1.0, 2.0], &[2.0, 4.0]], &[1.0, 2.0]).solve();
        let fitted = x[0] + 2.0 * x[1];
        assert!((fitted - 1.0).abs() < 1e-10, "{x:?}");
        assert_eq!(Normal::empty(3).solve(), vec![0.0; 3]);
    }

    /// The conditions of Kuhn and Tucker: no coefficient negative, no slope upward outside, and
    /// none at all inside.
    fn kkt(normal: &Normal, x: &[f64]) {
        let fitted = normal.gram.times(x);
        let size = normal.moment.iter().fold(1e-9_f64, |m, v| m.max(v.abs()));
        for i in 0..x.len() {
            let slope = (normal.moment[i] - fitted[i]) / size;
            assert!(x[i] >= 0.0, "{x:?}");
            assert!(slope < 1e-6, "{i}: {slope} {x:?}");
            assert!(x[i] == 0.0 || slope.abs() < 1e-6, "{i}: {slope} {x:?}");
        }
    }

    proptest! {
        #[test]
        fn the_solution_meets_the_conditions_of_kuhn_and_tucker(
            rows in prop::collection::vec(
                (prop::collection::vec(-2.0_f64..2.0, 4), -3.0_f64..3.0), 6..30)
        ) {
            let mut normal = Normal::empty(4);
            for (row, target) in &rows {
                normal.add(row, *target, 1.0);
            }
            kkt(&normal, &normal.solve());
        }
    }
}
