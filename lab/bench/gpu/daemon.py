# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""A daemon on this machine for an experiment. Needs bin/fairway."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
FAIRWAY = ROOT / "bin" / "fairway"
START = 20.0  # seconds that the daemon may take to answer


class Daemon:
    """A daemon with a folder of its own."""

    def __init__(self, policy: str, log: Path, slots: int = 0, mps: str = "auto", more: str = "") -> None:
        self.began = time.monotonic()
        self.data = Path(tempfile.mkdtemp(prefix="fw", dir="/tmp"))
        self.data.chmod(0o711)
        config = self.data / "fairway.yaml"
        config.write_text(f"policy: {policy!r}\nreport: 1s\nnotice: 20s\nslots: {slots}\nlisten: {{address: ''}}\ngpu: {{mps: {mps!r}}}\n{more}")
        path = f"{ROOT}/python/src:{ROOT}/lab/profiling"
        self.env = os.environ | {"FAIRWAY_ADDRESS": f"unix://{self.data}/fairway.sock", "PYTHONPATH": path}
        self.log = log.open("w")
        self.process = subprocess.Popen([FAIRWAY, "up", "--config", config, "--data", self.data], stdout=self.log, stderr=self.log, env=self.env)
        while subprocess.run([FAIRWAY, "status"], env=self.env, capture_output=True).returncode != 0:
            if self.process.poll() is not None or time.monotonic() - self.began > START:
                raise SystemExit(f"the daemon did not start; see {log}")
            time.sleep(0.1)

    def ask(self, *args: str) -> str:
        """The output of a command."""
        done = subprocess.run([FAIRWAY, *args], env=self.env, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"fairway {' '.join(args)}: {done.stderr}")
        return done.stdout

    def jobs(self, *args: str) -> list[dict]:
        """The jobs that "fairway ps" lists."""
        return json.loads(self.ask("ps", "--json", *args))["jobs"]

    def job(self, job: str) -> dict:
        """A job as the daemon shows it."""
        return json.loads(self.ask("explain", job, "--json"))["job"]

    def mps(self) -> list[Path]:
        """The files of running control daemons of MPS."""
        return sorted(self.data.glob("machine/mps/*/nvidia-cuda-mps-control.pid"))

    def stop(self) -> None:
        """Ends all jobs, then the daemon."""
        for job in self.jobs():
            subprocess.run([FAIRWAY, "cancel", job["id"]], env=self.env, capture_output=True)
        end = time.monotonic() + 8
        while time.monotonic() < end and self.jobs("--state", "running,stopping"):
            time.sleep(0.2)
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(10)

    def remove(self) -> None:
        """Deletes the folder of a daemon that was stopped."""
        shutil.rmtree(self.data, ignore_errors=True)
