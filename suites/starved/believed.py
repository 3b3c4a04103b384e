"""Whether a client on a busy core is believed with figures that are not those of a healthy client.

    believed.py NAME HEALTHY.json... -- STARVED.json...
"""
import json
import sys

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
        print("  this machine is too busy for a healthy client; nothing to hold the others against")
    wrong = noticed = 0
    for number, starved in enumerate(map(point, files[cut + 1:]), 1):
        if not starved["valid"]:
            named = any("waited for a core" in said or "stood still" in said for said in starved["warnings"])
            noticed += named
            if not named:
                print(f"  run {number}: invalid without the cause: {starved['warnings']}")
                wrong += 1
            continue
        for figure, floor in FLOORS.items():
            known = [p[figure] for p in healthy]
            if not known:
                continue
            low, high = min(known), max(known)
            if not low - max(floor, SHARE * low) <= starved[figure] <= high + max(floor, SHARE * high):
                print(f"  run {number}: believed with {figure} {starved[figure]:.2f}, {low:.2f} to {high:.2f} when healthy")
                wrong += 1
                break
    total = len(files) - cut - 1
    print(f"{name}: noticed {noticed} of {total}, believed with right figures {total - noticed - wrong}, wrong {wrong}")
    sys.exit(wrong > 0)


main()
