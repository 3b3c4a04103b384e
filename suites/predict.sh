#!/usr/bin/env bash
# Calibrates an engine on low loads and holds what the profile says of higher loads, and of another mix of lengths, against
# what is measured there. Low and high loads are measured in turns, near in time, so that a machine that changes its pace
# changes both. The prediction is `goodput simulate` with the fitted profile: the same loads and lengths.
#
#   suites/predict.sh [emulator|llama.cpp|vllm ...]        default: emulator
#
# Claimed, and failed on, is the emulator. Of real engines the figures are printed; a machine on which the same load is not the same
# twice within 10 % is not judged at all.
set -euo pipefail
cd "$(dirname "$0")/.."
goodput=${GOODPUT:-target/release/goodput}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/goodput-suites/engines
seconds=${SECONDS_A_POINT:-10}
work=$(mktemp -d)
server=
stop() { [ -z "$server" ] || { kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; server=; }; }
trap 'stop; rm -rf "$work"' EXIT

up() { # URL SECONDS
  for _ in $(seq "$2"); do
    curl -sf "$1/models" >/dev/null && return 0
    kill -0 "$server" 2>/dev/null || { tail -20 "$work/server.log"; echo "FAIL the engine ended"; return 1; }
    sleep 1
  done
  echo "FAIL the engine is not up after $2 s"; return 1
}

measure() { # NAME WORKLOAD CONCURRENCIES SECONDS TARGET...
  local name=$1 mix=$2 loads=$3 seconds=$4 code=0; shift 4
  "$goodput" sweep --quiet "$@" --workload "suites/engines/$mix.toml" --slo "ttft=$slo_ttft,tpot=$slo_tpot" --concurrency "$loads" \
    --rate none --duration "${seconds}s" --warmup 2 --seed 7 --keep-gaps --out "$work/$name" >/dev/null || code=$?
  case $code in 0 | 1 | 3) ;; *) echo "FAIL exit $code"; return 1 ;; esac
}

# The bound on TPOT: so many times the pace of a lone stream, so that the goodput has a peak within the loads on any machine.
bound() { # NAME TIMES
  python3 -c '
import json, sys
points = json.load(open(f"{sys.argv[1]}/result.json"))["points"]
alone = next(p["tpot_p50_ms"] for p in points if p["concurrency"] == 1)
print(f"{float(sys.argv[2]) * alone * 1000:.0f}us")' "$work/$1" "$2"
}

say() { # NAME WORKLOAD CONCURRENCIES
  local code=0
  "$goodput" simulate --quiet --profile "$work/$name.toml" --workload "suites/engines/$2.toml" --slo "ttft=$slo_ttft,tpot=$slo_tpot" \
    --concurrency "$3" --rate none --requests 4000 --seed 7 --out "$work/$1" >/dev/null || code=$?
  case $code in 0 | 1 | 3) ;; *) echo "FAIL exit $code"; return 1 ;; esac
}

judge() { # ENGINE CLAIMED LOADS
  python3 suites/engines/predict.py "$work" "$@"
}

# ENGINE CLAIMED LOW HIGH LIMITS -- TARGET...
engine() {
  local name=$1 claimed=$2 low=$3 high=$4 limits=$5; shift 6
  slo_tpot=10s
  measure "$name-alone" small 1 "$seconds" "$@"
  slo_tpot=$(bound "$name-alone" "$times")
  for turn in 1 2; do
    measure "$name-low-$turn" small "$low" "$seconds" "$@"
    measure "$name-high-$turn" small "$high" "$seconds" "$@"
    measure "$name-long-low-$turn" longer 1 "$seconds" "$@"
    # An answer of this mix takes a good part of the time of a point.
    measure "$name-long-high-$turn" longer "${high%%,*}" $((3 * seconds)) "$@"
  done
  # shellcheck disable=SC2086
  "$goodput" calibrate "$work/$name-low-1" "$work/$name-long-low-1" "$work/$name-low-2" "$work/$name-long-low-2" $limits \
    --out "$work/$name.toml" || [ $? = 3 ] # 3: on a busy machine points are invalid, and what is said below is not judged
  say "$name-said" small "$low,$high"
  say "$name-long-said" longer "1,${high%%,*}"
  judge "$name" "$claimed" "$low" "$high"
}

for which in "${@:-emulator}"; do
  case $which in
    emulator)
      slo_ttft=500ms times=1.3
      engine emulator yes 1,4 16,32 "--base laptop" -- --profile laptop
      ;;
    llama.cpp)
      slo_ttft=5s times=4
      [ -f "$cache/gemma.gguf" ] || { echo "run suites/engines.sh first: it installs llama.cpp"; exit 1; }
      "$cache/llama/bin/python" suites/engines/llama_server.py "$cache/gemma.gguf" 18080 8 cold > "$work/server.log" 2>&1 & server=$!
      up http://127.0.0.1:18080/v1 60
      engine llama.cpp no 1,2,4 6,8 "--set max_num_seqs=8 --set max_batched_tokens=2048 --set context_limit=1024
        --set kv_blocks=512 --set block_tokens=16" -- --url http://127.0.0.1:18080/v1
      stop
      ;;
    vllm)
      slo_ttft=5s times=4
      [ -f "$cache/vllm/done" ] || { echo "run suites/engines.sh first: it installs vLLM"; exit 1; }
      export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1 VLLM_CPU_KVCACHE_SPACE=1
      ( cd "$cache/vllm" && exec bin/python -m vllm.entrypoints.openai.api_server --model tiny-llama --served-model-name tiny-llama \
          --load-format dummy --host 127.0.0.1 --port 18081 --dtype bfloat16 --block-size 32 --max-model-len 2048 \
          --max-num-seqs 64 --no-enable-prefix-caching ) > "$work/server.log" 2>&1 & server=$!
      up http://127.0.0.1:18081/v1 900
      engine vllm no 1,2,4 8,16 "--set max_num_seqs=64 --set max_batched_tokens=2048 --set context_limit=2048" \
        -- --url http://127.0.0.1:18081/v1
      stop
      ;;
    *) echo "unknown engine $which"; exit 2 ;;
  esac
done
