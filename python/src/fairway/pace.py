# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""How long each rank of a gang computes in a step. The wait for the others is left
out: in a gang that exchanges gradients, whole steps are equally long for all. The
daemon finds ranks by it that are slower than their peers (package diagnose)."""

from __future__ import annotations

import statistics
import time

WINDOW = 5.0  # seconds that one window sums up, as the daemon has it (diagnose.PaceWindow)
MOST = 16384  # numbers in one report, as the daemon takes them

# A rank that took this many times the median of all in so many windows in a row is
# worth a report at once. The daemon judges with more care.
_UNEVEN, _UNEVEN_FOR = 1.1, (7, 9, 11, 13)


class Pace:
    """Sums up the times of the ranks of a gang in windows. They travel with the
    loop's own agreement: each rank fills in its number of a list, and the largest
    of all ranks is the whole list."""

    def __init__(self) -> None:
        self._mine: list[float] = []
        self._window: list[list[float]] = []  # by rank
        self._began = time.monotonic()
        self._uneven = 0

    def add(self, seconds: list[float]) -> None:
        """Takes in how long this rank computed in some steps."""
        self._mine.extend(seconds)

    def offer(self, rank: int, world: int) -> list[float]:
        """This rank's part of the list: a typical step since the last time."""
        if world == 1 or world > MOST:
            return []
        out = [0.0] * world
        if self._mine:
            out[rank] = statistics.median(self._mine)
        self._mine = []
        return out

    def take(self, ranks: list[float]) -> tuple[list[float], bool]:
        """Takes in the list of all ranks. Returns the window that is over, if one
        is, and whether it is worth a report at once."""
        if len(ranks) != len(self._window):  # the gang has another size
            self._window, self._uneven = [[] for _ in ranks], 0
        for seen, seconds in zip(self._window, ranks):
            if seconds > 0:
                seen.append(seconds)
        now = time.monotonic()
        if not ranks or now - self._began < WINDOW:
            return [], False
        window = [statistics.median(seen) if seen else 0.0 for seen in self._window]
        self._window, self._began = [[] for _ in ranks], now
        known = [s for s in window if s > 0]
        if not known:
            return [], False
        # The lower of two in the middle: of two ranks, one may be slow.
        uneven = max(known) > _UNEVEN * statistics.median_low(known)
        self._uneven = self._uneven + 1 if uneven else 0
        return window, self._uneven in _UNEVEN_FOR
