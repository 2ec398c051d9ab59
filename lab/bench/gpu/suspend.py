# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""Suspends plain PyTorch scripts in place under "fairway up": lab/bench/gpu/suspend.py
OUT [--gigabytes 1 6 26] [--turns SECONDS] [--agents TIMES]. Scripts of different sizes are
paused and resumed; their losses have to be those of an undisturbed run. Then two of them
take turns, and their steps are compared with those of one alone. Last, trainings with the
agent are stopped and started again, for the seconds from the order to the first step.
Needs bin/fairway, bin/fairway-cuda and a python3 with PyTorch; without a GPU it freezes
CPU processes. Writes OUT/suspend.json after every part."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

from daemon import FAIRWAY, ROOT, Daemon

SCRIPT = ROOT / "lab/bench/gpu/plain.py"
PATIENCE = 90.0  # seconds for anything that should happen


def gpu_memory() -> float:
    """GB in use on the first GPU; 0 without one."""
    try:
        out = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], capture_output=True, text=True, check=True)
        return int(out.stdout.split()[0]) * 2**20 / 1e9
    except (OSError, subprocess.CalledProcessError, ValueError, IndexError):
        return 0.0


def until(what: str, ready):
    """Waits for something, and returns it with the seconds that took."""
    began = time.monotonic()
    while not (found := ready()):
        if time.monotonic() - began > PATIENCE:
            raise SystemExit(f"waited in vain: {what}")
        time.sleep(0.05)
    return found, time.monotonic() - began


class Trial:
    """A daemon and the jobs of one measurement."""

    def __init__(self, args: argparse.Namespace, policy: str, name: str, more: str = "") -> None:
        self.args = args
        self.daemon = Daemon(policy, args.out / f"daemon-{name}.log", slots=args.slots, more="guard: {window: 0s, settle: 0s}\n" + more)

    def submit(self, *options: str) -> str:
        return self.daemon.ask("submit", "--name", "plain", "--", sys.executable, str(SCRIPT), *options).split()[0]

    def lines(self, job: str) -> dict[int, str]:
        """The losses that a job has printed, by step."""
        out = {}
        log = subprocess.run([FAIRWAY, "logs", job], env=self.daemon.env, capture_output=True, text=True)  # none yet: no lines
        for line in log.stdout.splitlines():
            words = line.split()
            if len(words) == 3 and words[0].isdigit():
                out[int(words[0])] = words[1]
        return out

    def step(self, job: str) -> int:
        return max(self.lines(job), default=0)

    def reach(self, job: str, step: int) -> None:
        until(f"step {step} of {job}", lambda: self.step(job) >= step)

    def state(self, job: str) -> str:
        return self.daemon.job(job)["state"]

    def suspensions(self, job: str) -> dict:
        return self.daemon.job(job)["status"].get("suspension") or {}

    def once(self, gigabytes: float, expect: dict[int, str], *options: str) -> dict:
        """Pauses and resumes a script of a size, a small one twice."""
        job = self.submit("--gigabytes", str(gigabytes), *options)
        self.reach(job, 30)
        row = {"gigabytes": gigabytes, "options": list(options), "out_s": [], "back_s": [], "order_to_paused_s": [], "order_to_running_s": []}
        for _ in range(2 if gigabytes < 10 else 1):
            row["gpu_before_gb"] = gpu_memory()
            self.daemon.ask("pause", job)
            _, seconds = until("paused", lambda: self.state(job) in ("paused", "running"))
            if self.state(job) != "paused":
                self.daemon.ask("cancel", job)
                return row | {"refused": self.suspensions(job).get("failed")}
            row["order_to_paused_s"].append(round(seconds, 2))
            row["gpu_away_gb"] = gpu_memory()
            still = self.step(job)
            row["out_s"].append(self.suspensions(job).get("out"))
            row["host_gb"] = round(self.suspensions(job).get("memory", 0) / 1e9, 2)
            self.daemon.ask("resume", job)
            _, seconds = until("running", lambda: self.state(job) == "running")
            row["order_to_running_s"].append(round(seconds, 2))
            self.reach(job, still + 30)
            row["back_s"].append(self.suspensions(job).get("back"))
        got = self.lines(job)
        both = [step for step in got if step in expect]
        row |= {"steps_compared": len(both) * 10, "equal": all(got[s] == expect[s] for s in both) if both else None, "starts": self.daemon.job(job)["status"]["starts"]}
        self.daemon.ask("cancel", job)
        until("cancelled", lambda: not self.daemon.jobs("--state", "running,stopping"))
        return row


def reference(args: argparse.Namespace, *options: str) -> dict[int, str]:
    """The losses of an undisturbed run."""
    done = subprocess.run([sys.executable, SCRIPT, "--steps", str(args.steps), *options], capture_output=True, text=True, check=True)
    return {int(line.split()[0]): line.split()[1] for line in done.stdout.splitlines()}


