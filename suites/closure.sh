#!/usr/bin/env bash
# Closure: one workload and seed through the simulator alone, and through load generator, socket and emulator. At every
# valid load TPOT p50 agrees within 3 %, TTFT p50 within 5 % or 3 ms, goodput within 3 %, and both served the same
# requests. Two to three minutes; wants two quiet cores, so a second try is allowed.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
goodput=target/release/goodput
once() {
  local seed=$1 out="$work/$1" ask
  ask="--seed $seed --workload chat-short --slo ttft=200ms,tpot=8ms --requests 800 --warmup 0 --concurrency 4,16,40 --rate 20,60 --quiet"
  # shellcheck disable=SC2086
  $goodput sweep $ask --out "$out/measured" > /dev/null || [ $? -ne 2 ]
  # shellcheck disable=SC2086
  $goodput simulate $ask --out "$out/simulated" > /dev/null || [ $? -ne 2 ]
  $goodput report "$out/measured" --overlay "$out/simulated" --format json > "$out/overlay.json"
  $goodput report "$out/measured" --overlay "$out/simulated"
  python3 - "$out" <<'P'
import json, sys
out = sys.argv[1]
loads = json.load(open(out + "/overlay.json"))["loads"]
faults = [] if len(loads) >= 3 else [f"only {len(loads)} of 5 loads are valid in both"]
for load in loads:
    figures = {f["figure"]: f for f in load["figures"]}
    def check(name, relative, absolute=0.0):
        measured, simulated = figures[name]["base"], figures[name]["other"]
        if abs(simulated - measured) > max(relative * measured, absolute):
            faults.append(f"{load['load']}: {name} measured {measured:.2f}, simulated {simulated:.2f}")
    check("tpot_p50_ms", 0.03)
    check("ttft_p50_ms", 0.05, 3.0)
    check("goodput_tok_s", 0.03)
def asked(side):
    rows = map(json.loads, open(f"{out}/{side}/requests.jsonl"))
    return {(r["point"], r["session"]): (r["planned_input_tokens"], r["planned_output_tokens"]) for r in rows}
a, b = asked("measured"), asked("simulated")
both = a.keys() & b.keys()
if any(a[k] != b[k] for k in both) or len(both) < 0.95 * len(a):
    faults.append(f"{len(both)} of {len(a)} requests are the same")
print("\n".join("FAIL " + f for f in faults) or f"ok   {len(loads)} loads agree, {len(both)} of {len(a)} requests are the same")
sys.exit(1 if faults else 0)
P
}
once 9 || { echo 'once more'; once 10; }
