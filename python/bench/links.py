# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""Measures how soon a daemon of its own, with its default settings, names the rank behind
a bad link, and whether it takes a quiet gang for one: four real processes over gloo, each
in a network namespace of its own, of which one gets less bandwidth. Needs root and tc.

    sudo python3 bench/links.py ../bin/fairway --quiet 2

Seconds count from when the link became slow."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from stall import PYTHON, Daemon, found

RANKS, BAD = 4, 2
JOB = (
    "unset FAIRWAY_GANG; export MASTER_ADDR=10.18.0.1 GLOO_SOCKET_IFNAME=eth0; "
    f"exec ip netns exec rank$RANK {sys.executable} {PYTHON / 'tests' / 'link_job.py'} 0.05 100000"
)


def run(command: str) -> None:
    subprocess.run(command.split(), check=True)


def connect() -> None:
    """Gives each rank a network namespace, and connects them in the one that this
    process has for itself."""
    os.makedirs("/run/netns", exist_ok=True)
    run("mount -t tmpfs none /run/netns")
    run("ip link set lo up")
    run("ip link add hub type bridge")
    run("ip link set hub up")
    for rank in range(RANKS):
        run(f"ip netns add rank{rank}")
        run(f"ip link add port{rank} type veth peer name eth0 netns rank{rank}")
        run(f"ip link set port{rank} master hub up")
        run(f"ip -n rank{rank} addr add 10.18.0.{rank + 1}/24 dev eth0")
        run(f"ip -n rank{rank} link set lo up")
        run(f"ip -n rank{rank} link set eth0 up")


def limit(megabytes: float) -> None:
    """Bounds what the bad link moves in each second, both ways; 0: no bound."""
    for where in (f"-n rank{BAD} qdisc {{}} dev eth0", f"qdisc {{}} dev port{BAD}"):
        if megabytes:
            run(f"tc {where.format('replace')} root tbf rate {8 * megabytes}mbit burst 128kb latency 50ms")
        else:
            run(f"tc {where.format('del')} root")


def measure(daemon: Daemon, quiet: int, megabytes: float) -> None:
    load = f"load {os.getloadavg()[0]:.0f}"
    alarms = 0
    for _ in range(quiet):
        job = daemon.run("quiet", "sh", "-c", JOB)
        _, text = found(daemon, job, "warning", 120)
        alarms += text is not None
        print("warned:" if text else "quiet", text or "", flush=True)
        daemon.stop(job)
    print(f"quiet gangs, two minutes each: {alarms} of {quiet} warned ({load})", flush=True)
    job = daemon.run("later", "sh", "-c", JOB)
    time.sleep(60)
    limit(megabytes)
    took, text = found(daemon, job, "warning", 120)
    print(f"the link of rank {BAD} moves {megabytes} MB/s after a minute: found after {took:.0f} s: {text}", flush=True)
    limit(0)
    began = time.monotonic()
    while daemon.job(job).get("warning") and time.monotonic() - began < 180:
        time.sleep(0.5)
    print(f"mended: {'not ' if daemon.job(job).get('warning') else ''}taken back after {time.monotonic() - began:.0f} s", flush=True)
    daemon.stop(job)
    limit(megabytes)
    job = daemon.run("first", "sh", "-c", JOB)
    took, text = found(daemon, job, "warning", 120)
    print(f"the same from the first step on: found after {took:.0f} s: {text}", flush=True)
    daemon.stop(job)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--quiet", type=int, default=2)
    parser.add_argument("--speed", type=float, default=40, help="of the bad link, in MB/s")
    options = parser.parse_args()
    if "FAIRWAY_BENCH_APART" not in os.environ:
        os.environ["FAIRWAY_BENCH_APART"] = "1"
        os.execvp("unshare", ["unshare", "--net", "--mount", sys.executable, *sys.argv])
    connect()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        daemon = Daemon(os.path.abspath(options.program), folder + "/data")
        try:
            measure(daemon, options.quiet, options.speed)
        finally:
            daemon.close()


if __name__ == "__main__":
    main()
