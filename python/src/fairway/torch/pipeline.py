# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""Stages of a pipeline: each rank computes some of a model's layers, and parts of the batch
pass through the ranks one after the other (torch.distributed.pipelining)."""

from __future__ import annotations

from typing import Any, Callable, Sequence, Union

import torch
import torch.distributed as dist

from fairway.torch.gang import Reducer

# Leaves a model what stage i of n computes. Names of parameters must stay what they are.
Cut = Callable[[torch.nn.Module, int, int], Any]
Loss = Callable[[Any, Any], torch.Tensor]


def keep(layers: Union[torch.nn.ModuleList, torch.nn.ModuleDict], stage: int, stages: int) -> None:
    """Leaves a list of layers those of a stage: all stages have the same number of them, or
    the first ones have one more. They keep their names, and so the list must be iterated
    over: it has gaps."""
    names = list(layers._modules)
    if len(names) < stages:
        raise ValueError(f"there are {stages} stages for {len(names)} layers; want at most one for each")
    share, more = divmod(len(names), stages)
    first = stage * share + min(stage, more)
    for name in (*names[:first], *names[first + share + (stage < more) :]):
        del layers._modules[name]


def cut(model: torch.nn.Module, how: Cut, stage: int, stages: int, reducer: Reducer) -> None:
    """Leaves a model what a stage computes. All ranks must call it, and all raise unless
    each parameter is left to one stage under its own name."""
    owners: dict[str, set[int]] = {name: set() for name, _ in model.named_parameters()}
    why = ""
    try:
        how(model, stage, stages)
    except Exception as err:  # noqa: BLE001: the other ranks must not wait for this one
        why = f"stage {stage}: {type(err).__name__}: {err}"
    told = reducer.gather((stage, why, [name for name, _ in model.named_parameters()]))
    failed = [text for _, text, _ in told if text]
    if failed:
        raise ValueError(f"stages= cannot divide the model into {stages} stages: {failed[0]}")
    for number, _, left in told:
        if not left:
            raise ValueError(f"stages= leaves stage {number} of {stages} no parameters; want at least one for each")
        for name in left:
            if name not in owners:
                raise ValueError(f"stages= leaves stage {number} a parameter {name}, which the whole model does not have; names must stay, and tied ones be on one stage")
            owners[name].add(number)
    for name, numbers in owners.items():
        if len(numbers) != 1:
            raise ValueError(f"stages= leaves {name} to {len(numbers)} of {stages} stages; want one for each parameter")


class Pipeline:
    """This rank's stage. All ranks call the same methods in the same order."""

    def __init__(self, module: torch.nn.Module, loss: Loss, group: dist.ProcessGroup, device: torch.device) -> None:
        from torch.distributed.pipelining import PipelineStage  # takes a while

        self._group, self._loss, self._device = group, loss, device
        self._number, self._stages = dist.get_rank(group), dist.get_world_size(group)
        self._stage = PipelineStage(module, self._number, self._stages, device, group=group)
        self._parts = 0
        self._schedule: Any = None  # made anew for another number of parts

    def step(self, parts: Sequence[tuple[Any, Any]]) -> torch.Tensor:
        """Computes the gradient of the mean loss of the parts of a batch: inputs and
        targets. Returns that loss."""
        inputs, targets = (torch.cat([part[i] for part in parts]) for i in (0, 1))
        losses: list[torch.Tensor] = []
        given = {"target": targets, "losses": losses} if self._number == self._stages - 1 else {}
        self._prepare(len(parts)).step(*([inputs] if self._number == 0 else []), **given)
        loss = torch.stack(losses).mean().detach().float() if losses else torch.zeros((), device=self._device)
        dist.broadcast(loss, dist.get_global_rank(self._group, self._stages - 1), group=self._group)
        return loss

    def _prepare(self, parts: int) -> Any:
        """The order of the parts' passes. With as many parts as stages, backward passes begin
        early: a stage holds the activations of few parts."""
        from torch.distributed.pipelining import Schedule1F1B, ScheduleGPipe

        if parts != self._parts:
            kind = Schedule1F1B if parts >= self._stages else ScheduleGPipe
            self._parts, self._schedule = parts, kind(self._stage, parts, loss_fn=self._loss)
        return self._schedule
