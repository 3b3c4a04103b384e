#!/usr/bin/env bash
# Sweeps in real time on emulated replicas, held against their true curves, which are computed in virtual time: the load a
# sweep finds must have a true goodput within 10 % of the best. About fifteen minutes; wants two quiet cores, so a second try is allowed.
set -euo pipefail
cd "$(dirname "$0")/.."
export GOODPUT_SUITES=1
run() { cargo test --release -p goodput --test truth --locked -- --nocapture --exact "$1"; }
for sweep in a_sweep_of_the_laptop_profile a_sweep_over_the_kv_cliff a_sweep_of_a_mixture_of_experts; do
  run "${sweep}_finds_the_best_true_goodput" || { echo 'once more'; run "${sweep}_finds_the_best_true_goodput"; }
done
