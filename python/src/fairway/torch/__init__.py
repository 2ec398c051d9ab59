# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""Elastic training with PyTorch in a few lines:

    import fairway.torch

    run = fairway.torch.wrap(model, optimizer, loader, epochs=10)
    for inputs, targets in run:
        loss = criterion(run.model(inputs), targets)
        run.step(loss)

Alone, under torchrun or under Fairway, which may stop the script at any step
and start it again on another number of GPUs: it goes on where it was.
"""

from __future__ import annotations

import logging
from typing import Any, Iterator, Optional, Union

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

import fairway
from fairway.goodput import Config
from fairway.loop import Loop, Options, limits_of
from fairway.order import Order
from fairway.rules import Rule, make
from fairway.timing import WallClock
from fairway.torch import state as checkpoints
from fairway.torch.gang import CudaClock, Reducer, device_of
from fairway.torch.gradients import Meter
from fairway.torch.source import Source, permute

log = logging.getLogger("fairway")

__all__ = ["Run", "wrap"]

_PROBE_EVERY = 8  # steps between two measurements of the exchange


def wrap(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    data: Union[DataLoader, Dataset],
    *,
    epochs: float,
    batch_size: Optional[int] = None,
    **options: Any,
) -> "Run":
    """Makes a training elastic. data is a loader, whose data set, batch size,
    collate function and workers are used, or a data set. batch_size is that of
    all processes together, what the learning rate is meant for; a job file that
    names one overrules it. For the other options see Run."""
    return Run(model, optimizer, data, epochs=epochs, batch_size=batch_size, **options)


class Run:
    """A training: iterate over it for the examples of this rank, and call
    step(loss) once for each of them.

    scheduler is stepped for each step's worth of the initial batch size; rule
    is a rule of adaptation, by name or from fairway.rules (default: sqrt for Adam
    and its relatives, adascale for others); converged is the part of the highest
    loss by which it falls in an epoch when the training has converged, for policies
    that predict that; clip bounds the length of the gradient; extra is an object with
    state_dict and load_state_dict that is kept with the rest; choose_every is how
    many seconds apart changes of the batch size are at least; ddp holds options for
    DistributedDataParallel; agent is the process's own if not given."""

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        data: Union[DataLoader, Dataset],
        *,
        epochs: float,
        batch_size: Optional[int] = None,
        scheduler: Any = None,
        rule: Union[str, Rule, None] = None,
        converged: float = 0.0,
        clip: Optional[float] = None,
        seed: int = 0,
        extra: Any = None,
        device: Optional[torch.device] = None,
        checkpoint_every: float = 300.0,
        choose_every: float = 30.0,
        ddp: Optional[dict[str, Any]] = None,
        agent: Optional[fairway.Agent] = None,
    ) -> None:
        self.agent = agent or fairway.init()
        env = self.agent.env
        self.device = device or device_of(env)
        self.reducer = Reducer(env, self.device)
        self.module, self.optimizer, self.scheduler = model.to(self.device), optimizer, scheduler
        self.model: torch.nn.Module = self.module
        if env.world > 1:
            ids = [self.device.index] if self.device.type == "cuda" else None
            self.model = DistributedDataParallel(self.module, device_ids=ids, **(ddp or {}))
        self._source = Source(data, self.device)
        size = batch_size or self._source.batch_size
        if not size:
            raise ValueError("batch_size is not given, and the data is not a loader that has one")
        order = Order(len(self._source.dataset), seed, permute)
        self.loop = Loop(
            self.agent,
            order,
            limits_of(self.agent, size),
            epochs * order.size,
            rule=_rule_for(optimizer, rule),
            converged=converged,
            reducer=self.reducer,
            clock=CudaClock() if self.device.type == "cuda" else WallClock(),
            options=Options(checkpoint_every=checkpoint_every, choose_every=min(choose_every, env.report_seconds)),
        )
        self.loop.save = self._save
        self.loop.after_step = self._advance
        self._meter = Meter(self.model, optimizer, env.world) if self.loop.measures_noise else None
        if self._meter is not None:
            self.loop.drain_lengths = self._meter.drain
        self._clip, self._extra, self._seed = clip, extra, seed
        self._scheduled = 0  # steps of the scheduler
        self._micro = 0  # gradients of the present batch
        self._waiting = False  # for step(), after examples were handed out
        self._sync: Optional[list[Any]] = None
        self.resumed = self._load()

    # The loop of the training.

    @property
    def epoch(self) -> float:
        """How often the data was worked through, in examples of the initial
        batch size."""
        return self.loop.done / self.loop.order.size

    def __iter__(self) -> Iterator[Any]:
        env = self.agent.env
        self.model.train()
        while not self.loop.finished:
            config = self.loop.config
            indices = self.loop.order.batches(self.loop.position, config, env.rank, env.world)
            for examples in self._source.examples(indices):
                self._prepare(config)
                yield self._source.move(examples)
                if self._waiting:
                    raise RuntimeError("step(loss) was not called for the previous batch")
                if self._micro == 0 and (self.loop.finished or self.loop.config != config):
                    break
        self.loop.end()
        self.reducer.barrier()

    def step(self, loss: torch.Tensor) -> bool:
        """Computes the gradient of the loss (the mean over the examples handed
        out last) and, when the batch is complete, steps the optimiser. Returns
        whether it did. Reports the loss."""
        if not self._waiting:
            raise RuntimeError("step(loss) was called twice for the same batch")
        self._waiting = False
        config = self.loop.config
        count = config.accum + 1
        last = self._micro == config.accum
        if last and self._probing():
            loss.register_hook(self._queue_probe)
        (loss / count if count > 1 else loss).backward()
        if self._sync:
            self._sync.append(self.loop.mark())
        self.agent.report(loss=loss)
        self.loop.saw(loss)
        if self._meter is not None and self._micro == 0:
            self._meter.first(count)
        self._micro += 1
        if last:
            self._step_optimizer(count)
        return last

    def _prepare(self, config: Config) -> None:
        self._waiting = True
        if isinstance(self.model, DistributedDataParallel):
            # What no_sync() sets; it must hold from the forward pass on.
            self.model.require_backward_grad_sync = self._micro == config.accum

    def _step_optimizer(self, count: int) -> None:
        loop, config = self.loop, self.loop.config
        if self._meter is not None:
            self._meter.batch(count, loop.scale)
        if self._clip is not None:
            torch.nn.utils.clip_grad_norm_(self.module.parameters(), self._clip)
        rates = [group["lr"] for group in self.optimizer.param_groups]
        loop.lr = float(rates[0])
        factor = loop.lr_factor
        if factor != 1.0:
            for group in self.optimizer.param_groups:
                group["lr"] = group["lr"] * factor
        self.optimizer.step()
        for group, rate in zip(self.optimizer.param_groups, rates):
            group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        self._micro = 0
        sync, self._sync = self._sync, None
        loop.step_done((sync[0], sync[1]) if sync and len(sync) == 2 else None)
        if self._meter is not None and loop.config != config:
            self._meter.forget()

    def _advance(self) -> None:
        """Steps the scheduler once for each initial batch's worth of work."""
        worth = int(self.loop.done / self.loop.limits.initial + 1e-6)
        while self.scheduler is not None and self._scheduled < worth:
            self._scheduled += 1
            self.scheduler.step()

    # How long the exchange of gradients is waited for: from when this rank has
    # computed all of its gradient to when the mean of all ranks is there.

    def _probing(self) -> bool:
        return self.agent.env.world > 1 and self.loop.steps % _PROBE_EVERY == 0

    def _queue_probe(self, _gradient: torch.Tensor) -> None:
        # Runs at the start of the backward pass. The engine calls what is
        # queued at its end, in this order: first the probe, then what waits
        # for the exchange, which DDP queues when its last bucket is full.
        torch.autograd.Variable._execution_engine.queue_callback(self._probe)

    def _probe(self) -> None:
        self._sync = [self.loop.mark()]

    # Checkpoints.

    def state_dict(self) -> dict[str, Any]:
        """All that is kept. Every rank must call it."""
        state: dict[str, Any] = {
            "model": self.module.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "loop": self.loop.state_dict(),
            "scheduled": self._scheduled,
            "random": self.reducer.gather(checkpoints.random_state()),
        }
        for name, part in (("scheduler", self.scheduler), ("extra", self._extra)):
            if part is not None:
                state[name] = part.state_dict()
        return state

    def _save(self) -> None:
        if self.agent.store is None:
            if self.agent.should_stop():
                self.agent.save(b"")  # says that there is no folder
            return
        state = self.state_dict()
        if self.agent.env.rank == 0:
            self.agent.save(lambda file: checkpoints.write(file, state))
        self.reducer.barrier()  # no rank leaves before the work is safe

    def _load(self) -> bool:
        """Goes on from the last checkpoint, if there is one. All ranks read the
        same: the one that rank 0 found whole."""
        store = self.agent.store
        path = store.latest() if store is not None and self.agent.env.rank == 0 else None
        path = self.reducer.gather(path)[0]
        if path is None:
            return False
        state = checkpoints.read(path)
        self.module.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.loop.load_state_dict(state["loop"])
        self._scheduled = state["scheduled"]
        for name, part in (("scheduler", self.scheduler), ("extra", self._extra)):
            if part is not None and name in state:
                part.load_state_dict(state[name])
        env = self.agent.env
        checkpoints.set_random_state(state["random"], env.rank, env.world, self._seed + self.loop.position)
        log.info("resuming after %d examples with %d processes", self.loop.position, env.world)
        return True


def _rule_for(optimizer: torch.optim.Optimizer, rule: Union[str, Rule, None]) -> Rule:
    adaptive = any("betas" in group for group in optimizer.param_groups)
    found = make(rule or ("sqrt" if adaptive else "adascale"))
    if adaptive and found.name == "cabs":
        raise ValueError("rule = 'cabs' is for plain gradient descent; want another rule for this optimiser")
    return found
