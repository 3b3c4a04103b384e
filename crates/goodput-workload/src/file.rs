//! The workload file: TOML to a checked [`WorkloadSpec`], all problems at once.

mod check;
mod raw;
mod rows;
#[cfg(test)]
mod tests;

use goodput_config::{ConfigError, Reading, read};

pub(crate) use rows::{Row, When, render_row};

use crate::spec::WorkloadSpec;

impl WorkloadSpec {
    /// Reads a workload file. `name` is the file's; a `name` inside goes before it.
    pub fn parse(name: &str, text: &str) -> Result<Self, ConfigError> {
        let Reading { raw, mut problems } = read::<raw::File>(text);
        let Some(raw) = raw else {
            return Err(ConfigError {
                problems,
                name: name.to_owned(),
            });
        };
        let spec = check::Checker::new(&mut problems, text).file(name, raw);
        let spec = ConfigError::unless_empty(name, problems, spec)?;
        spec.ok_or_else(|| {
            let problem = goodput_config::TextError::new("the workload is not complete").at(None);
            ConfigError::of(name, problem)
        })
    }
}
