# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""When the ranks of a gang measure the links between them, and which. A bad link slows
down the exchange for all ranks: the times of their steps show that, but not where. The
daemon judges what was measured (package diagnose)."""

from __future__ import annotations

import collections
import math
import statistics
import time
from typing import Any, Callable, Optional

from fairway.pace import WINDOW

# Windows by which the exchange is judged, and probes by which the daemon judges the links
# (diagnose.Links).
_WINDOWS, PROBES = 3, 4

# The exchange is worth a look if it is this part of a step, and again if it has become
# so many times as long or as short as at the last look.
_PART, _CHANGED = 0.1, 1.5

# The most of its time that a training stands still for probes, after some seconds.
_STILL, _SECONDS_FREE = 0.005, 5.0

# What two ranks send each other, how often, for how many seconds of one probe, how many
# other ranks each is measured with, and how many links a report has room for.
BYTES = 1 << 20
_TIMES, _SECONDS, _PARTNERS, _LINKS = 4, 1.0, 16, 512

Link = tuple[int, int, float]  # two ranks and the seconds that they took
Swap = Callable[[int], float]  # sends a rank BYTES and gets as many; returns the seconds of that
Largest = Callable[[list[float]], list[float]]


class Probing:
    """Decides when to probe: some times, once it is known how long the exchange takes,
    and whenever that has changed."""

    def __init__(self) -> None:
        self._mine: list[float] = []
        self._window: list[float] = []
        self._windows: collections.deque[tuple[float, float]] = collections.deque(maxlen=_WINDOWS)
        self._first = self._began = self._next = time.monotonic()
        self._left = 0  # of the probes under way
        self._took = 0.0  # all of them so far
        self._known = 0.0  # how long the exchange took at the last probe

    def add(self, waits: list[float]) -> None:
        """Takes in how long this rank waited for the exchange in some steps."""
        self._mine.extend(waits)

    def offer(self) -> float:
        """This rank's part of what take wants to know."""
        mine, self._mine = self._mine, []
        return -statistics.median(mine) if mine else -math.inf

    def take(self, most: float, step: float) -> None:
        """Takes in the largest offer, and how long a step takes. The rank that came last
        waited for nothing but the exchange."""
        if math.isfinite(most):
            self._window.append(-most)
        now = time.monotonic()
        if now - self._began >= WINDOW:
            if self._window:
                self._windows.append((statistics.median(self._window), step))
            self._window, self._began = [], now

    def due(self) -> bool:
        """Whether it is time for a probe."""
        now = time.monotonic()
        if self._left == 0 and now >= self._next and self._changed():
            self._left = PROBES
        return self._left > 0 and now >= self._next

    def done(self, seconds: float) -> bool:
        """Says that a probe took so long. Returns whether it was the last for now."""
        self._left -= 1
        self._took += seconds
        now = time.monotonic()
        self._next = now + WINDOW
        if self._left > 0:
            return False
        self._next = max(self._next, self._first + (self._took - _SECONDS_FREE) / _STILL)
        self._known = self._exchange()[0]
        return True

    def _exchange(self) -> tuple[float, float]:
        """How long the exchange takes of late, and a step."""
        exchanges, steps = zip(*self._windows)
        return statistics.median(exchanges), statistics.median(steps)

    def _changed(self) -> bool:
        if len(self._windows) < _WINDOWS:
            return False
        exchange, step = self._exchange()
        if exchange < self._known / _CHANGED:
            return True
        return exchange > max(_PART * step, self._known * _CHANGED)


def partner(rank: int, world: int, turn: int) -> Optional[int]:
    """Who a rank is paired with in a turn of a tournament, in which each meets each
    other one once; None: it has a rest."""
    turns = tournament(world)
    other = (turn - rank) % turns
    if rank == turns:  # with whom the others are paired instead of themselves
        other = turn * (turns + 1) // 2 % turns
    elif other == rank:
        other = turns
    return other if other < world else None


def tournament(world: int) -> int:
    """The turns of a tournament."""
    return world - 1 + world % 2


def measure(rank: int, world: int, largest: Largest, swap: Swap) -> list[Link]:
    """Measures links between the ranks, in turns that all begin together, and ends after
    a second even if not all were. Returns the same to all of them."""
    turns = tournament(world)
    count = min(turns, _PARTNERS, 2 * _LINKS // world)
    chosen = [i * turns // count for i in range(count)]
    mine = [math.inf] * count
    began = time.monotonic()
    for i in list(range(count)) * _TIMES:
        (spent,) = largest([time.monotonic() - began])
        if spent > _SECONDS:
            break
        other = partner(rank, world, chosen[i])
        if other is not None:
            mine[i] = min(mine[i], swap(other))
    own = [0.0] * (world * count)
    own[rank * count : (rank + 1) * count] = [s if math.isfinite(s) else 0.0 for s in mine]
    every = largest(own)
    out = []
    for a in range(world):
        for i, turn in enumerate(chosen):
            b = partner(a, world, turn)
            if b is not None and a < b and every[a * count + i] > 0:
                # Each has timed what it got: only one direction may be slow.
                out.append((a, b, max(every[a * count + i], every[b * count + i])))
    return out


def to_json(world: int, links: list[Link]) -> dict[str, Any]:
    """The diagnose.Probe of what was measured."""
    return {"ranks": world, "bytes": BYTES, "links": [{"a": a, "b": b, "seconds": round(s, 7)} for a, b, s in links]}
