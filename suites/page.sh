#!/usr/bin/env bash
# The report in a real browser, offline: it draws, it has no script error, it holds its figures.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq chromium >/dev/null; }
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
target/release/goodput sweep --quiet --concurrency 1,4,16 --rate none --duration 3s --out "$work/run" >/dev/null || true
browse() {
  chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync \
    --disable-background-networking --disable-component-update --user-data-dir="$work/profile" \
    --virtual-time-budget=8000 "$@" "file://$work/run/report.html" 2>"$work/log"
}
browse --enable-logging=stderr --v=0 --dump-dom > "$work/dom.html"
grep -qi 'uncaught\|SyntaxError\|ReferenceError' "$work/log" && { cat "$work/log"; echo "FAIL script error"; exit 1; }
[ "$(grep -o 'main-svg' "$work/dom.html" | wc -l)" -ge 3 ] || { echo "FAIL charts are not drawn"; exit 1; }
# Outside its own scripts, which hold addresses as text, nothing names another place.
python3 - "$work/run/report.html" <<'P' || { echo "FAIL loads from the network"; exit 1; }
import re, sys
page = re.sub(r"<script\b[^>]*>.*?</script>", "", open(sys.argv[1]).read(), flags=re.S)
page += "".join(re.findall(r"<script\b[^>]*>", open(sys.argv[1]).read()))
sys.exit(1 if re.search(r"""(src|href)\s*=\s*["']?https?:|url\(\s*["']?https?:|@import""", page) else 0)
P
browse --window-size=1280,2400 --screenshot="$work/page.png" > /dev/null
[ "$(stat -c %s "$work/page.png")" -gt 50000 ] || { echo "FAIL the page is blank"; exit 1; }
echo "ok   the page draws, offline, without a script error"
