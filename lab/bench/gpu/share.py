# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""Two real training jobs on one GPU under "fairway up", with MPS and without:
lab/bench/gpu/share.py OUT. Prints the speed of the first job alone and with the
second, the slowdown measured by the daemon, and whether the limit of GPU memory
held. Needs bin/fairway and a python3 with PyTorch; takes less than 90 s."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

from daemon import FAIRWAY, ROOT, Daemon

TRAIN = f"{sys.executable} {ROOT}/lab/bench/gpu/train.py --epochs 100000"
GREEDY = f"{sys.executable} -c 'import torch; x = torch.empty(4 << 30, dtype=torch.uint8, device=\"cuda\"); x.fill_(1); print(\"took\", x.numel() >> 20, \"MiB\")'"
POLICY = "fifo@share:jobs=3:slowdown=100:patience=100:mode="
LIMIT = 41.0  # seconds for one mode
WINDOW = 4  # reports that are averaged


def submit(daemon: Daemon, name: str, command: str, *flags: str) -> str:
    """Submits a job that may share, and returns its id."""
    return daemon.ask("submit", "--share", "--gpu-util", "0.3", "--notice", "5s", "--name", name, *flags, "--", "/bin/sh", "-c", "exec " + command).strip()


class Watch:
    """The rates that a job reports, as they come."""

    def __init__(self, daemon: Daemon, job: str) -> None:
        self.daemon, self.id = daemon, job
        self.rates: list[float] = []
        self.last = ""
        self.slowdown = 0.0
        self.state = ""

    def look(self) -> None:
        """Takes a new report, if there is one."""
        job = self.daemon.job(self.id)
        self.state = job["state"]
        self.slowdown = job["status"].get("slowdown", 0.0)
        point = job.get("last") or {}
        if point.get("at", "") != self.last and point.get("rate", 0) > 0:
            self.last = point["at"]
            self.rates.append(point["rate"])


def mean(values: list[float]) -> float:
    """The mean; 0 without values."""
    return sum(values) / len(values) if values else 0.0


def measure(mode: str, out: Path, args: argparse.Namespace) -> dict:
    """Runs the jobs in one mode and returns what was measured."""
    kind = "mps" if mode == "on" else "time-slice"
    daemon = Daemon(POLICY + kind, out / f"daemon-{mode}.log", args.slots, mode)
    left = lambda: LIMIT - (time.monotonic() - daemon.began)
    result: dict = {"mode": mode}
    try:
        first = Watch(daemon, submit(daemon, "first", args.first, "--gpu-memory", "8GiB"))
        greedy = submit(daemon, "greedy", args.greedy, "--gpu-memory", "1GiB")
        while left() > LIMIT / 2 and (len(first.rates) < WINDOW + 2 or daemon.job(greedy)["state"] not in ("failed", "finished")):
            time.sleep(0.4)
            first.look()
        alone = first.rates[-WINDOW:]
        second = Watch(daemon, submit(daemon, "second", args.second, "--gpu-memory", "8GiB"))
        seen = None
        while left() > 9 and (seen is None or len(first.rates) - seen < WINDOW + 1):
            time.sleep(0.4)
            first.look()
            second.look()
            if seen is None and len(second.rates) >= 2:
                seen = len(first.rates)
        together = first.rates[seen + 1 :] if seen is not None else []
        held = daemon.job(first.id).get("held") or [{}]
        end = daemon.job(greedy)
        result |= {
            "alone": mean(alone), "together": mean(together), "second": mean(second.rates[1:]),
            "measured": first.slowdown, "milli": held[0].get("milli", 0), "states": [first.state, second.state],
            "greedy": end["state"], "why": ((end.get("exit") or {}).get("finding") or {}).get("reason", ""),
            "mps": [p.name for p in daemon.mps()],
        }  # fmt: skip
        for name, job in (("first", first.id), ("second", second.id), ("greedy", greedy)):
            (out / f"{mode}-{name}.log").write_text(subprocess.run([FAIRWAY, "logs", job], env=daemon.env, capture_output=True, text=True).stdout)
        (out / f"{mode}-events.txt").write_text(daemon.ask("events", "--tail", "200"))
        (out / f"{mode}-nodes.txt").write_text(daemon.ask("nodes"))
    finally:
        daemon.stop()
        result["left behind"] = len(daemon.mps())
        daemon.remove()
    return result


def main() -> None:
    """Measures both modes and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--slots", type=int, default=0, help="CPU slots instead of GPUs, to try the script itself")
    parser.add_argument("--first", default=TRAIN + " --model tokens --batch 8 --examples 4096")
    parser.add_argument("--second", default=TRAIN + " --model residual --batch 32 --examples 4096")
    parser.add_argument("--greedy", default=GREEDY)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    results = [measure(mode, args.out, args) for mode in ("off", "on")]
    (args.out / "share.json").write_text(json.dumps(results, indent=1))
    print("| MPS | first alone (examples/s) | with the second | slowdown | measured by the daemon | second with the first | 4 GiB with a limit of 1 GiB |")
    print("|---|---|---|---|---|---|---|")
    for r in results:
        slow = r["alone"] / r["together"] if r["together"] else 0
        used = "on" if r["mps"] else "off" if r["mode"] == "off" else "NOT USED: see the daemon's log"
        kept = "got it" if r["greedy"] == "finished" else f"{r['greedy']} ({r['why']})"
        print(f"| {used} | {r['alone']:.0f} | {r['together']:.0f} | {slow:.2f} | {r['measured']:.2f} | {r['second']:.0f} | {kept} |")
    print(f"{time.monotonic() - began:.0f} s; each held {results[0]['milli']} thousandths of the GPU; control daemons left behind: {sum(r['left behind'] for r in results)}")


if __name__ == "__main__":
    main()
