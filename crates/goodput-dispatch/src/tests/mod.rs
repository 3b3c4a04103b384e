mod affinity;
mod cases;
mod conservation;
mod fairness;
mod order;
mod queueing;
mod readiness;
mod world;
