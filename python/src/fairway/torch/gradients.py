# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""Lengths of gradients, for the noise scale. Nothing here waits for a GPU: the
lengths stay there as tensors until the loop asks for them."""

from __future__ import annotations

from typing import Any, Optional

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from fairway.loop import Lengths, Pair, Several

_WARMUP = 5  # steps after which Adam's second moments are good for something
_REFRESH = 16  # steps between two looks at them
_WHOLE = 1 << 26  # parameters of a model of which every one is measured
_ENTRIES = 1 << 17  # of each tensor that are measured of a larger one


class Meter:
    """Measures squared lengths of the gradients of each step: of the parts of a
    batch and of their mean. With several replicas, the parts are the replicas'
    gradients before they are exchanged; on one GPU, the first of the
    accumulated gradients stands for all of them; without accumulation,
    successive gradients are paired.

    With shards, the ranks have parts of one gradient, which is treated like that of one
    GPU: the squared lengths of the parts are added up.

    Of large models, evenly spread entries of each tensor stand for all of them: to keep
    a second gradient and its divisors would take as much memory as Adam does."""

    def __init__(
        self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, world: int, shards: Optional["Shards"] = None
    ) -> None:
        self._shards = shards
        self._params = [p for g in optimizer.param_groups for p in g["params"] if p.requires_grad]
        self._thin = sum(local(p).numel() for p in self._params) > _WHOLE
        self._precondition = Preconditioner(optimizer, self._thin)
        self._world = world
        self._part: Optional[torch.Tensor] = None
        self._before: Optional[tuple[torch.Tensor, torch.Tensor]] = None  # the last gradient, and its squared length
        self._taken: list[tuple[str, list[torch.Tensor], int, float]] = []
        if world > 1:
            if not isinstance(model, DistributedDataParallel):
                raise TypeError("the noise of several replicas is measured on a DistributedDataParallel model")
            model.register_comm_hook(self, _exchange)

    def bucket(self, bucket: dist.GradBucket) -> None:
        """Takes in a bucket of this replica's gradient, before the exchange."""
        if self._precondition.active or self._thin:
            square = self._square(bucket.gradients(), bucket.parameters())
        else:
            square = _square(bucket.buffer())
        self._part = square if self._part is None else self._part + square

    def first(self, count: int) -> None:
        """Says that the first of count gradients of a batch is there. The loss
        was divided by count."""
        if self._world == 1 and count > 1:
            self._part = self._length() * float(count * count)

    def batch(self, count: int, scale: float, part_scale: float = 1.0) -> None:
        """Says that the gradient of a whole batch is there, of count gradients
        on this replica. Those of its parts were part_scale times as long."""
        if self._world == 1 and count == 1:
            self._pair(scale)
        else:
            self._before = None
            if self._part is not None:
                number = self._world if self._world > 1 else count
                self._taken.append(("several", [self._part / part_scale**2, self._length()], number, scale))
        self._part = None
        if self._precondition.step():
            self._before = None  # its length is in the metric of before

    def _pair(self, scale: float) -> None:
        """Pairs this step's gradient with the last one's. All gradients in one
        tensor take a few kernels, however many parameters there are."""
        with torch.no_grad():
            params = self._with_gradient()
            if not params:
                return
            flat = torch.cat([g.reshape(-1) for g in self._own(self._gradients())])
            if self._precondition.active:
                flat.div_(self._precondition.flat(params))
            now = self._total(_square(flat))
            before, self._before = self._before, (flat, now)
            if before is not None and before[0].numel() == flat.numel():
                mean = self._total(_square(before[0].add_(flat))) / 4.0
                self._taken.append(("pair", [before[1], now, mean], 2, scale))

    def skip(self) -> None:
        """Drops what was measured of the last batch: the optimiser did not use it."""
        if self._taken:
            self._taken.pop()
        self.forget()

    def forget(self) -> None:
        """Drops the gradient that waits for a partner: the next is another's."""
        self._before, self._part = None, None

    def drain(self) -> list[Lengths]:
        """What was measured since the last time. Waits for the GPU once."""
        taken, self._taken = self._taken, []
        if not taken:
            return []
        numbers = iter(torch.stack([t.float() for _, tensors, _, _ in taken for t in tensors]).tolist())
        out: list[Lengths] = []
        for kind, tensors, count, scale in taken:
            values = [next(numbers) for _ in tensors]
            out.append(Several(*values, count, scale) if kind == "several" else Pair(*values, scale))
        return out

    def _with_gradient(self) -> list[torch.Tensor]:
        return [p for p in self._params if p.grad is not None]

    def _gradients(self) -> list[torch.Tensor]:
        return [p.grad for p in self._params if p.grad is not None]

    def _length(self) -> torch.Tensor:
        return self._square(self._gradients(), self._with_gradient())

    def _square(self, gradients: list[torch.Tensor], params: list[torch.Tensor]) -> torch.Tensor:
        """The squared length of a gradient in the optimiser's own metric."""
        with torch.no_grad():
            gradients = self._own(gradients)
            if self._precondition.active:
                gradients = torch._foreach_div(gradients, self._precondition.of(params))
            if not gradients:
                return torch.zeros(())
            return self._total(torch.stack([n.float() for n in torch._foreach_norm(gradients)]).square().sum())

    def _own(self, gradients: list[torch.Tensor]) -> list[torch.Tensor]:
        own = gradients if self._shards is None else self._shards.own(gradients)
        return [_stand_in(g) for g in own] if self._thin else own

    def _total(self, square: torch.Tensor) -> torch.Tensor:
        return square if self._shards is None else self._shards.total(square)


