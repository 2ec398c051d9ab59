# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""Rules of adaptation: what batch size a training uses, and by what factor the
learning rate of the initial batch size is multiplied there."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Callable, ClassVar, Optional, Union

from fairway.goodput import Limits
from fairway.noise import Noise


# How learning rates scale with the batch size: scale is the batch over the initial.


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


SCALINGS: dict[str, Callable[[float, Noise], float]] = {"adascale": adascale, "sqrt": square_root, "linear": linear}


@dataclass(frozen=True)
class Seen:
    """What a rule decides by."""

    limits: Limits
    batch: int  # examples of a step now, on all GPUs
    epoch: float  # passes over the data
    lr: float  # as the script set it, without the rule's factor
    loss: Optional[float] = None  # recent mean; None: not measured
    noise: Optional[Noise] = None  # None: not measured yet

    @property
    def scale(self) -> float:
        """The batch over the initial one."""
        return self.batch / self.limits.initial


class Rule:
    """A rule has a name, says what must be measured for it, and answers two
    questions at any time. It keeps no state: a training that goes on from a
    checkpoint, on other GPUs, gets the same answers."""

    name: ClassVar[str] = ""
    observes: ClassVar[tuple[str, ...]] = ("noise",)  # of "noise" and "loss"

    # Whether the rule chooses the batch size. Then every example counts the same.
    # Otherwise the batch is that of the best goodput, and examples of a larger batch
    # count for what they are worth.
    sets_batch: ClassVar[bool] = True

    def batch(self, seen: Seen) -> float:
        """The batch size to use. The loop keeps it within the limits."""
        raise NotImplementedError

    def lr_factor(self, seen: Seen) -> float:
        """By what the learning rate is multiplied at seen.batch."""
        return 1.0


class Scaling(Rule):
    """The batch of the best goodput, with a scaled learning rate."""

    sets_batch = False

    def lr_factor(self, seen: Seen) -> float:
        if seen.batch == seen.limits.initial:
            return 1.0
        return SCALINGS[self.name](seen.scale, seen.noise or Noise(1.0, 0.0))


class AdaScale(Scaling):
    name = "adascale"


class SquareRoot(Scaling):
    name = "sqrt"


class Linear(Scaling):
    name = "linear"


@dataclass(frozen=True)
class AdaBatch(Rule):
    """Multiplies the batch by factor and the learning rate by decay at given
    epochs: at each of at, or else every so many. Learning rate over batch then
    follows a schedule that decays by decay/factor at a constant batch; it still
    does where the limits allow no larger batch. Devarakonda et al., 2017."""

    name = "adabatch"
    observes = ()

    every: float = 20.0
    at: tuple[float, ...] = ()
    factor: float = 2.0
    decay: float = 0.75

    def __post_init__(self) -> None:
        _want(self.every > 0, "every", self.every, "a number of epochs above 0")
        _want(self.factor > 1, "factor", self.factor, "more than 1")
        _want(self.decay > 0, "decay", self.decay, "more than 0")

    def _changes(self, epoch: float) -> int:
        if self.at:
            return sum(epoch >= e for e in self.at)
        return int(epoch / self.every + 1e-9)

    def batch(self, seen: Seen) -> float:
        return seen.limits.initial * self.factor ** min(self._changes(seen.epoch), 64)

    def lr_factor(self, seen: Seen) -> float:
        return (self.decay / self.factor) ** self._changes(seen.epoch) * seen.scale


@dataclass(frozen=True)
class CABS(Rule):
    """Couples the batch to the learning rate: learning rate times the variance of
    the gradient of one example, over the loss. On a quadratic whose curvature is
    one over the learning rate, that is the batch that gains most for each
    example. For plain gradient descent, and losses that can come near to least.
    Balles, Romero and Hennig, UAI 2017."""

    name = "cabs"
    observes = ("noise", "loss")

    least: float = 0.0

    def batch(self, seen: Seen) -> float:
        if seen.noise is None or seen.loss is None:
            return seen.batch
        left = seen.loss - self.least
        variance = seen.noise.var * seen.limits.initial
        return seen.lr * variance / left if left > 0 else math.inf


@dataclass(frozen=True)
class KungFu(Rule):
    """Watches the gradient noise scale and lets a policy of the user choose the
    batch by it, as programs for KungFu do (Mai et al., OSDI 2020). Without a
    policy: the batch is multiplied by factor when the noise scale, in examples, is
    above threshold times the batch. The learning rate is scaled by lr."""

    name = "kungfu"

    threshold: float = 1.0
    factor: float = 2.0
    lr: str = "adascale"
    policy: Optional[Callable[[Seen], float]] = None

    def __post_init__(self) -> None:
        _want(self.threshold > 0, "threshold", self.threshold, "more than 0")
        _want(self.factor > 1, "factor", self.factor, "more than 1")
        _want(self.lr in SCALINGS, "lr", self.lr, "one of " + ", ".join(SCALINGS))

    def batch(self, seen: Seen) -> float:
        if seen.noise is None:
            return seen.batch
        if self.policy is not None:
            return self.policy(seen)
        grows = seen.noise.scale(seen.limits.initial) > self.threshold * seen.batch
        return seen.batch * self.factor if grows else seen.batch

    def lr_factor(self, seen: Seen) -> float:
        return SCALINGS[self.lr](seen.scale, seen.noise or Noise(1.0, 0.0))


RULES: dict[str, type[Rule]] = {r.name: r for r in (AdaScale, SquareRoot, Linear, AdaBatch, CABS, KungFu)}


def make(rule: Union[str, Rule]) -> Rule:
    """The rule of a text such as "adabatch" or "adabatch:every=10:decay=0.7"."""
    if isinstance(rule, Rule):
        return rule
    name, *settings = rule.split(":")
    if name not in RULES:
        raise ValueError(f"rule = {rule!r}; want one of {', '.join(sorted(RULES))}")
    kind = RULES[name]
    fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
    known = {f.name: f.default for f in fields if f.default is not None}
    chosen: dict[str, Any] = {}
    for setting in settings:
        key, _, text = setting.partition("=")
        if key not in known:
            raise ValueError(f"rule = {rule!r}: {key!r} is no setting of {name}; want one of {', '.join(known) or 'none'}")
        try:
            chosen[key] = _parse(text, known[key])
        except ValueError:
            raise ValueError(f"rule = {rule!r}: {key} = {text!r}; want something like {known[key]!r}") from None
    return kind(**chosen)


def _parse(text: str, like: Any) -> Any:
    if isinstance(like, tuple):
        return tuple(float(part) for part in text.split(","))
    return type(like)(text)


def _want(good: bool, name: str, value: Any, want: str) -> None:
    if not good:
        raise ValueError(f"{name} = {value!r}; want {want}")
