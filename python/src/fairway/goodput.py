# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""The goodput model of Pollux (Qiao et al., OSDI 2021): how fast a training
makes progress on given GPUs at a given batch size. It mirrors the Go package
goodput as far as an agent needs it; both pass the same test vectors."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Mapping, Optional

# Rounding errors of batch sizes that are whole numbers in truth must not push
# them over to the next whole number.
_GUARD = 1e-8

# The number of batch sizes that Limits.best tries.
_CANDIDATES = 50


@dataclass(frozen=True)
class Shape:
    """What the model sees of a placement."""

    nodes: int
    gpus: int
    cross_rack: bool = False


@dataclass(frozen=True)
class Params:
    """The throughput model of one job on one GPU type. Times in seconds."""

    alpha_grad: float
    beta_grad: float
    alpha_local: float
    beta_local: float
    alpha_node: float
    beta_node: float
    gamma: float
    alpha_rack: float = 0.0
    beta_rack: float = 0.0

    @classmethod
    def from_json(cls, data: Any) -> Optional["Params"]:
        """Returns the parameters, or None if they are not usable."""
        if not isinstance(data, Mapping):
            return None
        try:
            found = cls(**{name: float(data.get(name, 0.0)) for name in cls.__dataclass_fields__})
        except (TypeError, ValueError):
            return None
        return found if found.valid() else None

    def valid(self) -> bool:
        """Whether every parameter is in its range."""
        times = [v for k, v in asdict(self).items() if k != "gamma"]
        if not all(t >= 0 and math.isfinite(t) for t in times):
            return False
        return self.alpha_grad + self.beta_grad > 0 and 1 <= self.gamma <= 10

    def grad(self, local: float) -> float:
        """Time of one gradient over local examples (equation 8)."""
        return self.alpha_grad + self.beta_grad * local

    def sync(self, shape: Shape) -> float:
        """Time of the exchange of gradients (equation 9)."""
        if shape.gpus < 2:
            return 0.0
        more = shape.gpus - 2
        if shape.nodes < 2:
            return self.alpha_local + self.beta_local * more
        if shape.cross_rack and (self.alpha_rack > 0 or self.beta_rack > 0):
            return self.alpha_rack + self.beta_rack * more
        return self.alpha_node + self.beta_node * more

    def step(self, shape: Shape, local: float) -> float:
        """Time of an optimiser step without accumulation (equation 10)."""
        return _overlap(self.grad(local), self.sync(shape), self.gamma)

    def iter(self, shape: Shape, local: float, accum: int) -> float:
        """Time of an optimiser step with accumulated gradients (equation 11)."""
        return accum * self.grad(local) + self.step(shape, local)

    def throughput(self, shape: Shape, local: float, accum: int) -> float:
        """Examples for each second (equation 7)."""
        if shape.gpus < 1 or local <= 0 or accum < 0:
            return 0.0
        return shape.gpus * local * (accum + 1) / self.iter(shape, local, accum)


def _overlap(a: float, b: float, gamma: float) -> float:
    """(a^gamma + b^gamma)^(1/gamma), with no intermediate value far from 1."""
    a, b = max(a, b), min(a, b)
    if b == 0:
        return a
    if gamma == 1:
        return a + b
    return a * math.pow(1 + math.pow(b / a, gamma), 1 / gamma)


def efficiency(noise: float, initial: int, batch: int) -> float:
    """What an example of a batch is worth against one of the initial batch
    size (equation 6)."""
    if math.isinf(noise):
        return 1.0
    return (noise + initial) / (noise + batch)


def gain(noise: float, initial: int, batch: int) -> float:
    """How many iterations at the initial batch size one step is worth."""
    return efficiency(noise, initial, batch) * batch / initial


@dataclass(frozen=True)
class Config:
    """How the batch of one optimiser step is made up."""

    local: int  # examples on one GPU for one gradient
    accum: int  # gradients accumulated before the one that is exchanged

    def batch(self, gpus: int) -> int:
        """The examples of all GPUs together."""
        return gpus * self.local * (self.accum + 1)


@dataclass(frozen=True)
class Limits:
    """Bounds of the batch size of a job."""

    initial: int  # of all GPUs: what the learning rate is meant for, and the least
    max: int  # of all GPUs
    local_min: int  # of one GPU, for one gradient
    local_max: int

    def check(self) -> None:
        """Raises ValueError at the first limit that is out of range."""
        for name, value, least in (
            ("initial", self.initial, 1),
            ("max", self.max, self.initial),
            ("local_min", self.local_min, 1),
            ("local_max", self.local_max, self.local_min),
        ):
            if value < least:
                raise ValueError(f"{name} = {value}; want at least {least}")

    def to_json(self) -> dict[str, int]:
        """The limits as the daemon reads them."""
        return asdict(self)

    def split(self, batch: int, gpus: int) -> Optional[Config]:
        """Divides a batch evenly over GPUs, with as few accumulated gradients
        as memory allows; None if there is no such split. The result is rounded
        up to equal parts, unless that would exceed max."""
        if batch < 1 or gpus < 1 or self.local_max < 1:
            return None
        share = -(-batch // gpus)
        accum = -(-share // self.local_max) - 1
        if gpus == 1 and batch > self.initial:
            accum = max(1, accum)
        local = min(-(-share // (accum + 1)), self.max // (gpus * (accum + 1)))
        return Config(local, accum) if local >= 1 else None

    def best(self, params: Params, noise: float, shape: Shape) -> tuple[Config, float]:
        """The configuration with the largest goodput, and that goodput in
        examples of the initial batch size for each second (equation 13)."""
        nothing = Config(0, 0), 0.0
        try:
            self.check()
        except ValueError:
            return nothing
        least = max(self.initial, self.local_min * shape.gpus)
        if shape.gpus < 1 or least > self.max:
            return nothing
        best, most = nothing
        ratio = math.exp(math.log(self.max / least) / (_CANDIDATES - 1))
        batch = float(least)
        for i in range(_CANDIDATES):
            config = self._near(float(self.max) if i == _CANDIDATES - 1 else batch, shape.gpus)
            batch *= ratio
            if config is None:
                continue
            worth = self.goodput(params, noise, shape, config)
            if worth > most:
                best, most = config, worth
        return best, most

    def goodput(self, params: Params, noise: float, shape: Shape, config: Config) -> float:
        """The goodput of one configuration."""
        rate = params.throughput(shape, config.local, config.accum)
        return rate * efficiency(noise, self.initial, config.batch(shape.gpus))

    def _near(self, batch: float, gpus: int) -> Optional[Config]:
        """The configuration next to a batch size that need not be whole; None
        if it is outside the limits of one GPU."""
        share = batch / gpus
        accum = math.ceil(share / self.local_max - _GUARD) - 1
        if gpus == 1 and share > self.initial + _GUARD:
            accum = max(1, accum)
        local = min(math.ceil(share / (accum + 1) - _GUARD), self.max // (gpus * (accum + 1)))
        return Config(local, accum) if self.local_min <= local <= self.local_max else None
