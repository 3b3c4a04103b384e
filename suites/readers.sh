#!/usr/bin/env bash
# requests.jsonl and points.csv as pandas, Polars and DuckDB read them, without options.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
venv=${XDG_CACHE_HOME:-$HOME/.cache}/goodput-suites/readers
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/pip" install -q pandas polars duckdb
target/release/goodput bench --quiet --requests 40 --concurrency 4 --keep-gaps --out "$work/run" >/dev/null || true
"$venv/bin/python" - "$work/run" <<'P'
import sys, pandas, polars, duckdb
rows = f"{sys.argv[1]}/requests.jsonl"; points = f"{sys.argv[1]}/points.csv"
a = pandas.read_json(rows, lines=True)
b = polars.read_ndjson(rows)
c = duckdb.sql(f"select count(*), count(ttft_ms) from read_json_auto('{rows}')").fetchall()[0]
assert len(a) == len(b) == c[0] >= 40, (len(a), len(b), c)
assert a.ttft_ms.notna().sum() == b["ttft_ms"].count() == c[1]
assert len(pandas.read_csv(points)) == 1
print(f"ok   {len(a)} rows in pandas, Polars and DuckDB")
P
