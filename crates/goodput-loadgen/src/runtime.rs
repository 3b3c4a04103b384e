//! The runtime of a load thread.

use std::io;

use tokio::runtime::{Builder, LocalOptions, LocalRuntime};

/// One thread that does everything: reads, stamps, parses, sends. Nothing is handed to another
/// core, so nothing waits for one.
pub fn runtime() -> io::Result<LocalRuntime> {
    Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())
}
