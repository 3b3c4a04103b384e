#!/usr/bin/env python3
"""The client's own figures, each held against a server that logs what it truly wrote.

    benchmarks/figures.py all
    benchmarks/figures.py timing --rounds 5 --streams 16,128,512

The server writes its log on the clock that the client stamps with, so every answer is compared with its own truth.
The server gets one core, the client another one. A bare reader (no records, no JSON beyond the text) runs beside the
client in every round: on a busy machine only the ratio of the two means anything.
"""
import argparse
import csv
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
NS = 1e9


def quantile(values, q):
    """Linear interpolation between order statistics."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * q
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


class Bench:
    """Where the programs are, and on which cores they run."""

    def __init__(self, flags):
        self.flags = flags
        self.folder = Path(tempfile.mkdtemp(prefix="goodput-figures-"))
        self.port = 18600
        self.goodput = Path(flags.goodput)
        self.server, self.reader = build(Path(flags.server))

    def pinned(self, core, command):
        return ["taskset", "-c", str(core), *map(str, command)] if shutil.which("taskset") else list(map(str, command))

    def serve(self, *flags):
        self.port += 1
        log = self.folder / f"truth-{self.port}.csv"
        command = [self.server, "--listen", f"127.0.0.1:{self.port}", "--csv", log, *flags]
        server = subprocess.Popen(self.pinned(self.flags.server_core, command), stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True)
        time.sleep(0.3)
        return server, log

    def client(self, name, *flags):
        """Runs `goodput bench`; its folder, CPU seconds and peak memory in kB."""
        out = self.folder / name
        shutil.rmtree(out, ignore_errors=True)
        command = [self.goodput, "bench", "--url", f"http://127.0.0.1:{self.port}/v1", "--quiet", "--format", "json",
                   "--out", out, *flags]
        began = time.monotonic_ns()
        child = subprocess.Popen(self.pinned(self.flags.client_core, command), stdout=subprocess.DEVNULL)
        peak = 0
        while True:
            peak = max(peak, high_water(child.pid))
            pid, status, usage = os.wait4(child.pid, os.WNOHANG)
            if pid:
                break
            time.sleep(0.004)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode not in (0, 1, 3):
            sys.exit(f"goodput ended with {child.returncode}: {' '.join(map(str, command))}")
        return out, usage.ru_utime + usage.ru_stime, peak, began

    def read(self, name, *flags):
        """Runs the bare reader; its log and what it says of itself."""
        log = self.folder / f"{name}.csv"
        command = [self.reader, "--server", f"127.0.0.1:{self.port}", "--csv", log, *flags]
        done = subprocess.run(self.pinned(self.flags.client_core, command), stdout=subprocess.PIPE, check=True, text=True)
        return log, json.loads(done.stdout.strip().splitlines()[-1])

    def workload(self, tokens, prompt=64):
        file = self.folder / f"out-{prompt}-{tokens}.toml"
        file.write_text(f'name = "out-{prompt}-{tokens}"\ninput.fixed = {prompt}\noutput.fixed = {tokens}\n')
        return file


def build(source):
    """The server and the bare reader, built from `source`."""
    target = HERE / "target" / "truth-server"
    environment = {**os.environ, "CARGO_TARGET_DIR": str(target)}
    subprocess.run(["cargo", "build", "--release", "--quiet", "--locked"], cwd=source, env=environment, check=True)
    return target / "release" / "truth-server", target / "release" / "probe"


def high_water(pid):
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
    except OSError:
        pass
    return 0


def stop(server):
    """Ends the server, so that its log is whole; its wall clock less its monotonic one, in ns."""
    server.send_signal(2)
    said = server.communicate()[1]
    return int(re.search(r"monotonic \+ (\d+) ns", said).group(1))


def records(out):
    with open(out / "requests.jsonl") as lines:
        return [json.loads(line) for line in lines]


def row(out):
    return json.loads((out / "result.json").read_text())["points"][0]


def truth_by_id(log):
    with open(log) as lines:
        return list(csv.DictReader(lines))


def slope(bench, run, few, many):
    """CPU seconds an event, start-up left out: the difference of a long and a short run."""
    short, long = run(few), run(many)
    return (long[0] - short[0]) / (long[1] - short[1])


def intake(bench, one_write):
    tokens = bench.workload(500)
    flags = ["--fast"] + (["--one-event-per-write"] if one_write else [])
    few, many = (128, 512) if one_write else (256, 1792)
    ours, bare = [], []
    for _ in range(bench.flags.rounds):
        server, _ = bench.serve(*flags)

        def run_ours(requests):
            _, cpu, _, _ = bench.client("intake", "--workload", tokens, "--concurrency", 64, "--requests", requests,
                                        "--warmup", 0, "--ramp", "0s")
            return cpu, requests * 500

        def run_bare(requests):
            _, said = bench.read("intake-bare", "--streams", 64, "--requests", requests, "--max-tokens", 500, "--parse")
            return said["cpu_s"], requests * 500

        ours.append(slope(bench, run_ours, few, many))
        bare.append(slope(bench, run_bare, few, many))
        stop(server)
    return statistics.median(ours), statistics.median(bare)


def figure_intake(bench):
    ours, bare = intake(bench, one_write=False)
    yield "events taken in a CPU second, server as fast as it can", f"{1 / ours:,.0f}", f"{1 / bare:,.0f}", "1,000,000 or more"


def figure_per_event(bench):
    ours, bare = intake(bench, one_write=True)
    yield "client CPU an event, one write an event", f"{ours * 1e6:.2f} us", f"{bare * 1e6:.2f} us", "6.5 us or less"


def errors_ours(out, truths, unix_minus_monotonic):
    """TTFT against the server's own, of which reading (its write to our stamp), and TPOT; in ms."""
    by_id = {t["x_request_id"]: t for t in truths}
    zero = json.loads((out / "result.json").read_text())["epoch_unix_ns"] - unix_minus_monotonic
    ttft, reading, tpot = [], [], []
    for r in records(out):
        t = by_id[r["id"]]
        reading.append((zero + r["first_token_ns"] - int(t["first_ns"])) / 1e6)
        ttft.append(r["ttft_ms"] - (int(t["first_ns"]) - int(t["recv_ns"])) / 1e6)
        tpot.append(abs(r["tpot_ms"] - (int(t["last_token_ns"]) - int(t["first_ns"])) / 1e6 / (int(t["tokens"]) - 1)))
    return ttft, reading, tpot


