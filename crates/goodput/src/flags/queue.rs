//! Flags of `plan queue`.

use clap::{Args, ValueEnum};

// Groups of --help.
const LOAD: &str = "Load";
const REPLICA: &str = "A replica in place of --service";

/// Flags of `plan queue`.
#[derive(Clone, Debug, Args)]
#[command(group = clap::ArgGroup::new("pace").required(true).args(["service", "mu", "profile"]))]
pub(crate) struct QueueFlags {
    /// Requests a second
    #[arg(long, value_name = "RATE", help_heading = LOAD)]
    pub(crate) rate: f64,
    /// Mean service time of a request, 1/mu, e.g. 120ms
    #[arg(long, value_name = "SPAN", help_heading = LOAD)]
    pub(crate) service: Option<String>,
    /// Requests a second one server serves, instead of --service
    #[arg(long, value_name = "RATE", help_heading = LOAD)]
    pub(crate) mu: Option<f64>,
    /// Servers, each working on one request at a time
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = LOAD,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000), conflicts_with = "profile")]
    pub(crate) servers: u32,
    /// Squared coefficient of variation of gaps between arrivals: 1 Poisson, more for bursts
    #[arg(long, value_name = "SCV", default_value_t = 1.0, help_heading = LOAD)]
    pub(crate) scv_arrivals: f64,
    /// Squared coefficient of variation of service times: 0 all equal, 1 exponential
    #[arg(long, value_name = "SCV", default_value_t = 1.0, help_heading = LOAD)]
    pub(crate) scv_service: f64,
    /// Share by which variance and mean are cut, to compare the two
    #[arg(long, value_name = "PERCENT", default_value = "20%", help_heading = LOAD)]
    pub(crate) cut: String,
    /// Engine profile: its places in the batch are the servers; a built-in name, a file or MODEL@DEVICE
    #[arg(long, value_name = "NAME|FILE", help_heading = REPLICA, requires_all = ["input", "output"])]
    pub(crate) profile: Option<String>,
    /// Tokens of a prompt
    #[arg(long, value_name = "TOKENS", help_heading = REPLICA, requires = "profile",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) input: Option<u32>,
    /// Tokens of an answer
    #[arg(long, value_name = "TOKENS", help_heading = REPLICA, requires = "profile",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) output: Option<u32>,
    /// What stdout carries
    #[arg(long, value_enum, default_value_t = QueueFormat::Human)]
    pub(crate) format: QueueFormat,
}

/// What stdout carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum QueueFormat {
    /// Text for people.
    Human,
    /// One JSON document.
    Json,
}