def take_turns(args: argparse.Namespace, seconds: float) -> dict:
    """Two scripts in turns, against one of them alone."""
    trial = Trial(args, f"las:lease={args.lease}", "turns")
    options = ("--gigabytes", "1")
    first = trial.submit(*options)
    trial.reach(first, 30)
    began, start = time.monotonic(), trial.step(first)
    time.sleep(min(10, seconds / 4))
    alone = (trial.step(first) - start) / (time.monotonic() - began)
    second = trial.submit(*options)
    trial.reach(second, 10)
    began, start = time.monotonic(), trial.step(first) + trial.step(second)
    time.sleep(seconds)
    together = (trial.step(first) + trial.step(second) - start) / (time.monotonic() - began)
    jobs = [trial.daemon.job(job) for job in (first, second)]
    row = {
        "seconds": round(time.monotonic() - began, 1), "lease": args.lease, "alone_steps_s": round(alone, 1), "together_steps_s": round(together, 1),
        "part": round(together / alone, 3), "suspended": [j["status"].get("preemptions", 0) for j in jobs], "starts": [j["status"]["starts"] for j in jobs],
        "out_s": [trial.suspensions(j["id"]).get("out") for j in jobs], "back_s": [trial.suspensions(j["id"]).get("back") for j in jobs],
    }  # fmt: skip
    (args.out / "events-turns.txt").write_text(trial.daemon.ask("events"))
    trial.daemon.stop()
    return row


def come_back(args: argparse.Namespace, model: str, warm: int) -> dict:
    """Stops a training with the agent and starts it again, some times."""
    name = f"{model}-{'warm' if warm else 'cold'}"
    trial = Trial(args, "fairway", name, f"warm: {{most: {warm}}}\n")
    times = args.out / f"times-{name}.txt"
    times.unlink(missing_ok=True)
    script = ROOT / "lab/bench/gpu/train.py"
    job = trial.daemon.ask("submit", "--name", name, "--", sys.executable, str(script), "--model", model, "--epochs", "1000000", "--times", str(times)).split()[0]

    def steps() -> list[float]:
        return [float(line) for line in times.read_text().split()] if times.exists() else []

    row = {"model": model, "warm": bool(warm), "out_s": [], "first_step_s": []}
    for _ in range(args.agents):
        count = len(steps())
        until("steps", lambda count=count: len(steps()) > count + 50)
        time.sleep(3)  # the agent reports
        if warm:
            until("a warm interpreter", lambda: " 1 of at most" in trial.daemon.ask("nodes"))
        began = time.time()
        trial.daemon.ask("pause", job)
        until("paused", lambda: trial.state(job) == "paused")
        row["out_s"].append(round(time.time() - began, 2))
        count, order = len(steps()), time.time()
        trial.daemon.ask("resume", job)
        until("a step", lambda count=count: len(steps()) > count)
        row["first_step_s"].append(round(steps()[count] - order, 2))
    status = trial.daemon.job(job)["status"]
    row |= {"starts": status["starts"], "suspended": bool(trial.suspensions(job))}
    (args.out / f"explain-{name}.txt").write_text(trial.daemon.ask("explain", job))
    (args.out / f"log-{name}.txt").write_text(trial.daemon.ask("logs", job))
    trial.daemon.stop()
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--gigabytes", type=float, nargs="*", default=[1, 6, 26])
    parser.add_argument("--steps", type=int, default=2000, help="of the undisturbed run")
    parser.add_argument("--turns", type=float, default=60, help="seconds; 0: none")
    parser.add_argument("--lease", default="15s")
    parser.add_argument("--agents", type=int, default=5, help="how often a training with the agent is stopped; 0: none")
    parser.add_argument("--slots", type=int, default=0, help="CPU slots; 0: the GPUs")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    result: dict = {"scripts": []}
    began = time.monotonic()

    def keep(text: str) -> None:
        result["total_s"] = round(time.monotonic() - began, 1)
        (args.out / "suspend.json").write_text(json.dumps(result, indent=1) + "\n")
        print(f"{time.monotonic() - began:6.1f} s  {text}", flush=True)

    if args.gigabytes:
        expect = reference(args)
        keep(f"undisturbed: {len(expect) * 10} steps")
        trial = Trial(args, "fairway", "sizes")
        print(trial.daemon.ask("nodes"), flush=True)
        for size in args.gigabytes:
            result["scripts"].append(trial.once(size, expect))
            keep(json.dumps(result["scripts"][-1]))
        (args.out / "events-sizes.txt").write_text(trial.daemon.ask("events"))
        trial.daemon.stop()
        trial, loaders = Trial(args, "fairway", "loaders"), ("--workers", "2")
        result["loaders"] = trial.once(args.gigabytes[0], reference(args, *loaders), *loaders)
        keep(json.dumps(result["loaders"]))
        trial.daemon.stop()
    if args.turns > 0:
        result["turns"] = take_turns(args, args.turns)
        keep(json.dumps(result["turns"]))
    if args.agents > 0:
        result["agents"] = []
        for model, warm in (("residual", 2), ("residual", 0), ("tokens", 2), ("tokens", 0)):
            result["agents"].append(come_back(args, model, warm))
            keep(json.dumps(result["agents"][-1]))


main()
