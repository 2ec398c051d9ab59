# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""Learning-rate rules: by what factor the learning rate of the initial batch
size is multiplied at another one. scale is the batch size over the initial."""

from __future__ import annotations

import math
from typing import Callable

from fairway.noise import Noise

Rule = Callable[[float, Noise], float]


def adascale(scale: float, noise: Noise) -> float:
    """The number of steps at the initial batch size that one step is worth, for
    plain gradient descent: between 1 (no noise) and scale (nothing else).
    Johnson et al., ICML 2020."""
    larger = max(noise.var, noise.sqr)  # the sums of the largest numbers would be infinite
    if larger == 0:
        return 1.0
    var, sqr = noise.var / larger, noise.sqr / larger
    return (var + sqr) / (var / scale + sqr)


def square_root(scale: float, _noise: Noise) -> float:
    """Keeps the noise of the step the same: for Adam and its relatives."""
    return math.sqrt(scale)


def linear(scale: float, _noise: Noise) -> float:
    """Keeps the progress for each example the same, as long as there is far
    more noise than gradient. Goyal et al., 2017."""
    return scale


RULES: dict[str, Rule] = {"adascale": adascale, "sqrt": square_root, "linear": linear}