class Shards:
    """Gradients of which each rank has a part, as DTensors of meshes over the process
    group that is there, or over those of its ranks that have the same stage of a pipeline."""

    def __init__(self, stages: int = 1) -> None:
        self._stages = stages

    def own(self, gradients: list[torch.Tensor]) -> list[torch.Tensor]:
        """This rank's parts, shortened where other ranks have the same part, so that the
        squares of all ranks add up to that of the whole."""
        ranks = dist.get_world_size() // self._stages
        return [local(g) if _copies(g, ranks) == 1 else local(g) * _copies(g, ranks) ** -0.5 for g in gradients]

    def total(self, square: torch.Tensor) -> torch.Tensor:
        """The sum over all ranks."""
        if dist.get_world_size() > 1:
            if dist.get_backend() == "nccl":
                square = square.cuda()  # it may be on the host, with the gradients
            dist.all_reduce(square)
        return square


def local(tensor: torch.Tensor) -> torch.Tensor:
    """This rank's part of a tensor."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def _copies(tensor: Any, ranks: int) -> int:
    """How many of the ranks that have parts of a tensor have the same one."""
    if not hasattr(tensor, "to_local"):
        return ranks
    mesh = tensor.device_mesh
    parts = 1
    for dimension, placement in enumerate(tensor.placements):
        parts *= 1 if placement.is_replicate() else mesh.size(dimension)
    return ranks // parts


class Preconditioner:
    """What Adam and its relatives divide gradients by: the root of the second
    moments. The noise scale that counts is that of the gradients divided so."""

    def __init__(self, optimizer: torch.optim.Optimizer, thin: bool) -> None:
        self._optimizer, self._thin = optimizer, thin
        self._steps = 0
        self._divisors: dict[int, torch.Tensor] = {}
        self._flat: Optional[tuple[int, torch.Tensor]] = None

    @property
    def active(self) -> bool:
        """Whether gradients are to be divided."""
        return bool(self._divisors)

    def of(self, params: list[torch.Tensor]) -> list[torch.Tensor]:
        """The divisors of parameters."""
        return [self._divisors[id(p)] for p in params]

    def flat(self, params: list[torch.Tensor]) -> torch.Tensor:
        """The divisors of parameters in one tensor."""
        if self._flat is None or self._flat[0] != len(params):
            self._flat = (len(params), torch.cat([d.reshape(-1) for d in self.of(params)]))
        return self._flat[1]

    def step(self) -> bool:
        """Says that a batch was measured: between two batches all divisors may
        change, within one they must not. Returns whether they did."""
        self._steps += 1
        if self._steps >= _WARMUP and (self._steps - _WARMUP) % _REFRESH == 0:
            return self._refresh()
        return False

    def _refresh(self) -> bool:
        divisors: dict[int, torch.Tensor] = {}
        states = self._optimizer.state
        with torch.no_grad():
            for group in self._optimizer.param_groups:
                for p in group["params"]:
                    state = states.get(p, {})
                    divisor = _divisor(state, group, self._thin)
                    if p.requires_grad and divisor is None:
                        return False  # not such an optimiser, or not all of them have run
                    divisors[id(p)] = divisor
        self._divisors, self._flat = divisors, None
        return True


def _divisor(state: dict[str, Any], group: dict[str, Any], thin: bool) -> Optional[torch.Tensor]:
    if "exp_avg_sq" not in state or "betas" not in group:
        return None
    steps = float(state.get("step", 0))
    if steps < _WARMUP:
        return None
    moments = local(state["exp_avg_sq"])
    return ((_entries(moments) if thin else moments) / (1 - group["betas"][1] ** steps)).sqrt_().add_(group.get("eps", 1e-8))


def _entries(tensor: torch.Tensor) -> torch.Tensor:
    """Evenly spread entries of a tensor. Their distance is odd, so that they are not all of
    the same columns."""
    flat = tensor.reshape(-1)
    return flat[:: flat.numel() // _ENTRIES | 1] if flat.numel() >= 2 * _ENTRIES else flat


def _stand_in(gradient: torch.Tensor) -> torch.Tensor:
    """Entries of a gradient, lengthened so that they are as long as it is."""
    few = _entries(gradient)
    return few if few.numel() == gradient.numel() else few * (gradient.numel() / few.numel()) ** 0.5


def _square(flat: torch.Tensor) -> torch.Tensor:
    return torch.linalg.vector_norm(flat, dtype=torch.float32).square()


def _exchange(meter, bucket):  # type: ignore[no-untyped-def]
    """What DDP does with a bucket by itself, after a look at it. Without
    annotations: DDP compares them with types, and here they are strings."""
    meter.bucket(bucket)
    buffer = bucket.buffer()
    buffer.div_(dist.get_world_size())
    future = dist.all_reduce(buffer, async_op=True).get_future()
    return future.then(lambda f: f.value()[0])
