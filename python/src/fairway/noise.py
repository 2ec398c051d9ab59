# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""The gradient noise scale, estimated from lengths of gradients (spec: Pollux,
section 4; McCandlish et al., 2018). Torch-free: it sees lengths, no tensors."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any, Mapping, Optional

# The smallest variance that Estimator.noise returns.
_LEAST_VAR = 1e-6

# The weight that an average keeps over one batch of the initial size. A larger
# batch counts as several.
_MEMORY = 0.999


@dataclass(frozen=True)
class Noise:
    """The squared length of the gradient, and the variance of its estimate
    from one batch of the initial size, in the same unit."""

    sqr: float
    var: float

    def scale(self, initial: int) -> float:
        """The noise scale in examples; the largest float where no gradient can
        be seen in the noise, because JSON has no infinity."""
        if self.var == 0:
            return 0.0
        if self.sqr == 0:
            return sys.float_info.max
        return min(initial * (self.var / self.sqr), sys.float_info.max)


class Estimator:
    """Averages of what single batches say about the noise of the gradient."""

    def __init__(self) -> None:
        self.sqr = 0.0  # smoothed sums; divided by weight they are averages
        self.var = 0.0
        self.weight = 0.0
        self.biased = False  # the last sample came from add_pair

    def add(self, local: float, total: float, count: int, scale: float) -> bool:
        """Takes in a batch of several gradients: the mean of their squared
        lengths, the squared length of their mean, how many they are, and the
        batch size over the initial one. What came from pairs is forgotten.
        Returns whether the batch could be used: gradients that are infinite or
        not a number are skipped."""
        fresh = (0.0, 0.0, 0.0) if self.biased else (self.sqr, self.var, self.weight)
        mixed = _mix(fresh, local, total, count, scale)
        if mixed is None:
            return False
        self.sqr, self.var, self.weight = mixed
        self.biased = False
        return True

    def add_pair(self, before: float, now: float, mean: float, scale: float) -> bool:
        """Takes in two successive batches of one gradient each: the squared
        lengths of both and of their mean. All that one GPU without
        accumulation can offer; biased, since the parameters moved between."""
        mixed = _mix((self.sqr, self.var, self.weight), before / 2 + now / 2, mean, 2, 2 * scale)
        if mixed is None:
            return False
        self.sqr, self.var, self.weight = mixed
        self.biased = True
        return True

    def noise(self) -> Optional[Noise]:
        """The estimate; None while nothing was seen."""
        if not self.weight > 0:
            return None
        return Noise(max(0.0, self.sqr / self.weight), max(_LEAST_VAR, self.var / self.weight))

    def state_dict(self) -> dict[str, Any]:
        """The state, for a checkpoint."""
        return dict(self.__dict__)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a checkpoint."""
        self.sqr, self.var = float(state["sqr"]), float(state["var"])
        self.weight, self.biased = float(state["weight"]), bool(state["biased"])


def _mix(
    old: tuple[float, float, float], local: float, total: float, count: int, scale: float
) -> Optional[tuple[float, float, float]]:
    if not (local >= 0 and total >= 0 and count >= 2 and scale > 0):
        return None
    sqr = (count * total - local) / (count - 1)
    var = (local - total) * scale / (count - 1)
    if not (math.isfinite(sqr) and math.isfinite(var)):
        return None
    keep = math.pow(_MEMORY, scale)
    return (
        keep * old[0] + (1 - keep) * sqr,
        keep * old[1] + (1 - keep) * var,
        keep * old[2] + (1 - keep),
    )
