//! Packs the chart library, so that writing a page needs neither its five megabytes of memory nor
//! their copies.

#![expect(
    clippy::disallowed_methods,
    reason = "the crate is pure, the script that builds it writes a file"
)]

use std::{env, fs::File, io::Write, path::Path};

use flate2::{Compression, write::GzEncoder};

fn main() -> std::io::Result<()> {
    println!("cargo:rerun-if-changed=build.rs");
    let both = plotly::Plot::offline_js_sources();
    // The library is the first of two script elements. Its companion for formulas is left out: no
    // chart has any.
    let end = "</script>";
    let library = both.find(end).map_or(&*both, |at| &both[..at + end.len()]);
    let folder = env::var("OUT_DIR").map_err(std::io::Error::other)?;
    let file = File::create(Path::new(&folder).join("charts.html.gz"))?;
    let mut packed = GzEncoder::new(file, Compression::best());
    packed.write_all(library.as_bytes())?;
    packed.finish()?.sync_all()
}
