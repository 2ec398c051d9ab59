# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""What was measured of a job's steps: mean times for each placement and local
batch size, in the JSON shape of goodput.Sample."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from fairway.goodput import Limits

# The times a step may take, in seconds.
_SHORTEST, _LONGEST = 1e-9, 1e9


def _longest_sync(step: float) -> float:
    """The longest exchange that leaves a trace of the gradient in a step."""
    return step * (1 - 1e-9)


@dataclass(frozen=True)
class Sample:
    """The mean time of an optimiser step without accumulation, and of the part
    of it spent waiting for the exchange of gradients, in seconds."""

    nodes: int
    gpus: int
    local: int
    step: float
    sync: float
    count: float = 1.0

    def valid(self) -> bool:
        """Whether the daemon would take the sample."""
        return (
            1 <= self.nodes <= self.gpus
            and self.local >= 1
            and _SHORTEST <= self.step <= _LONGEST
            and 0 <= self.sync <= _longest_sync(self.step)
            and 0 <= self.count < math.inf
        )

    def to_json(self) -> dict[str, Any]:
        """The sample as the daemon reads it."""
        return dict(self.__dict__)


class Profile:
    """Running means of samples, by nodes, GPUs and local batch size."""

    def __init__(self) -> None:
        self._means: dict[tuple[int, int, int], Sample] = {}

    def add(self, sample: Sample) -> bool:
        """Takes in a sample; returns whether it was in range."""
        if not sample.valid():
            return False
        key = (sample.nodes, sample.gpus, sample.local)
        old = self._means.get(key)
        count = sample.count or 1.0
        if old is None:
            self._means[key] = Sample(*key, sample.step, sample.sync, count)
            return True
        share = count / (old.count + count)
        step = min(max(old.step + share * (sample.step - old.step), _SHORTEST), _LONGEST)
        sync = min(max(old.sync + share * (sample.sync - old.sync), 0.0), _longest_sync(step))
        self._means[key] = Sample(*key, step, sync, old.count + count)
        return True

    def samples(self) -> list[Sample]:
        """The means, ordered by nodes, GPUs and local batch size."""
        return [self._means[key] for key in sorted(self._means)]

    def drain(self) -> list[Sample]:
        """Returns the means and forgets them."""
        out = self.samples()
        self._means.clear()
        return out

    def most_gpus(self) -> int:
        """The largest number of GPUs seen."""
        return max((s.gpus for s in self._means.values()), default=0)

    def most_allowed(self, limits: Limits, limit: int) -> int:
        """The largest number of GPUs the job should be given next: the model
        is hopeful about what it has not seen, so a job may only double."""
        split = limits.max // max(1, limits.local_min)
        return max(1, min(max(1, 2 * self.most_gpus()), limit, split))
