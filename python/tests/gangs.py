# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""Starts gangs of processes as the executor does."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Mapping, Optional, Sequence

HERE = Path(__file__).resolve().parent
SRC = HERE.parent / "src"


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Running:
    """The processes of one attempt."""

    def __init__(self, command: Sequence[str], world: int, env: Mapping[str, Any]) -> None:
        port = free_port()
        self.processes = []
        for rank in range(world):
            mine = dict(os.environ, PYTHONPATH=f"{SRC}:{HERE.parent}", OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="")
            mine.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(world))
            mine.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), FAIRWAY_NODES="1")
            mine.update({k: str(v) for k, v in env.items()})
            process = subprocess.Popen(
                [sys.executable, *command], env=mine, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
            self.processes.append(process)

    def notice(self) -> None:
        """Asks all ranks to stop."""
        for p in self.processes:
            if p.poll() is None:
                p.send_signal(signal.SIGTERM)

    def wait(self, timeout: float = 300) -> tuple[list[int], list[str]]:
        """The exit codes and outputs, by rank."""
        outputs = []
        try:
            for p in self.processes:
                outputs.append(p.communicate(timeout=timeout)[0])
        finally:
            for p in self.processes:
                if p.poll() is None:
                    p.kill()
                    p.communicate()
        return [p.returncode for p in self.processes], outputs


def run(command: Sequence[str], world: int = 1, env: Optional[Mapping[str, Any]] = None) -> list[str]:
    """Runs a gang to its end and returns the outputs; fails if a rank does."""
    codes, outputs = Running(command, world, env or {}).wait()
    if any(codes):
        raise AssertionError(f"exit codes {codes}\n" + "\n".join(outputs))
    return outputs
