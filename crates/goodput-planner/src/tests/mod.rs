//! Exact rules first, then replicas whose truth is known, then simulated ones.

mod budgets;
mod lanes;
mod pools;
mod sizes;
mod trajectories;
