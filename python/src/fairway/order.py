# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""The order of the data. All epochs follow each other in one endless stream of
examples, each epoch a seeded shuffle of its own. A step takes the next batch
from the stream, so the place in it, one number, is all that has to be kept for
a job to go on at another world size or batch size: no example of an epoch is
seen twice or skipped, and batches may reach from one epoch into the next."""

from __future__ import annotations

import random
from typing import Callable, Iterator, Sequence

from fairway.goodput import Config

Permute = Callable[[int, int], Sequence[int]]  # (examples, seed) -> a shuffle of them


def shuffle(size: int, seed: int) -> Sequence[int]:
    """A permutation of range(size), by the standard library alone."""
    indices = list(range(size))
    random.Random(seed).shuffle(indices)
    return indices


class Order:
    """The stream of examples of a data set."""

    def __init__(self, size: int, seed: int = 0, permute: Permute = shuffle) -> None:
        if size < 1:
            raise ValueError(f"the data set has {size} examples; want 1 or more")
        self.size = size
        self.seed = seed
        self._permute = permute
        self._epochs: dict[int, Sequence[int]] = {}

    def epoch(self, number: int) -> Sequence[int]:
        """The shuffle of one epoch."""
        if number not in self._epochs:
            # A batch can reach over few epochs; older ones are made again if needed.
            while len(self._epochs) > 1:
                del self._epochs[min(self._epochs)]
            # Seeds of neighbouring epochs and of neighbouring runs must differ.
            self._epochs[number] = self._permute(self.size, self.seed * 1_000_003 + number)
        return self._epochs[number]

    def slice(self, start: int, count: int) -> list[int]:
        """The indices at places start to start + count of the stream."""
        out: list[int] = []
        while count > 0:
            number, offset = divmod(start, self.size)
            part = self.epoch(number)[offset : offset + count]
            out.extend(int(i) for i in part)
            start, count = start + len(part), count - len(part)
        return out

    def batches(self, start: int, config: Config, rank: int, world: int) -> Iterator[list[int]]:
        """The gradients' examples of one rank from a place on, without end:
        accum + 1 lists of local indices for each step."""
        while True:
            for _ in range(config.accum + 1):
                yield self.slice(start + rank * config.local, config.local)
                start += world * config.local
