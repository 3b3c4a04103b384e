//! Plans: how many replicas a demand needs, in which pools, and how a trajectory spends its time.
//!
//! A [`Budget`] is the rate at which one replica surely keeps its SLO, simulated ([`find`] over a
//! [`ReplicaModel`]) or measured. [`plan`] holds a [`Demand`] against it: whole replicas with headroom, with one that may fail,
//! with what is seen at the load they run at and what they cost. Sizes come from attainment at the SLO's own
//! share, never from means; every [`Figure`] says what it was made from.
//!
//! Pure: what is measured, read or printed is given to it or taken from it.

mod books;
mod budget;
mod capacity;
mod demand;
mod figure;
mod mix;
mod plain;
mod pools;
mod price;
mod replica;
mod simulated;
mod size;
#[cfg(test)]
mod tests;
mod trajectory;
mod work;

pub use budget::{Budget, Effort, Found, NoBudget, find, interactive};
pub use capacity::{
    Answer, CapacityPlan, LADDER, PLAN_SCHEMA_VERSION, PlanError, Question, Rung, plan,
};
pub use demand::{Burst, DRIVING_WINDOW, Demand, DemandError, MOST_GROWTH, MOST_MONTHS, MOST_RATE};
pub use figure::{Assumption, Figure};
pub use mix::{ClassLoad, run_mix};
pub use plain::{JudgedBy, PlainPage, decode_seconds, judged_by, page};
pub use pools::{
    ClassFacts, Layout, Pool, PoolClass, PoolQuestion, PoolsOver, PoolsPlan, Way, compare_pools,
    compare_pools_over,
};
pub use price::{Cost, Delivered, Price, cost};
pub use replica::{LoadFigures, ReplicaModel, Simulated, measured};
pub use simulated::plan_simulated;
pub use size::{
    BATCH_TARGET, DecidedBy, INTERACTIVE_BAND, INTERACTIVE_TARGET, Rule, SizeError, Sizing,
    on_list, size,
};
pub use trajectory::{
    AgentShape, SplitRow, SplitRule, Times, TrajectoryError, TrajectoryPlan, TrajectoryQuestion,
    plan_trajectory,
};
pub use work::{scaled, shifted_rate, work_seconds};
