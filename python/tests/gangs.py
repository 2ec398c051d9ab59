# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""Starts gangs of processes as the executor does."""

from __future__ import annotations

import functools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path
from typing import Any, Callable, Mapping, Optional, Sequence

HERE = Path(__file__).resolve().parent
SRC = HERE.parent / "src"


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def environ(rank: int, world: int, port: int, more: Mapping[str, Any]) -> dict[str, str]:
    """The environment of a rank."""
    out = dict(os.environ, PYTHONPATH=f"{SRC}:{HERE.parent}", OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="")
    out.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(world))
    out.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), FAIRWAY_NODES="1")
    out.update({k: str(v) for k, v in more.items()})
    return out


class Running:
    """The processes of one attempt."""

    def __init__(self, command: Sequence[str], world: int, env: Mapping[str, Any], nodes: Sequence[Any] = ()) -> None:
        """nodes are the folders in memory of the node of each rank, if they are on several."""
        port = free_port()
        self.processes = []
        for rank in range(world):
            mine = environ(rank, world, port, env)
            if nodes:
                mine.update(FAIRWAY_MEMORY_DIR=str(nodes[rank]), FAIRWAY_NODES=str(len(set(nodes))))
            process = subprocess.Popen(
                [sys.executable, *command], env=mine, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
            self.processes.append(process)

    def notice(self) -> None:
        """Asks all ranks to stop."""
        for p in self.processes:
            if p.poll() is None:
                p.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kills all ranks at once."""
        for p in self.processes:
            p.kill()
        self.wait()

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


class Supervisor:
    """A gang that changes in place, and what its supervisor does for that (see
    fairway.member). ranks holds the numbers of its processes, by rank."""

    def __init__(self, command: Sequence[str], world: int, env: Mapping[str, Any]) -> None:
        self.command, self.env = command, env
        self.generation = 0
        self.processes: dict[int, subprocess.Popen] = {}
        self.outputs: dict[int, Any] = {}
        self._links: dict[int, socket.socket] = {}
        self._said: list[tuple[int, str, int]] = []  # by whom, what, of which generation
        self._name = f"fairway-test-{os.getpid()}-{id(self)}"
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._server.bind("\0" + self._name)
        self._server.listen()
        threading.Thread(target=self._serve, daemon=True).start()
        self.ranks = list(range(world))
        port = free_port()
        for number in self.ranks:
            self._start(number, number, port)

    def resize(self, world: int) -> None:
        """Changes the size; returns when the ranks train again."""
        self._change(self.ranks[:world], world, lost=False)

    def kill(self, rank: int, without: bool = False) -> None:
        """Kills a rank and starts another one in its place; without: the others go on
        before that one is ready."""
        number = self.ranks[rank]
        self.processes[number].kill()
        self.processes[number].wait()
        self._links.pop(number).close()
        stay, world = [n for n in self.ranks if n != number], len(self.ranks)
        self._change(stay, len(stay) if without else world, lost=True)
        if without:
            self.resize(world)

    def stop_in_pieces(self) -> list[int]:
        """Kills the last rank, and asks the others to stop before there is another.
        Returns their exit codes."""
        last = self.ranks.pop()
        self.processes[last].kill()
        self.generation += 1
        for rank, number in enumerate(self.ranks):
            place = {"generation": self.generation, "rank": rank, "world": len(self.ranks) + 1, "port": free_port(), "lost": True, "fresh": 1}
            self._tell(number, place)
        self._await("ready", self.ranks)
        for number in self.ranks:
            self.processes[number].send_signal(signal.SIGTERM)
            self._links[number].shutdown(socket.SHUT_RDWR)
        return [self.processes[number].wait(60) for number in self.ranks]

    def close(self) -> None:
        """Kills what is left."""
        self._server.close()
        for p in self.processes.values():
            if p.poll() is None:
                p.kill()
                p.wait()
        for file in self.outputs.values():
            file.close()

    def wait(self, timeout: float = 120) -> None:
        """Waits until all ranks have ended well."""
        for number in self.ranks:
            if self.processes[number].wait(timeout):
                raise AssertionError(f"process {number} failed\n" + self.output(number))

    def output(self, number: int) -> str:
        """What a process has printed."""
        self.outputs[number].seek(0)
        return self.outputs[number].read().decode()

    def linked(self) -> bool:
        """Whether all ranks can change in place."""
        return all(n in self._links for n in self.ranks)

    def _change(self, stay: list[int], world: int, lost: bool) -> None:
        self.generation += 1
        leave = [n for n in self.ranks if n not in stay and n in self._links]
        first = max(self.processes) + 1
        fresh = list(range(first, first + world - len(stay)))
        self.ranks, port = stay + fresh, free_port()
        for number in fresh:
            self._start(number, self.ranks.index(number), port)
        if not lost:
            self._await("ready", fresh)  # the others train on until then
        place = {"generation": self.generation, "world": world, "port": port, "lost": lost, "fresh": len(fresh)}
        for number in leave:
            self._tell(number, dict(place, rank=-1))
        for number in stay:
            self._tell(number, dict(place, rank=self.ranks.index(number)))
        if lost:
            self._await("hello", fresh)
        for number in fresh:
            self._tell(number, dict(place, rank=self.ranks.index(number)))
        self._await("ready", self.ranks)
        for number in self.ranks:
            self._tell(number, {"go": self.generation})
        self._await("up", self.ranks)

    def _start(self, number: int, rank: int, port: int) -> None:
        self.outputs[number] = tempfile.TemporaryFile()
        env = environ(rank, len(self.ranks), port, self.env)
        env.update(FAIRWAY_GANG=self._name, FAIRWAY_MEMBER=str(number), FAIRWAY_GENERATION=str(self.generation))
        self.processes[number] = subprocess.Popen(
            [sys.executable, *self.command], env=env, stdout=self.outputs[number], stderr=subprocess.STDOUT
        )

    def _tell(self, number: int, message: Mapping[str, Any]) -> None:
        self._links[number].sendall(json.dumps(message).encode() + b"\n")

    def _await(self, what: str, numbers: Sequence[int], seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while not all((n, what, self.generation) in self._said for n in numbers):
            failed = [n for n in numbers if self.processes[n].poll()]
            if failed or time.monotonic() > end:
                texts = "\n".join(f"{n}: {self.output(n)}" for n in self.ranks)
                raise AssertionError(f"waited in vain for {what} of {numbers}; failed: {failed}; said: {self._said[-9:]}\n{texts}")
            time.sleep(0.002)

    def _serve(self) -> None:
        while True:
            try:
                link, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._listen, args=(link,), daemon=True).start()

    def _listen(self, link: socket.socket) -> None:
        number = -1
        try:
            for line in link.makefile("rb"):
                message = json.loads(line)
                if "member" in message:
                    number = message["member"]
                    self._links[number] = link
                    self._said.append((number, "hello", message["generation"]))
                for what in ("ready", "up"):
                    if what in message:
                        self._said.append((number, what, message[what]))
        except OSError:
            pass


class Cores:
    """The cores of this machine, from now on."""

    def __init__(self) -> None:
        self._before = self._times()

    def stolen(self) -> float:
        """The part of their time that the machine's host gave to others."""
        whole, stolen = (after - before for after, before in zip(self._times(), self._before))
        return stolen / whole if whole > 0 else 0.0

    @staticmethod
    def _times() -> tuple[float, float]:
        try:
            fields = [float(f) for f in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
            return sum(fields), fields[7]  # see proc(5)
        except (OSError, ValueError, IndexError):
            return 0.0, 0.0


def needs_steady_cores(test: Callable[..., None]) -> Callable[..., None]:
    """For tests of how long things take: one that fails while the machine's host gave its
    cores to others for a tenth of the time says nothing, and is skipped."""

    @functools.wraps(test)
    def run_test(*args: Any) -> None:
        cores = Cores()
        try:
            test(*args)
        except AssertionError as err:
            if cores.stolen() < 0.1:
                raise
            raise unittest.SkipTest(f"NOT TESTED: the host took {100 * cores.stolen():.0f} % of the CPU time: {err!s:.200}") from err

    return run_test
