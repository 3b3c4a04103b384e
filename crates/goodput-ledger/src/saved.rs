//! Books as they stand in a file, so that the shards of one point can be put together later and
//! elsewhere: whole numbers and mergeable distributions, nothing rounded.

use goodput_slo::Slo;
use serde::{Deserialize, Serialize};

use crate::{
    bins::Bins,
    books::{PointBooks, SloBooks},
    checks::Checks,
    counts::{Counted, Lengths, Spans},
    paces::Paces,
};

/// All that the books of one load point hold, once no request of it is open.
///
/// Sessions that never ended are left out: they are neither met nor missed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SavedBooks {
    bins: Bins<7>,
    slos: Vec<SavedSlo>,
    counted: Counted,
    spans: Spans,
    lengths: Lengths,
    paces: Paces,
    checks: Checks,
    looks: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct SavedSlo {
    name: String,
    terms: String,
    bins: Bins<6>,
    clause_misses: Vec<u64>,
    outcome_misses: u64,
    trajectories: [u64; 3],
}

/// Why saved books cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BooksError {
    /// They were kept by other SLOs, named here.
    OtherSlos(Vec<String>),
    /// Their parts contradict each other: the file was changed.
    Broken(&'static str),
}

impl std::fmt::Display for BooksError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::OtherSlos(names) => {
                write!(f, "the books were kept by other SLOs: {}", names.join(", "))
            }
            Self::Broken(part) => write!(f, "the books are broken: {part}"),
        }
    }
}

impl std::error::Error for BooksError {}

impl PointBooks {
    /// The books as a file holds them.
    #[must_use]
    pub fn save(&self) -> SavedBooks {
        // Named one by one, so that what is added to the books is not forgotten here.
        let Self {
            bins,
            slos,
            counted,
            spans,
            lengths,
            paces,
            looks,
            checks,
            // Settled before anything is read.
            brief: _,
            sessions: _,
        } = self;
        SavedBooks {
            bins: bins.clone(),
            slos: slos.iter().map(SloBooks::save).collect(),
            counted: counted.clone(),
            spans: spans.clone(),
            lengths: lengths.clone(),
            paces: paces.clone(),
            checks: checks.clone(),
            looks: *looks,
        }
    }

    /// The books again, to be read by the same `slos` that kept them.
    ///
    /// # Errors
    /// If they were kept by other SLOs, or if the file was changed.
    pub fn restore(saved: SavedBooks, slos: &[Slo]) -> Result<Self, BooksError> {
        let same = slos.len() == saved.slos.len()
            && slos
                .iter()
                .zip(&saved.slos)
                .all(|(slo, saved)| slo.name() == saved.name && slo.terms() == saved.terms);
        if !same {
            let names = saved.slos.into_iter().map(|slo| slo.name);
            return Err(BooksError::OtherSlos(names.collect()));
        }
        let width = saved.bins.width_ns();
        let widths = saved.slos.iter().map(|slo| slo.bins.width_ns());
        if width == 0 || widths.chain([saved.paces.width_ns()]).any(|w| w != width) {
            return Err(BooksError::Broken("its bins differ in width"));
        }
        let mut books = Self::new(slos, std::time::Duration::from_nanos(width));
        for (books, saved) in books.slos.iter_mut().zip(saved.slos) {
            if books.clause_misses.len() != saved.clause_misses.len() {
                return Err(BooksError::Broken("it has misses of other clauses"));
            }
            books.bins = saved.bins;
            books.clause_misses = saved.clause_misses;
            books.outcome_misses = saved.outcome_misses;
            books.trajectories = saved.trajectories;
        }
        books.bins = saved.bins;
        books.counted = saved.counted;
        books.spans = saved.spans;
        books.lengths = saved.lengths;
        books.paces = saved.paces;
        books.checks = saved.checks;
        books.looks = saved.looks;
        Ok(books)
    }
}

impl SloBooks {
    fn save(&self) -> SavedSlo {
        SavedSlo {
            name: self.slo.name().to_owned(),
            terms: self.slo.terms(),
            bins: self.bins.clone(),
            clause_misses: self.clause_misses.clone(),
            outcome_misses: self.outcome_misses,
            trajectories: self.trajectories,
        }
    }
}

#[cfg(test)]
mod tests;
