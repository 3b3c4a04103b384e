//! `goodput simulate`: a sweep in virtual time, on a replica made from a profile.
//!
//! Loads, strategies, books, files, report and exit codes are those of `goodput sweep`; only the
//! source of the records is another one. The engine is the emulator's, without a socket or a clock.

mod replica;
mod scene;
mod what_if;

pub(crate) use replica::Virtual;
use scene::Scene;
pub(crate) use what_if::change;

use crate::{
    emulate::list_of_profiles,
    exit::{Exit, Failure},
    flags::SimulateFlags,
    measure::{Loads, ServerKind},
    print,
    talk::Voice,
};

/// Simulates what the flags ask for.
pub(crate) fn simulate(flags: &SimulateFlags, voice: Voice) -> Result<Exit, Failure> {
    if flags.profile == "list" {
        print(&list_of_profiles()?)?;
        return Ok(Exit::Yes);
    }
    if let Some(url) = &flags.url {
        return Err(
            Failure::usage(format!("simulate asks no server, and --url names one: {url}")).hint(
                "goodput sweep --url measures it; goodput report DIR --overlay SIMULATED lays both over each other",
            ),
        );
    }
    let loads = Loads::new(&flags.loads, ServerKind::Simulated)?;
    let scene = Scene::new(flags, voice)?;
    let folder = flags.ask.folder("simulate", scene.slo_name());
    let variants = what_if::variants(&flags.what_if)?;
    if variants.is_empty() {
        return scene.run(&loads, &folder, Some(flags.ask.format));
    }
    what_if::run(&scene, &variants, &loads, &folder, flags.ask.format)
}
