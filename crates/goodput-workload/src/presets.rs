//! Built-in workloads: files like any user's, with the source of their figures.

use goodput_config::{ConfigError, TextError, known_names, suggest};

use crate::spec::WorkloadSpec;

/// A built-in workload file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// Its name, for `--workload`.
    pub name: &'static str,
    /// The file: what a user may copy and change.
    pub text: &'static str,
}

macro_rules! preset {
    ($name:literal) => {
        Preset {
            name: $name,
            text: include_str!(concat!("../presets/", $name, ".toml")),
        }
    };
}

const PRESETS: &[Preset] = &[
    preset!("chat-short"),
    preset!("azure-conversation"),
    preset!("azure-code"),
    preset!("mooncake-conversation"),
    preset!("completion"),
    preset!("agent"),
    preset!("voice"),
    preset!("batch-summarisation"),
];

/// All built-in workloads.
#[must_use]
pub const fn presets() -> &'static [Preset] {
    PRESETS
}

impl WorkloadSpec {
    /// The built-in workload of this name.
    pub fn preset(name: &str) -> Result<Self, ConfigError> {
        if let Some(preset) = PRESETS.iter().find(|preset| preset.name == name) {
            return Self::parse(preset.name, preset.text);
        }
        let known: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
        let mut error = TextError::new(format!("there is no workload preset `{name}`"))
            .expected(known_names(&known));
        if let Some(near) = suggest(name, &known) {
            error = error.hint(format!("did you mean `{near}`?"));
        }
        Err(ConfigError::of(name, error.at(None)))
    }
}
