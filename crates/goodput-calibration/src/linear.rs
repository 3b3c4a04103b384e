//! Small dense linear algebra: what a regression over a handful of coefficients needs.

/// A square matrix, row by row.
#[derive(Clone, Debug, PartialEq)]
pub struct Square {
    size: usize,
    values: Vec<f64>,
}

impl Square {
    /// Zeros.
    #[must_use]
    pub fn zeros(size: usize) -> Self {
        Self {
            size,
            values: vec![0.0; size * size],
        }
    }

    /// Rows and columns.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.size
    }

    /// The value in a row and a column.
    #[must_use]
    pub fn at(&self, row: usize, column: usize) -> f64 {
        self.values[row * self.size + column]
    }

    /// Adds to a value.
    pub fn add(&mut self, row: usize, column: usize, value: f64) {
        self.values[row * self.size + column] += value;
    }

    /// Adds `factor` times another matrix of the same size.
    pub fn add_scaled(&mut self, other: &Self, factor: f64) {
        for (value, more) in self.values.iter_mut().zip(&other.values) {
            *value += factor * more;
        }
    }

    /// The product with a vector.
    #[must_use]
    pub fn times(&self, vector: &[f64]) -> Vec<f64> {
        (0..self.size)
            .map(|row| (0..self.size).map(|c| self.at(row, c) * vector[c]).sum())
            .collect()
    }

    /// The rows and columns of `kept`, in that order.
    #[must_use]
    pub fn of_only(&self, kept: &[usize]) -> Self {
        let mut part = Self::zeros(kept.len());
        for (i, &row) in kept.iter().enumerate() {
            for (j, &column) in kept.iter().enumerate() {
                part.add(i, j, self.at(row, column));
            }
        }
        part
    }

    /// Rows and columns divided by `scale`: `a_ij / (s_i s_j)`.
    #[must_use]
    pub fn scaled(&self, scale: &[f64]) -> Self {
        let mut scaled = Self::zeros(self.size);
        for row in 0..self.size {
            for column in 0..self.size {
                scaled.add(
                    row,
                    column,
                    self.at(row, column) / (scale[row] * scale[column]),
                );
            }
        }
        scaled
    }

    /// Solves `self x = right` for a symmetric positive definite matrix, by Cholesky's
    /// decomposition. `None` where it is not definite to within rounding.
    #[must_use]
    pub fn solve(&self, right: &[f64]) -> Option<Vec<f64>> {
        let lower = self.cholesky()?;
        let n = self.size;
        let mut x = right.to_vec();
        for i in 0..n {
            let known: f64 = (0..i).map(|j| lower.at(i, j) * x[j]).sum();
            x[i] = (x[i] - known) / lower.at(i, i);
        }
        for i in (0..n).rev() {
            let known: f64 = (i + 1..n).map(|j| lower.at(j, i) * x[j]).sum();
            x[i] = (x[i] - known) / lower.at(i, i);
        }
        Some(x)
    }

    /// The inverse of a symmetric positive definite matrix.
    #[must_use]
    pub fn inverse(&self) -> Option<Self> {
        let mut inverse = Self::zeros(self.size);
        for column in 0..self.size {
            let mut unit = vec![0.0; self.size];
            unit[column] = 1.0;
            for (row, value) in self.solve(&unit)?.into_iter().enumerate() {
                inverse.add(row, column, value);
            }
        }
        Some(inverse)
    }

    fn cholesky(&self) -> Option<Self> {
        let n = self.size;
        let mut lower = Self::zeros(n);
        for i in 0..n {
            for j in 0..=i {
                let known: f64 = (0..j).map(|k| lower.at(i, k) * lower.at(j, k)).sum();
                let rest = self.at(i, j) - known;
                if i == j {
                    // What is left of the diagonal is lost in rounding: the columns are dependent.
                    if rest <= self.at(i, i).abs() * 1e-13 {
                        return None;
                    }
                    lower.add(i, i, libm::sqrt(rest));
                } else {
                    let pivot = lower.at(j, j);
                    lower.add(i, j, rest / pivot);
                }
            }
        }
        Some(lower)
    }

    /// The eigenvalues of a symmetric matrix, ascending, by Jacobi's rotations.
    #[must_use]
    pub fn eigenvalues(&self) -> Vec<f64> {
        let mut a = self.clone();
        let n = self.size;
        for _ in 0..100 {
            let mut off = 0.0;
            for p in 0..n {
                for q in p + 1..n {
                    off += a.at(p, q) * a.at(p, q);
                    a.rotate(p, q);
                }
            }
            if off < 1e-30 {
                break;
            }
        }
        let mut values: Vec<f64> = (0..n).map(|i| a.at(i, i)).collect();
        values.sort_by(f64::total_cmp);
        values
    }

    /// One of Jacobi's rotations: makes the value at `(p, q)` zero.
    fn rotate(&mut self, p: usize, q: usize) {
        let off = self.at(p, q);
        if off == 0.0 {
            return;
        }
        let theta = (self.at(q, q) - self.at(p, p)) / (2.0 * off);
        let sign = if theta < 0.0 { -1.0 } else { 1.0 };
        let tangent = sign / (theta.abs() + libm::sqrt(theta * theta + 1.0));
        let cosine = 1.0 / libm::sqrt(tangent * tangent + 1.0);
        let sine = tangent * cosine;
        let size = self.size;
        let mut turn = |first: usize, second: usize| {
            let (x, y) = (self.values[first], self.values[second]);
            self.values[first] = cosine * x - sine * y;
            self.values[second] = sine * x + cosine * y;
        };
        for other in 0..size {
            turn(other * size + p, other * size + q);
        }
        for other in 0..size {
            turn(p * size + other, q * size + other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(rows: &[&[f64]]) -> Square {
        let mut matrix = Square::zeros(rows.len());
        for (i, row) in rows.iter().enumerate() {
            for (j, value) in row.iter().enumerate() {
                matrix.add(i, j, *value);
            }
        }
        matrix
    }

    // The example of most textbooks: its factor is whole, [2], [6, 1], [-8, 5, 3].
    #[test]
    fn a_definite_system_is_solved() {
        let a = matrix(&[
            &[4.0, 12.0, -16.0],
            &[12.0, 37.0, -43.0],
            &[-16.0, -43.0, 98.0],
        ]);
        let x = a.solve(&a.times(&[1.0, -2.0, 3.0])).unwrap();
        for (got, want) in x.iter().zip([1.0, -2.0, 3.0]) {
            assert!((got - want).abs() < 1e-10, "{x:?}");
        }
        let inverse = a.inverse().unwrap();
        assert!((inverse.at(0, 0) - 1777.0 / 36.0).abs() < 1e-9);
    }

    #[test]
    fn dependent_columns_have_no_solution() {
        assert_eq!(matrix(&[&[1.0, 2.0], &[2.0, 4.0]]).solve(&[1.0, 2.0]), None);
    }

    // The discrete Laplacian of n points has the eigenvalues 2 - 2 cos(k pi / (n + 1)).
    #[test]
    fn eigenvalues_of_the_laplacian_are_known() {
        let n = 6;
        let mut a = Square::zeros(n);
        for i in 0..n {
            a.add(i, i, 2.0);
            if i + 1 < n {
                a.add(i, i + 1, -1.0);
                a.add(i + 1, i, -1.0);
            }
        }
        for (k, value) in a.eigenvalues().into_iter().enumerate() {
            let angle = (k + 1) as f64 * std::f64::consts::PI / (n + 1) as f64;
            assert!(
                (value - (2.0 - 2.0 * libm::cos(angle))).abs() < 1e-12,
                "{k}"
            );
        }
    }
}
