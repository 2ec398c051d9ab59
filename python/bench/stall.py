# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""Measures how soon a daemon of its own, with its default settings, finds a slow rank
and a hung gang of real processes over gloo, and whether it takes a quiet gang for one.

    python3 bench/stall.py ../bin/fairway --quiet 2

Seconds count from when the gang began to train."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Optional

PYTHON = Path(__file__).resolve().parents[1]
JOB = str(PYTHON / "tests" / "stall_job.py")


class Daemon:
    """A daemon with four CPU slots and an empty data folder."""

    def __init__(self, program: str, folder: str) -> None:
        self._program = program
        self._env = dict(os.environ, FAIRWAY_ADDRESS=f"unix://{folder}/fairway.sock")
        command = [program, "up", "--data", folder, "--slots", "4", "--listen", "", "--policy", "fifo"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=self._env)
        while subprocess.run([program, "status"], env=self._env, capture_output=True, check=False).returncode != 0:
            time.sleep(0.1)

    def ask(self, *arguments: str) -> str:
        """The output of a command."""
        return subprocess.run([self._program, *arguments], env=self._env, capture_output=True, text=True, check=True).stdout

    def submit(self, kind: str, *arguments: str) -> str:
        """Starts a gang of four in trouble and returns its name, once it trains."""
        return self.run(kind, sys.executable, JOB, kind, *arguments, "5")

    def run(self, name: str, *command: str) -> str:
        """Starts a gang of four and returns its name, once it trains."""
        path = f"PYTHONPATH={PYTHON / 'src'}"
        options = ["submit", "--json", "--gpus", "4", "--name", name, "--retries", "1", "--env", path, "--"]
        answer = json.loads(self.ask(*options, *command))
        job = str(answer.get("id") or answer["jobs"][0]["id"])
        while self.job(job).get("last", {}).get("done", 0) == 0:
            time.sleep(0.5)
        return job

    def job(self, job: str) -> "dict[str, Any]":
        """A job as the daemon shows it."""
        return json.loads(self.ask("explain", job, "--json"))["job"]

    def stop(self, job: str) -> None:
        """Ends a job."""
        self.ask("cancel", job)
        while self.job(job)["state"] not in ("killed", "failed", "finished", "cancelled"):
            time.sleep(0.5)

    def close(self) -> None:
        """Ends the daemon."""
        self._process.terminate()
        self._process.wait()


def found(daemon: Daemon, job: str, field: str, seconds: float) -> "tuple[float, Optional[Any]]":
    """When a job has a field, and what is in it; None: it has not got it in time."""
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        value = daemon.job(job).get(field)
        if value:
            return time.monotonic() - began, value
        time.sleep(0.5)
    return seconds, None


def measure(daemon: Daemon, quiet: int, times: float) -> None:
    alarms = 0
    for _ in range(quiet):
        job = daemon.submit("quiet", "0", "1", "0.2", "100000")
        _, text = found(daemon, job, "warning", 120)
        alarms += text is not None
        daemon.stop(job)
    print(f"quiet gangs, two minutes each: {alarms} of {quiet} warned")
    job = daemon.submit("slow", "2", str(times), "0.2", "100000")
    took, text = found(daemon, job, "warning", 120)
    print(f"rank 2 {times} times as slow: found after {took:.0f} s: {text}")
    daemon.stop(job)
    job = daemon.submit("hang", "1", "0", "0.2", "100000")
    took, end = found(daemon, job, "exit", 180)
    why = end["finding"]["evidence"]["text"] if end else None
    print(f"rank 1 hangs in its 30th step, after some 6 s: ended after {took:.0f} s, {end and end.get('next')}: {why}")
    daemon.stop(job)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--quiet", type=int, default=2)
    parser.add_argument("--times", type=float, default=1.42)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        daemon = Daemon(os.path.abspath(options.program), folder + "/data")
        try:
            measure(daemon, options.quiet, options.times)
        finally:
            daemon.close()


if __name__ == "__main__":
    main()