def errors_bare(log, truths):
    rows = list(csv.DictReader(open(log)))
    begun = min(int(r["sent_ns"]) for r in rows)
    by_id = {t["x_request_id"]: t for t in truths if int(t["recv_ns"]) >= begun - 50_000_000}
    ttft, reading, tpot = [], [], []
    for r in rows:
        t = by_id[r["id"]]
        reading.append((int(r["first_ns"]) - int(t["first_ns"])) / 1e6)
        ttft.append((int(r["first_ns"]) - int(r["sent_ns"]) - int(t["first_ns"]) + int(t["recv_ns"])) / 1e6)
        last, true_last = int(r["last_ns"]) - int(r["first_ns"]), int(t["last_token_ns"]) - int(t["first_ns"])
        tpot.append(abs(last - true_last) / 1e6 / (int(t["tokens"]) - 1))
    return ttft, reading, tpot


def figure_timing(bench):
    # As few words as the bare reader asks with: a longer body takes the server longer to read.
    tokens = bench.workload(128, prompt=3)
    for streams in map(int, bench.flags.streams.split(",")):
        ours, bare = [], []
        for _ in range(bench.flags.rounds):
            server, log = bench.serve("--ttft-ms", "200", "--tpot-ms", "20")
            out, *_ = bench.client("timing", "--workload", tokens, "--concurrency", streams, "--requests", streams,
                                   "--warmup", 0, "--ramp", "0s")
            offset = stop(server)
            ours.append([quantile(e, 0.99) for e in errors_ours(out, truth_by_id(log), offset)])
            server, log = bench.serve("--ttft-ms", "200", "--tpot-ms", "20")
            bare_log, _ = bench.read("timing-bare", "--streams", streams, "--requests", streams, "--max-tokens", 128)
            stop(server)
            bare.append([quantile(e, 0.99) for e in errors_bare(bare_log, truth_by_id(log))])
        kinds = (("TTFT", 2), ("of which from the server's write to the stamp: TTFT", 2), ("TPOT", 4))
        for i, (name, digits) in enumerate(kinds):
            mine, theirs = (statistics.median(r[i] for r in rounds) for rounds in (ours, bare))
            ratio = mine / max(theirs, 1e-9)
            allowed = "0.02 ms or less" if i == 2 else f"1.5 times the bare reader's; here {ratio:.2f}"
            yield f"{name} error p99, {streams} streams at once", f"{mine:.{digits}f} ms", f"{theirs:.{digits}f} ms", allowed


