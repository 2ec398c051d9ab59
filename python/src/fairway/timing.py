# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""Times of steps, measured without waiting for anything."""

from __future__ import annotations

import collections
import statistics
import time
from typing import Any, Optional, Protocol


class Clock(Protocol):
    """Marks moments, and tells later how far apart two of them were."""

    def mark(self) -> Any:
        """This moment."""

    def between(self, start: Any, end: Any) -> Optional[float]:
        """Seconds between two marks; None if that is not known yet."""


class WallClock:
    """The clock of a program that computes on the CPU."""

    def mark(self) -> float:
        return time.perf_counter()

    def between(self, start: float, end: float) -> Optional[float]:
        return end - start


Span = tuple[Any, Any]

# A step that took this many times the median has waited for something else: an
# evaluation, a slow disk, another program.
_PAUSE = 4.0


class StepTimer:
    """Collects the times from the end of one step to the end of the next."""

    def __init__(self, clock: Clock, warmup: int = 2) -> None:
        self._clock = clock
        self._skip = warmup  # steps that are slow because they are the first
        self._last: Any = None
        self._steps: collections.deque[Span] = collections.deque()
        self._syncs: collections.deque[Span] = collections.deque()
        self._own: collections.deque[Span] = collections.deque()
        self._recent: collections.deque[float] = collections.deque(maxlen=64)

    def restart(self, warmup: int = 0, forget: bool = False) -> None:
        """Leaves out the time since the last step; with forget, also all that is known: the
        batch has changed. The next step counts from now: otherwise none would be measured
        where every step is followed by a save."""
        self._last = self._clock.mark()
        self._skip = max(self._skip, warmup)
        if forget:
            self._steps.clear()
            self._syncs.clear()
            self._own.clear()
            self._recent.clear()

    def step(self, sync: Optional[Span] = None) -> None:
        """Says that a step has ended, and when it waited for the exchange."""
        now = self._clock.mark()
        if self._skip > 0:
            self._skip -= 1
        elif self._last is not None:
            self._steps.append((self._last, now))
            if sync is not None:
                self._syncs.append(sync)
                self._own.append((self._last, sync[0]))
        self._last = now

    def drain(self) -> tuple[list[float], list[float]]:
        """The times of steps, and of exchanges, that are known by now."""
        steps = self._ready(self._steps)
        self._recent.extend(steps)
        limit = _PAUSE * statistics.median(self._recent) if self._recent else 0.0
        return [s for s in steps if s <= limit], self._ready(self._syncs)

    def drain_own(self) -> list[float]:
        """From the end of a step to when the next one waited for the exchange: what
        this rank computed by itself, as far as that is known by now."""
        return self._ready(self._own)

    def mean(self) -> float:
        """A typical step of late, in seconds; 0 while nothing is known."""
        return statistics.median(self._recent) if self._recent else 0.0

    def _ready(self, spans: collections.deque[Span]) -> list[float]:
        out: list[float] = []
        while spans:
            seconds = self._clock.between(*spans[0])
            if seconds is None:
                break
            spans.popleft()
            out.append(max(seconds, 1e-9))
        return out
