#!/usr/bin/env bash
# A client starved on purpose marks its points invalid and names the cause every time; one that lacks nothing is trusted.
# Each case RUNS times (5 unless told). The cases on a busy core need two that are quiet otherwise; QUIET="chrt -f 10" (root) makes
# them so on a busy machine. The others need none.
set -euo pipefail
cd "$(dirname "$0")/.."
goodput=${GOODPUT:-target/release/goodput} runs=${RUNS:-5} core=${CORE:-0} other=${OTHER:-1}
work=$(mktemp -d) port=${PORT:-18473} quiet=${QUIET:-} kept=()
trap 'kill "${kept[@]}" 2>/dev/null || true; rm -rf "$work"' EXIT
$quiet taskset -c "$other" "$goodput" emulate --listen 127.0.0.1:"$port" >"$work/emulator.log" 2>&1 & kept+=($!)
python3 suites/starved/pipe.py 64000 $((port + 1)) "$port" & kept+=($!)
for _ in $(seq 100); do curl -sf "http://127.0.0.1:$port/health" >/dev/null && break; sleep 0.1; done
failed=0

# NAME WORDS CODE COMMAND...: the program exits with CODE and says WORDS, in its warnings or on stderr.
every_time() {
  local name=$1 words=$2 code=$3 good=0; shift 3
  for run in $(seq "$runs"); do
    local out="$work/$name-$run" got=0
    "$@" --out "$out" --quiet >/dev/null 2>"$work/said" || got=$?
    { [ -f "$out/result.json" ] && python3 -c 'import json, sys
for point in json.load(open(sys.argv[1]))["points"]: print(point["valid"], *point["warnings"])' "$out/result.json"; cat "$work/said"; } >"$work/all" || true
    if [ "$got" = "$code" ] && grep -q "$words" "$work/all"; then good=$((good + 1)); else echo "  run $run: exit $got"; sed 's/^/  /' "$work/all"; fi
  done
  echo "$name: $good of $runs"
  [ "$good" = "$runs" ] || failed=1
}
direct="http://127.0.0.1:$port/v1" piped="http://127.0.0.1:$((port + 1))/v1"
bench=("$goodput" bench --slo chat --workload chat-short --warmup 0 --duration "${DURATION:-4s}")

every_time users-without-files "ulimit -n 192" 3 bash -c 'ulimit -n 64; exec "$@"' - "${bench[@]}" --url "$direct" --concurrency 128
every_time arrivals-without-files "may have 64 open files" 3 bash -c 'ulimit -n 64; exec "$@"' - "${bench[@]}" --url "$direct" --rate 400
for users in 1 16; do
  every_time "pipe-$users" "False.*the way to the server carries" 3 "${bench[@]}" --url "$piped" --concurrency $users
done
# How hard a scheduler starves a client is its own matter, so the truth decides: the same load by a healthy client. A run on a
# busy core says that it waited for the core, or its figures are those of the healthy runs, give or take what a point may be moved.
wrong=0 healthy=()
for run in $(seq "$runs"); do
  out="$work/healthy-$run"
  $quiet taskset -c "$core" "${bench[@]}" --url "$direct" --concurrency 16 --out "$out" --quiet >/dev/null || true
  healthy+=("$out/result.json")
done
for loops in 4 8 16; do
  spinning=()
  for _ in $(seq $loops); do taskset -c "$core" bash -c 'while :; do :; done' & spinning+=($!); done
  starved=()
  for run in $(seq "$runs"); do
    out="$work/busy-core-$loops-$run"
    got=0; taskset -c "$core" "${bench[@]}" --url "$direct" --concurrency 16 --out "$out" --quiet >/dev/null || got=$?
    echo "$got" >"$out/exit"
    starved+=("$out/result.json")
  done
  kill "${spinning[@]}"; wait "${spinning[@]}" 2>/dev/null || true
  python3 suites/starved/believed.py "busy-core-$loops" "${healthy[@]}" -- "${starved[@]}" || wrong=$((wrong + $?))
done
# docs/measuring.md says how often one is believed all the same.
[ "$wrong" -le 1 ] || failed=1
exit $failed
