//! Names, interned: a record carries one small number for tenant, class, pool, model and replica.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// An interned [`Series`]; its names live in the run's [`SeriesTable`].
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct SeriesId(u32);

impl SeriesId {
    /// The position in the table.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Whom and what a request belongs to. An empty name means "not said".
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Series {
    /// Who pays: a customer, a team, an API key's owner.
    pub tenant: String,
    /// The kind of interaction: chat, agent, batch.
    pub class: String,
    /// The group of replicas that serves it.
    pub pool: String,
    /// The served model's id, as in the request.
    pub model: String,
    /// The one replica that served it, where known.
    pub replica: String,
}

/// The names of one run, in the order in which they were first seen.
#[derive(Clone, Debug, Default)]
pub struct SeriesTable {
    names: Vec<Series>,
    ids: BTreeMap<Series, SeriesId>,
}

impl SeriesTable {
    /// Returns the id of `series`, new or known.
    pub fn intern(&mut self, series: &Series) -> SeriesId {
        if let Some(&id) = self.ids.get(series) {
            return id;
        }
        let id = SeriesId(u32::try_from(self.names.len()).unwrap_or(u32::MAX));
        self.names.push(series.clone());
        self.ids.insert(series.clone(), id);
        id
    }

    /// The names behind `id`, or `None` if it is from another table.
    #[must_use]
    pub fn get(&self, id: SeriesId) -> Option<&Series> {
        self.names.get(id.index())
    }

    /// Every series, in the order of its id.
    pub fn iter(&self) -> impl Iterator<Item = (SeriesId, &Series)> {
        self.names.iter().zip(0..).map(|(s, i)| (SeriesId(i), s))
    }
}
