# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""Ends a training that hangs, such as a gang in a collective that one rank never
enters. How long a step may take is learned from the job itself, and what a hang is
does not depend on time alone: as long as a rank moves, all wait."""

from __future__ import annotations

import collections
import ctypes
import faulthandler
import logging
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any, Callable, Optional

log = logging.getLogger("fairway")

_ENOUGH = 10  # steps after which the bound is trusted
_STEPS, _PAUSES = 20.0, 3.0  # the bound, in slow steps and in longest pauses
_GRACE = 5.0  # seconds that the other ranks have for their stacks
_DEEP = 64  # frames that are looked at
# What counts as a move in each second: bytes read and written, which are more than the
# agent's own, and seconds computed by the thread (one that waits needs none) and by
# children, some of which always do a little.
_BYTES, _OWN, _CHILDREN = 256 << 10, 0.01, 0.1
_AGAIN, _MOST_AGAIN = 4, 2  # how much longer the bound is after a hang, and how often that counts
_SET_PTRACER = 0x59616D61  # prctl: who may look at this process


class Watch:
    """Looks after the steps of one rank, from a thread of its own.

    The bound is the longest of floor, 20 times a slow step (the 95 % quantile of
    the last ones) and 3 times the longest pause between two steps so far, which
    evaluations and checkpoints are. The first steps have no bound. When half of
    the floor has passed, the thread looks every now and then at where the thread that
    makes the steps is, and what it, the process and its children have done (see
    _Look). If that changes, the rank moves, and tells the others by touching a
    file; a rank hangs when no rank has moved for the whole bound. After a hang the
    next attempt is more patient: what stands still may be a very long call."""

    def __init__(self, floor: float, rank: int = 0, folder: Optional[str] = None, stopping: Callable[[], bool] = lambda: False) -> None:
        self._floor, self._rank = floor, rank
        self._folder = Path(folder) / ".fairway-watch" if folder else None
        self._gang: list[str] = []  # the files of its ranks
        self._thread = 0  # that makes the steps
        self._stopping = stopping
        self._recent: collections.deque[float] = collections.deque(maxlen=64)
        self._longest = 0.0
        self._last = 0.0
        self._count = 0
        self._ended = threading.Event()
        self.armed = False

    def arm(self, world: int = 1, attempt: int = 0) -> None:
        """Begins to look, once there were enough steps. All ranks of a gang must call
        it: each leaves a file, by which the others know that they share the folder."""
        self.armed = self._floor > 0 and (world == 1 or self._folder is not None)
        if not self.armed or self._folder is None:
            return
        self._gang = [f"rank-{rank}-{attempt}" for rank in range(world)]
        mine = self._gang[self._rank]
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            (self._folder / mine).touch()
            for old in self._folder.glob(f"rank-{self._rank}-*"):
                if old.name != mine:
                    old.unlink()
        except OSError:
            self.armed = world == 1

    def shared(self) -> bool:
        """Whether all ranks of the gang use the same folder."""
        return self._folder is None or all((self._folder / name).exists() for name in self._gang)

    def step(self, now: float) -> None:
        """Says that a step has ended."""
        self._count += 1
        if self._count > 2:  # the first is slow because it is the first
            gap = now - self._last
            self._recent.append(gap)
            self._longest = max(self._longest, gap)
        self._last = now
        if self._count == _ENOUGH and self.armed:
            self._thread = threading.get_ident()
            threading.Thread(target=self._run, name="fairway-watch", daemon=True).start()

    def resume(self) -> None:
        """Says that a pause is over in which no step was due."""
        self._last = time.monotonic()

    def close(self) -> None:
        """Looks no more."""
        self._ended.set()

    @property
    def bound(self) -> float:
        """The longest that no rank may move, in seconds."""
        recent = sorted(self._recent)
        slow = recent[int(0.95 * (len(recent) - 1))] if recent else 0.0
        return max(self._floor, _STEPS * slow, _PAUSES * self._longest)

    def _run(self) -> None:
        if not self.shared():
            log.info("a training that hangs is not noticed: its ranks have different folders for checkpoints")
            return
        every = min(1.0, self._floor / 10)
        self._floor *= _AGAIN ** min(_MOST_AGAIN, self._hangs())
        looked, seen, others, moved = time.monotonic(), None, self._touched(), 0.0
        while not self._ended.wait(every):
            now, passed = time.monotonic(), time.monotonic() - looked
            looked = now
            if passed > 2 * every + 1.0:  # it was suspended, as all ranks were
                moved = now
            if now - self._last < self._floor / 2 or self._stopping():  # the bound of another rank may be the floor
                seen = None
                continue
            look = _Look(self._thread)
            if seen is not None and look.differs(seen, passed):
                moved = now
                self._touch()
            seen, theirs = look, self._touched()
            if theirs != others:
                others, moved = theirs, now
            waited, bound = now - max(self._last, moved), self.bound
            if waited >= bound:
                self._end(waited, bound)
                return

    def _hangs(self) -> int:
        """How many attempts of the job have hung before."""
        try:
            return (self._folder / "hung").stat().st_size if self._folder is not None else 0
        except OSError:
            return 0

    def _touch(self) -> None:
        if self._folder is not None:
            try:
                (self._folder / "moving").touch()
            except OSError:
                pass

    def _touched(self) -> float:
        try:
            return (self._folder / "moving").stat().st_mtime if self._folder is not None else 0.0
        except OSError:
            return 0.0

    def _end(self, waited: float, bound: float) -> None:
        """Writes the stacks into the log, says why, and ends the process."""
        frame = sys._current_frames().get(self._thread)
        _write_stacks()
        waits = _in_collective(frame)
        verb = "waits for other ranks" if waits else "hangs"
        print(
            f"fairway: rank {self._rank} {verb}: no rank has moved for {waited:.0f} s at {_place(frame)}; its bound is {bound:.0f} s "
            f"(longest pause between two steps before: {self._longest:.1f} s). The stacks of its threads are above",
            file=sys.stderr, flush=True,
        )
        if self._folder is not None and self._rank == 0:
            try:
                with open(self._folder / "hung", "ab") as file:
                    file.write(b"x")
            except OSError:
                pass
        time.sleep(min(_GRACE, self._floor / 4) * (2 if waits else 1))  # the rank to look at ends first
        if self._ended.is_set():
            return
        os._exit(1)


class _Look:
    """What changes while a thread of this process does something."""

    def __init__(self, thread: int) -> None:
        self._places: list[Any] = []
        top = frame = sys._current_frames().get(thread)
        if top is None:
            self._places.append(time.monotonic())  # it has ended, so others do what is done
        while frame is not None and len(self._places) < _DEEP:
            if frame.f_code.co_filename.endswith("fairway/member.py"):
                self._places.append(time.monotonic())  # the gang forms anew, which has bounds of its own
            self._places.append((frame.f_code, frame.f_lasti))
            frame = frame.f_back
        self._bytes = _bytes_moved()
        self._children = _children_computed()
        self._own = 0.0
        if top is not None and not _may_spin(top):
            self._own = time.clock_gettime(time.pthread_getcpuclockid(thread))

    def differs(self, before: "_Look", seconds: float) -> bool:
        return (
            self._places != before._places
            or self._bytes - before._bytes >= _BYTES * seconds
            or self._children - before._children >= _CHILDREN * seconds
            or self._own - before._own >= _OWN * seconds
        )


def _may_spin(frame: FrameType) -> bool:
    """Whether a thread that computes may only wait: for a GPU, or in a collective."""
    torch = sys.modules.get("torch")
    return _in_collective(frame) or torch is not None and torch.cuda.is_initialized()


def _bytes_moved() -> int:
    try:
        with open("/proc/self/io", encoding="ascii") as file:
            return sum(int(line.split()[1]) for line in file if line.startswith(("rchar", "wchar")))
    except (OSError, ValueError):
        return 0


def _children_computed() -> float:
    """Seconds that the children of this process have computed."""
    times = os.times()
    ticks = 0
    try:
        for task in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{task}/children", encoding="ascii") as file:
                for child in file.read().split():
                    with open(f"/proc/{child}/stat", encoding="utf-8", errors="replace") as stat:
                        fields = stat.read().rpartition(")")[2].split()
                    ticks += int(fields[11]) + int(fields[12])
    except (OSError, ValueError, IndexError):
        pass  # a child has ended meanwhile
    return times.children_user + times.children_system + ticks / os.sysconf("SC_CLK_TCK")


def _in_collective(frame: Optional[FrameType]) -> bool:
    """Whether the innermost frame is one in which ranks wait for each other."""
    name = frame.f_code.co_filename if frame is not None else ""
    return "/torch/" in name or name.endswith(("fairway/gang.py", "fairway/torch/gang.py"))


def _place(frame: Optional[FrameType]) -> str:
    """Where the main thread is: the innermost frame, and who called it from
    outside of libraries."""
    if frame is None:
        return "an unknown place"
    text = f"{frame.f_code.co_name} ({os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno})"
    while frame is not None and ("-packages/" in frame.f_code.co_filename or "/fairway/" in frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None or frame.f_code.co_name in text:
        return text
    return f"{text}, called from {os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


def _write_stacks() -> None:
    """Writes the stacks of all threads to the log: with py-spy, which sees native
    frames too, or else with Python's own means."""
    sys.stderr.flush()
    if not _py_spy():
        faulthandler.dump_traceback(file=sys.__stderr__ or sys.stderr, all_threads=True)


def _py_spy() -> bool:
    program = shutil.which("py-spy")
    if program is None:
        return False
    try:
        ctypes.CDLL(None).prctl(_SET_PTRACER, ctypes.c_ulong(-1 & (2**64 - 1)), 0, 0, 0)
        done = subprocess.run(
            [program, "dump", "--native", "--pid", str(os.getpid())], capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError, AttributeError):
        return False
    print(done.stdout, file=sys.stderr, flush=True)
    return True
