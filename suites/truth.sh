#!/usr/bin/env bash
# Sweeps in real time on emulated replicas, held against their true curves, which are computed in virtual time: the load a
# sweep finds must have a true goodput within 10 % of the best. About fifteen minutes; wants two quiet cores, so a second try is allowed.
set -euo pipefail
cd "$(dirname "$0")/.."
export GOODPUT_SUITES=1
run() { cargo test --release -p goodput --test truth --locked -- --nocapture --test-threads=1; }
run || { echo 'once more'; run; }
