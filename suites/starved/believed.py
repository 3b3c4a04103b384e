"""Whether a client on a busy core is believed with figures that are not those of a healthy client.

    believed.py NAME HEALTHY.json... -- STARVED.json...

Beside each STARVED.json lies a file `exit` with the program's exit code. Exits with the number of those that are believed and
wrong, and with 100 where nobody healthy is there to compare with.
"""
import json
import sys
from pathlib import Path

# The rule of docs/measuring.md: a figure may be moved by this share, or by this many milliseconds.
SHARE = 0.05
FLOORS = {"ttft_p50_ms": 1.0, "ttft_p99_ms": 2.0, "tpot_p50_ms": 0.1, "tpot_p99_ms": 0.1}


def point(path):
    return json.load(open(path))["points"][0]


def main():
    name, *files = sys.argv[1:]
    cut = files.index("--")
    healthy = [p for p in map(point, files[:cut]) if p["valid"]]
    print(f"healthy: {len(healthy)} of {cut} trusted")
    if not healthy:
        print("  no healthy client is trusted: the machine is too busy, or the client doubts itself for nothing")
        sys.exit(100)
    wrong = noticed = 0
    for number, file in enumerate(files[cut + 1:], 1):
        starved, code = point(file), int(Path(file).with_name("exit").read_text())
        if not starved["valid"]:
            named = any("waited for a core" in said or "stood still" in said for said in starved["warnings"])
            noticed += named and code == 3
            if not named or code != 3:
                print(f"  run {number}: exit {code}, invalid because of {starved['warnings']}")
                wrong += 1
            continue
        for figure, floor in FLOORS.items():
            low, high = min(p[figure] for p in healthy), max(p[figure] for p in healthy)
            if not low - max(floor, SHARE * low) <= starved[figure] <= high + max(floor, SHARE * high):
                print(f"  run {number}: believed with {figure} {starved[figure]:.2f}, {low:.2f} to {high:.2f} when healthy")
                wrong += 1
                break
    total = len(files) - cut - 1
    print(f"{name}: noticed {noticed} of {total}, believed with right figures {total - noticed - wrong}, wrong {wrong}")
    sys.exit(wrong)


main()
