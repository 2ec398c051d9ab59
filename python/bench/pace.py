# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""Records how long the ranks of a gang compute on this machine, with all that disturbs
them, for the tests of the detector (diagnose/testdata/pace.json).

    python3 bench/pace.py --ranks 4 --seconds 480 --slow 1.3 --slow-seconds 360 > pace.json

All ranks do the same; then one of them does so many times as much."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

PYTHON = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(PYTHON), str(PYTHON / "src")]

from tests.daemon import Daemon
from tests.gangs import Running

JOB = str(PYTHON / "tests" / "stall_job.py")
RANK = 1  # that is slow


def record(ranks: int, times: float, seconds: float, window: float) -> "list[list[float]]":
    with tempfile.TemporaryDirectory() as folder:
        daemon = Daemon(Path(folder)).start()
        env = {"FAIRWAY_JOB": "j1", "FAIRWAY_API": daemon.api, "FAIRWAY_TOKEN": "secret", "FAIRWAY_REPORT_SECONDS": 5}
        running = Running([JOB, "busy", str(RANK), str(times), "0.003", "100000", str(window)], ranks, env)
        time.sleep(seconds)
        daemon.stop()
        for process in running.processes:
            process.kill()
            process.wait()
        return [[round(s, 5) for s in w] for r in daemon.reports for w in r.get("pace", {}).get("windows", [])]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=480)
    parser.add_argument("--slow", type=float, default=1.3)
    parser.add_argument("--slow-seconds", type=float, default=360)
    parser.add_argument("--window", type=float, default=5.0)
    o = parser.parse_args()
    quiet = record(o.ranks, 1.0, o.seconds, o.window)
    slow = record(o.ranks, o.slow, o.slow_seconds, o.window)
    print(json.dumps({"rank": RANK, "times": o.slow, "quiet": quiet, "slow": slow}))


if __name__ == "__main__":
    main()
