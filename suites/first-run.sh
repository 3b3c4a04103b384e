#!/usr/bin/env bash
# The first command of the README, as a new user runs it: the curve must have the shape that the
# product exists to show, every point must be trusted, and it must take under three minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(mktemp -d)/sweep
trap 'rm -rf "$(dirname "$out")"' EXIT
started=$(date +%s)
target/release/goodput sweep --out "$out"
took=$(( $(date +%s) - started ))
python3 - "$out" "$took" <<'P'
import json, os, sys
folder, took = sys.argv[1], int(sys.argv[2])
result = json.load(open(f"{folder}/result.json"), parse_constant=lambda c: sys.exit(f"{c} in JSON"))
closed = sorted((p for p in result["points"] if p["mode"] == "closed"), key=lambda p: p["concurrency"])
good = [p["goodput_tok_s"] for p in closed]
through = [p["throughput_tok_s"] for p in closed]
peak = good.index(max(good))
checks = {
    "under three minutes": took < 180,
    "every point valid": all(p["valid"] for p in result["points"]),
    "peak strictly inside the grid": 0 < peak < len(good) - 1,
    "goodput at the last point below half the peak": good[-1] < max(good) / 2,
    "throughput there at least 80 % of its maximum": through[-1] >= 0.8 * max(through),
    "a rate to sell": result["operating_point"]["by_objective"] is not None,
    "report.html written": os.path.getsize(f"{folder}/report.html") > 100_000,
}
for what, held in checks.items():
    print("ok  " if held else "FAIL", what)
sys.exit(0 if all(checks.values()) else 1)
P