def figure_open_loop(bench):
    tokens = bench.workload(8)
    for _ in range(bench.flags.rounds):
        server, log = bench.serve("--ttft-ms", "20", "--tpot-ms", "2")
        out, *_ = bench.client("open", "--workload", tokens, "--rate", 1000, "--duration", "20s", "--warmup", 0)
        stop(server)
        by_id = {t["x_request_id"]: int(t["recv_ns"]) for t in truth_by_id(log)}
        pairs = sorted((r["origin_ns"], by_id[r["id"]]) for r in records(out) if r["id"] in by_id)
        planned, seen = [p[0] for p in pairs], sorted(p[1] for p in pairs)

        def rate_and_cv(at):
            gaps = [b - a for a, b in zip(at, at[1:])]
            return (len(at) - 1) / ((at[-1] - at[0]) / NS), statistics.pstdev(gaps) / statistics.mean(gaps)

        (rate, cv), (seen_rate, seen_cv) = rate_and_cv(planned), rate_and_cv(seen)
        yield "open loop at 1,000 req/s: rate seen by the server against the schedule", f"{seen_rate / rate - 1:+.3%}", "-", "within 0.5 %"
        yield "the same: CV of gaps", f"{seen_cv / cv - 1:+.2%}", "-", "within 2 %"
        yield "the same: send lag p99", f"{row(out)['send_lag_p99_ms']:.3f} ms", "-", "under 1 ms on a quiet machine"


def figure_start(bench):
    tokens = bench.workload(8)
    spans = []
    for _ in range(max(5, bench.flags.rounds)):
        server, log = bench.serve("--fast")
        _, _, _, began = bench.client("start", "--workload", tokens, "--concurrency", 1, "--requests", 1, "--warmup", 0)
        stop(server)
        spans.append((min(int(t["recv_ns"]) for t in truth_by_id(log)) - began) / 1e6)
    yield "process start to the request's arrival at the server", f"{statistics.median(spans):.1f} ms", "-", "under 50 ms"


def figure_memory(bench):
    tokens = bench.workload(128)
    for streams in (16, 1024, 2048):
        server, _ = bench.serve("--ttft-ms", "200", "--tpot-ms", "20")
        *_, peak, _ = bench.client("memory", "--workload", tokens, "--concurrency", streams, "--requests", 2 * streams,
                                   "--warmup", 0, "--ramp", "0s")
        stop(server)
        yield f"peak memory, {streams} streams", f"{peak / 1000:.1f} MB", "-", f"{10 + 0.04 * streams:.1f} MB or less"


def figure_million(bench):
    tokens = bench.workload(2)
    for requests in (100_000, 1_000_000):
        server, _ = bench.serve("--fast")
        out, cpu, peak, _ = bench.client("million", "--workload", tokens, "--concurrency", 128, "--requests", requests,
                                         "--warmup", 0)
        stop(server)
        done = row(out)["requests"]
        shutil.rmtree(out)
        yield f"peak memory over {done:,} requests", f"{peak / 1000:.1f} MB", "-", "does not grow with requests"


FIGURES = {
    "intake": figure_intake,
    "per-event": figure_per_event,
    "timing": figure_timing,
    "open-loop": figure_open_loop,
    "start": figure_start,
    "memory": figure_memory,
    "million": figure_million,
}


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("figure", choices=[*FIGURES, "all"])
    flags.add_argument("--rounds", type=int, default=3, help="paired rounds; medians are printed")
    flags.add_argument("--streams", default="16,128,512,1024,2048", help="sizes of the timing figure")
    flags.add_argument("--goodput", default=HERE / "target" / "release" / "goodput")
    flags.add_argument("--server", default=HERE.parent / "shared" / "lab" / "truth-server", help="source of the server")
    flags.add_argument("--server-core", type=int, default=0)
    flags.add_argument("--client-core", type=int, default=min(1, (os.cpu_count() or 1) - 1))
    bench = Bench(flags.parse_args())
    try:
        print("| figure | goodput | bare reader | wanted |\n| --- | --- | --- | --- |", flush=True)
        for name, figure in FIGURES.items():
            if bench.flags.figure in (name, "all"):
                for cells in figure(bench):
                    print("| " + " | ".join(cells) + " |", flush=True)
        print(f"\nload average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores", file=sys.stderr)
    finally:
        shutil.rmtree(bench.folder, ignore_errors=True)


if __name__ == "__main__":
    main()
