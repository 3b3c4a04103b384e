#!/usr/bin/env bash
# The sweep by itself against 40 random emulated engines in virtual time, held against their true curves: the load it finds,
# its intervals, the rate it proves. About a minute of CPU. docs/sweeping.md has the run over 1,000 engines.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo run --release --locked -q -p goodput-virtual --example study -- --first 5000 --engines 40
