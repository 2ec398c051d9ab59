# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""What ranks agree on in a training whose loop is not ours."""

from __future__ import annotations

import sys
import time
from typing import Callable

Largest = Callable[[float], float]  # the largest value of all ranks


class Meeting:
    """All ranks meet after the same steps, about every so many seconds."""

    def __init__(self, world: int, largest: Largest, every: float = 0.5) -> None:
        self._world, self._largest, self._every = world, largest, every
        self.begin(0)

    def begin(self, step: int) -> None:
        """Says at which step the training begins."""
        self._pause, self._met, self._met_at = 1, step, time.monotonic()

    def ask(self, step: int, *wishes: bool) -> list[bool]:
        """Which of these wishes any rank has; none, where the ranks do not meet after
        this step."""
        if self._world == 1:
            return list(wishes)
        if step - self._met < self._pause:
            return [False] * len(wishes)
        pace = self._largest((time.monotonic() - self._met_at) / max(1, step - self._met))
        asked = [self._largest(float(wish)) > 0 for wish in wishes]
        self._pause = max(1, min(int(self._every / max(pace, 1e-9)), 2 * self._pause))
        self._met, self._met_at = step, time.monotonic()
        return asked


def largest_with_torch(value: float) -> float:
    """The largest value of all ranks, over the process group that is there."""
    if "torch" not in sys.modules:
        return value
    from fairway.torch.gang import largest

    return largest(value)
