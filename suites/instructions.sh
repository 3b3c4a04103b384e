#!/usr/bin/env bash
# Counts the instructions of a simulated request and holds them against what they were: a count does not depend on what else the
# machine does, so a simulator that became slower is seen without a clock.
#
#   suites/instructions.sh           fails where a case needs over 10 % more than benchmarks/instructions.txt says
#   suites/instructions.sh --record  writes that file anew
#
# A case is run with few and with many requests, and the difference counts: what a start costs is left out.
set -euo pipefail
cd "$(dirname "$0")/.."
known=benchmarks/instructions.txt
command -v valgrind >/dev/null || { apt-get update -qq && apt-get install -y -qq valgrind >/dev/null; }
bench=$(cargo bench --locked -p goodput-virtual --bench requests --no-run --message-format=json |
  sed -n 's/.*"executable":"\([^"]*requests-[^"]*\)".*/\1/p' | tail -1)
[ -x "$bench" ] || { echo "FAIL the benchmark was not built"; exit 1; }

count() { # CASE REQUESTS
  valgrind --tool=callgrind --callgrind-out-file=/dev/null "$bench" "$1" "$2" 2>&1 | sed -n 's/.*Collected : *\([0-9]*\).*/\1/p'
}

record=; [ "${1:-}" = --record ] && { record=1; : >"$known"; }
failed=0
# Beyond 65,536 requests percentiles come from buckets: what a sort of them all costs is not what is counted here.
for line in "light 70000 110000" "plain 70000 110000" "thrash 70000 110000" "pool 70000 80000"; do
  read -r case few many <<<"$line"
  a=$(count "$case" "$few"); b=$(count "$case" "$many")
  each=$(((b - a) / (many - few)))
  if [ -n "$record" ]; then
    echo "$case $each" | tee -a "$known"
    continue
  fi
  was=$(sed -n "s/^$case //p" "$known")
  [ -n "$was" ] || { echo "FAIL $case: $known has no count of it"; failed=1; continue; }
  echo "$case: $each instructions a request, $was when recorded"
  if [ "$each" -gt $((was + was / 10)) ]; then
    echo "FAIL $case needs over 10 % more instructions than it did; if that is meant: suites/instructions.sh --record"
    failed=1
  fi
done
exit "$failed"
