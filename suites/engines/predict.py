"""What a profile fitted on low loads says of higher ones, beside what was measured: predict.py WORK ENGINE yes|no LOW HIGH"""
import json
import sys

work, engine, claimed, low, high = sys.argv[1:6]


def points(name):
    rows = json.load(open(f"{work}/{name}/result.json"))["points"]
    return {p["concurrency"]: p for p in rows}


def in_turns(name):
    """The two turns of a measurement: (mean of both, how far apart, whether both are valid)"""
    turns = [points(f"{name}-{turn}") for turn in (1, 2)]
    out = {}
    for users in turns[0]:
        both = [t[users] for t in turns if users in t and t[users]["tpot_p50_ms"]]
        if len(both) < 2:
            continue  # nothing ended in one of the turns
        tpot = [p["tpot_p50_ms"] for p in both]
        good = [p["goodput_tok_s"] for p in both]
        apart = max(tpot) / min(tpot) - 1
        out[users] = (sum(tpot) / len(tpot), apart, all(p["valid"] for p in both), sum(good) / len(good))
    return out


failed = []
quiet = True
print(f"{engine}: TPOT p50, said beside measured (two turns)")
measured = {**in_turns(f"{engine}-low"), **in_turns(f"{engine}-high")}
said = points(f"{engine}-said")
long_said = points(f"{engine}-long-said")
long_measured = {**in_turns(f"{engine}-long-low"), **in_turns(f"{engine}-long-high")}
for mix, ours, theirs in (("same mix", said, measured), ("other mix", long_said, long_measured)):
    for users, (tpot, apart, valid, _) in sorted(theirs.items()):
        if users not in ours or not ours[users]["tpot_p50_ms"]:
            print(f"  {mix:<9} x{users:<3} nothing was said: no request ended in time")
            quiet = False
            continue
        error = ours[users]["tpot_p50_ms"] / tpot - 1
        fitted = users <= max(map(int, low.split(","))) and (mix == "same mix" or users == 1)
        steady = apart <= 0.10 and valid
        quiet &= steady
        word = "fitted" if fitted else ("within 10 %" if abs(error) <= 0.10 else "OFF by more than 10 %")
        if not steady:
            word = f"not judged: {'invalid' if not valid else f'{apart:.0%} apart'}"
        print(f"  {mix:<9} x{users:<3} {ours[users]['tpot_p50_ms']:8.2f} of {tpot:8.2f} ms  {error:+6.1%}  {word}")
        if steady and not fitted and abs(error) > 0.10:
            failed.append(f"{mix} x{users}: {error:+.1%}")
grid = sorted(users for users in measured if users in said)
if not grid:
    print(f"note {engine}: no load was measured twice: nothing is judged")
    sys.exit(0)
peak = max(grid, key=lambda users: measured[users][3])
told = max(grid, key=lambda users: said[users]["goodput_tok_s"])
steps = abs(grid.index(peak) - grid.index(told))
print(f"  goodput peak at {told}, measured at {peak}: {steps} grid steps apart")
if steps > 1 and quiet:
    failed.append(f"the peak is {steps} grid steps away")
if failed and claimed == "yes":
    sys.exit(f"FAIL {engine}: {'; '.join(failed)}")
print(f"{'ok  ' if not failed else 'note'} {engine}: {'; '.join(failed) or 'all that could be judged is within 10 %'}")
