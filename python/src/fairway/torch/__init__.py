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

import copy
import dataclasses
import logging
import sys
from typing import Any, Iterator, Optional, Sequence, Union

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

import fairway
from fairway.checkpoint import whole
from fairway.env import Environment
from fairway.goodput import Config
from fairway.loop import Loop, Options, limits_of
from fairway.member import Member, Place, connect
from fairway.order import Order
from fairway.rules import Rule, make
from fairway.timing import WallClock
from fairway.torch import state as checkpoints
from fairway.torch.gang import CudaClock, Reducer, Replica, device_of, of_group
from fairway.torch.gradients import Meter
from fairway.torch.near import WHOLE, Near
from fairway.torch.source import Source, permute
from fairway.torch.together import Together, check_count, parts_of, together

log = logging.getLogger("fairway")

__all__ = ["Run", "wrap"]

Optimizers = Union[torch.optim.Optimizer, Sequence[torch.optim.Optimizer]]

_HEAR_SECONDS = 10.0  # from an error of the exchange to the supervisor's word that a rank died
_LEAVE_SECONDS = 8.0  # for a rank that leaves to end a write; the supervisor waits 10
_GATHER_SECONDS = 120.0  # for all ranks of a generation to get ready


def wrap(
    model: torch.nn.Module,
    optimizer: Optimizers,
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

    optimizer, and scheduler, may be a list: all of them are stepped at every step.
    accumulate is how many batches of batch_size make up one step of the optimiser;
    scheduler is stepped for each step's worth of the initial batch size; scaler is a
    GradScaler, whose skipped steps are no progress; examples is the length of an epoch
    of a data set that has none; rule
    is a rule of adaptation, by name or from fairway.rules (default: sqrt for Adam
    and its relatives, adascale for others); converged is the part of the highest
    loss by which it falls in an epoch when the training has converged, for policies
    that predict that; clip bounds the length of the gradient; extra is an object with
    state_dict and load_state_dict that is kept with the rest; checkpoint_every is how many
    seconds apart checkpoints on the disk are, memory_every those in memory at least;
    choose_every is how many seconds apart changes of the batch size are at least; ddp holds options for
    DistributedDataParallel; agent is the process's own if not given."""

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: Optimizers,
        data: Union[DataLoader, Dataset],
        *,
        epochs: float,
        batch_size: Optional[int] = None,
        accumulate: int = 1,
        scheduler: Any = None,
        scaler: Any = None,
        examples: int = 0,
        rule: Union[str, Rule, None] = None,
        converged: float = 0.0,
        clip: Optional[float] = None,
        seed: int = 0,
        extra: Any = None,
        device: Optional[torch.device] = None,
        checkpoint_every: float = 300.0,
        memory_every: float = 30.0,
        choose_every: float = 30.0,
        ddp: Optional[dict[str, Any]] = None,
        agent: Optional[fairway.Agent] = None,
    ) -> None:
        self.agent = agent or fairway.init()
        env = self.agent.env
        self.device = device or device_of(env)
        self._source = Source(data, self.device, examples)
        self._member = self._link(env, ddp or {})
        if env.generation > 0:  # it joins a gang that trains: at the end of this, when it is ready
            env = dataclasses.replace(env, world=1)
        self.reducer = Reducer(env, self.device, member=self._member)
        if self._member is not None and not self.reducer.own:  # the script has plans of its own
            self._member.close()
            self._member = None
        self._scaler = scaler
        self._ddp: Optional[DistributedDataParallel] = None
        self._ddp_options = ddp or {}
        self._lay_out(model, optimizer, scheduler)
        size = batch_size or self._source.batch_size
        if not size:
            raise ValueError("batch_size is not given, and the data is not a loader that has one")
        if accumulate < 1:
            raise ValueError(f"accumulate = {accumulate}; want 1 or more")
        order = Order(self._source.size, seed, permute)
        self.loop = Loop(
            self.agent,
            order,
            limits_of(self.agent, size * accumulate, self._at_once(size, accumulate)),
            epochs * order.size,
            rule=_rule_for(self.optimizer, rule),
            converged=converged,
            can="saves" if self._source.streams else "resizes",
            replicas=self._replicas,
            reducer=self.reducer,
            clock=CudaClock() if self.device.type == "cuda" else WallClock(),
            options=Options(checkpoint_every=checkpoint_every, near_every=memory_every, choose_every=min(choose_every, env.report_seconds)),
        )
        self.loop.save, self.loop.settle = self._save, self._settle
        self._near = Near(self.agent.store, self.reducer, self.agent.env.rank)
        if self._near.available:
            self.loop.save_near = self._save_near
        self._copies = checkpoints.Copies()
        self.loop.after_step = self._advance
        self._meter: Optional[Meter] = None
        self._measure_noise()
        self._clip, self._extra, self._seed = clip, extra, seed
        self._scheduled = 0  # steps of the scheduler
        self._micro = 0  # gradients of the present batch
        self._waiting = False  # for step(), after examples were handed out
        self._sync: Optional[list[Any]] = None
        if self._member is not None:
            self.loop.asked, self.loop.regroup = lambda: self._member.asked, self._regroup
        if self.agent.env.generation > 0:
            self._regroup(fresh=True)
            self.resumed = True
        else:
            self.resumed = self._load()
            if self._member is not None:
                self._member.up(0)
        if self._member is not None and self.agent.store is not None:
            self.agent.able("in_place")

    # The loop of the training.

    @property
    def epoch(self) -> float:
        """How often the data was worked through, in examples of the initial
        batch size."""
        return self.loop.done / self.loop.order.size

    def __iter__(self) -> Iterator[Any]:
        self.model.train()
        while not self.loop.finished:
            config, generation = self.loop.config, self.loop.generation
            if self._source.streams:
                batches = self._source.stream(config.local)
            else:
                batches = self._source.examples(self.loop.order.batches(self.loop.position, config, *self._share))
            for examples in batches:
                self._prepare(config)
                yield self._source.move(examples)
                if self._waiting:
                    raise RuntimeError(
                        "step(loss) was not called for the previous batch; to accumulate the gradients of several batches, "
                        "use accumulate=N and call step(loss) for each of them"
                    )
                if self._micro == 0 and (self.loop.finished or self.loop.config != config or self.loop.generation != generation):
                    break
        self.loop.end()
        self.reducer.barrier()
        if self._near.several:  # on one machine the daemon does this
            self._near.clear()

    def step(self, loss: torch.Tensor) -> bool:
        """Computes the gradient of the loss (the mean over the examples handed
        out last) and, when the batch is complete, steps the optimiser. Returns
        whether it did. Reports the loss."""
        if not self._waiting:
            raise RuntimeError("step(loss) was called twice for the same batch")
        self._waiting = False
        if self._member is None:
            return self._step(loss)
        before = self.loop.steps
        try:
            if self.model.lost is not None:
                raise self.model.lost
            return self._step(loss)
        except RuntimeError as err:
            if not self._rejoin(err):
                raise
        return self.loop.steps > before

    def _step(self, loss: torch.Tensor) -> bool:
        config = self.loop.config
        count = config.accum + 1
        last = self._micro == config.accum
        if last and self._probing():
            loss.register_hook(self._queue_probe)
        part = loss / count if count > 1 else loss
        (part if self._scaler is None else self._scaler.scale(part)).backward()
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
        if self._ddp is not None:
            # What no_sync() sets; it must hold from the forward pass on.
            self._ddp.require_backward_grad_sync = self._micro == config.accum

    def _step_optimizer(self, count: int) -> None:
        loop, config = self.loop, self.loop.config
        scale = 1.0
        if self._scaler is not None:
            scale = self._scaler.get_scale()
            for part in parts_of(self.optimizer):
                self._scaler.unscale_(part)
        if self._meter is not None:
            self._meter.batch(count, loop.scale, scale)
        if self._clip is not None:
            self._shorten(self._clip)
        rates = [group["lr"] for group in self.optimizer.param_groups]
        loop.lr = float(rates[0])
        factor = loop.lr_factor
        if factor != 1.0:
            for group in self.optimizer.param_groups:
                group["lr"] = group["lr"] * factor
        skipped = self._step_parts(scale)
        for group, rate in zip(self.optimizer.param_groups, rates):
            group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        self._micro = 0
        sync, self._sync = self._sync, None
        if skipped and self._meter is not None:
            self._meter.skip()
        loop.step_done((sync[0], sync[1]) if sync and len(sync) == 2 else None, skipped)
        if self._meter is not None and loop.config != config:
            self._meter.forget()

    def _step_parts(self, scale: float) -> bool:
        """Steps the optimiser. Returns whether the scaler skipped that, because
        gradients were infinite: all ranks have the same ones."""
        if self._scaler is None:
            self.optimizer.step()
            return False
        for part in parts_of(self.optimizer):
            self._scaler.step(part)
        self._scaler.update()
        return self._scaler.get_scale() < scale

    def _advance(self) -> None:
        """Steps the scheduler once for each initial batch's worth of work."""
        worth = int(self.loop.done / self.loop.limits.initial + 1e-6)
        while self.scheduler is not None and self._scheduled < worth:
            self._scheduled += 1
            self.scheduler.step()

    # How long the exchange of gradients is waited for: from when this rank has
    # computed all of its gradient to when the mean of all ranks is there.

    def _probing(self) -> bool:
        return self.agent.env.world > 1 and self.loop.steps % self.loop.probe_every == 0

    def _queue_probe(self, _gradient: torch.Tensor) -> None:
        # Runs at the start of the backward pass. The engine calls what is
        # queued at its end, in this order: first the probe, then what waits
        # for the exchange, which DDP queues when its last bucket is full.
        torch.autograd.Variable._execution_engine.queue_callback(self._probe)

    def _probe(self) -> None:
        self._sync = [self.loop.mark()]

    # How the model is laid out over the ranks: one replica on each.

    _replicas: Optional[int] = None  # see Loop

    @property
    def _share(self) -> tuple[int, int]:
        """Which of how many shares of a batch this rank gets."""
        return self.agent.env.rank, self.agent.env.world

    def _link(self, env: Environment, ddp: dict[str, Any]) -> Optional[Member]:
        """The link to the supervisor, if the gang can change in place: a stream cannot
        give out its examples again."""
        return connect(env) if "process_group" not in ddp and not self._source.streams else None

    def _lay_out(self, model: torch.nn.Module, optimizer: Any, scheduler: Any) -> None:
        self.module, self.optimizer, self.scheduler = model.to(self.device), together(optimizer), together(scheduler)
        self.model: torch.nn.Module = self.module if self._member is None else Replica(self.module)
        if self.reducer.world > 1:
            self._replicate()

    def _at_once(self, size: int, accumulate: int) -> int:
        """The most examples that go through a rank at once; 0: all of them."""
        return size if accumulate > 1 else 0

    def _shorten(self, length: float) -> None:
        """Bounds the length of the gradient."""
        torch.nn.utils.clip_grad_norm_(self.module.parameters(), length)

    # A gang that changes in place.

    def _replicate(self) -> None:
        """Makes a replica of the model for each rank of the process group."""
        if isinstance(self.model, Replica):
            self._ddp = self.model.join(self.device, self._ddp_options)
            return
        ids = [self.device.index] if self.device.type == "cuda" else None
        self.model = self._ddp = DistributedDataParallel(self.module, device_ids=ids, **self._ddp_options)

    def _measure_noise(self) -> None:
        if self.loop.measures_noise:
            self._meter = Meter(self._ddp or self.module, self.optimizer, self.reducer.world)
            self.loop.drain_lengths = self._meter.drain

    def _rejoin(self, err: RuntimeError) -> bool:
        """Goes on without a rank that has died, or with another in its place. False:
        the error has another cause. The step that it struck is abandoned: all
        examples of it are taken again."""
        if not of_group(err) or self._member.next(self.loop.generation, _HEAR_SECONDS) is None:
            return False
        log.warning("a rank of the gang is gone; going on from step %d without a restart", self.loop.steps)
        self._regroup()
        return True

    def _regroup(self, fresh: bool = False) -> None:
        """Leaves the process group and enters that of the newest generation. A fresh
        process has no state of the training yet."""
        self.agent.regrouping = True  # an error that leaves this ends the process
        tried, rank = self.loop.generation, self.agent.env.rank
        if fresh:
            self._member.waits(tried)
            tried -= 1
        while True:
            place = self._member.next(tried, _GATHER_SECONDS)
            if place is None:
                if self.agent.should_stop() and not fresh:
                    self._stop_alone(rank)
                raise RuntimeError("the gang cannot change: the supervisor does not answer")
            tried, rank = place.generation, place.rank
            self._leave_group()
            if place.rank < 0:
                log.info("the gang goes on without this rank; leaving after step %d", self.loop.steps)
                self.agent.settle(_LEAVE_SECONDS)
                self.agent.close()
                sys.exit(0)
            if not self._member.ready(place.generation, _GATHER_SECONDS):
                continue
            try:
                self._enter(place, fresh)
                break
            except RuntimeError as err:
                if not of_group(err):
                    raise
                log.warning("generation %d of the gang did not come about: %s", place.generation, err)
        self._member.up(place.generation)
        self.agent.watch.resume()
        self.agent.regrouping = False
        log.info("rank %d of %d from step %d on", place.rank, place.world, self.loop.steps)

    def _stop_alone(self, rank: int) -> None:
        """Saves and leaves: the job was asked to stop while its gang was in pieces.
        Rank 0 saves; the others have the same."""
        self.agent.regrouped(rank, 1)
        self.reducer = Reducer(self.agent.env, self.device)
        self._near = Near(self.agent.store, self.reducer, 0)
        self._save()
        self._settle()
        self.agent.leave()

    def _leave_group(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        self._ddp, self._meter, self._sync, self._micro = None, None, None, 0
        self.model.lost = None
        self.model.alone()
        self.loop.drain_lengths = list
        self.reducer.end()

    def _enter(self, place: Place, fresh: bool) -> None:
        self.agent.regrouped(place.rank, place.world)
        self.reducer = Reducer(self.agent.env, self.device, place.port, self._member)
        self._near = Near(self.agent.store, self.reducer, place.rank)
        most, least = self.reducer.max([float(self.loop.steps), -float(self.loop.steps)])
        if place.fresh or most != -least:  # one rank may have ended a step that another could not
            leads = place.rank == 0
            state = self.reducer.share(dict(self._state(), steps=self.loop.steps) if leads else None)
            if not leads:
                self._restore(state)
                self.loop.steps = state["steps"]
            if fresh:
                checkpoints.set_random_state([], place.rank, place.world, self._seed + self.loop.position)
        if place.world > 1:
            self._replicate()
        self.loop.regrouped(self.reducer, place.generation)
        self._measure_noise()

    # Checkpoints.

    def state_dict(self) -> dict[str, Any]:
        """All that is kept. Every rank must call it."""
        state = dict(self._state(), random=self.reducer.gather(checkpoints.random_state()))
        if self._source.streams:
            state["stream"] = self.reducer.gather(self._source.dataset.state_dict())
        return state

    def _state(self) -> dict[str, Any]:
        """What all ranks have in common."""
        return {"model": self.module.state_dict(), "optimizer": self.optimizer.state_dict(), **self._course()}

    def _course(self) -> dict[str, Any]:
        """What all ranks have in common but the tensors."""
        state: dict[str, Any] = {"loop": self.loop.state_dict(), "scheduled": self._scheduled}
        for name, part in self._kept():
            if part is not None:
                state[name] = part.state_dict()
        return state

    def _kept(self) -> list[tuple[str, Any]]:
        return [("scheduler", self.scheduler), ("scaler", self._scaler), ("extra", self._extra)]

    def _save(self, near: bool = False) -> None:
        """Saves to the memory of each node and, unless it is to be near, to the disk."""
        store, leads = self.agent.store, self.agent.env.rank == 0
        if store is None:
            if self.agent.should_stop():
                self.agent.save(b"")  # says that there is no folder
            return
        state, number = self.state_dict(), store.number() if leads else 0
        if self._near.several:
            state, number = self._as_on_rank_0(state, number)
        if leads and not near:
            self.agent.save_behind(lambda: self._copies.take(state), number)
        elif number and self._near.leads:
            content = self._copies.take(state)
            self.agent.save_near(lambda: store.save_to_memory(content, number))

    def _save_near(self) -> None:
        self._save(near=True)

    def _as_on_rank_0(self, state: dict[str, Any], number: int) -> tuple[dict[str, Any], int]:
        """Makes this rank's state that of rank 0. Replicas have the same parameters and
        optimiser; the rest is small, and sent."""
        same = {name for name, _ in self.module.named_parameters()}
        model = copy.copy(state["model"])
        rest = {key: value for key, value in state.items() if key != "optimizer"}
        rest["model"] = {key: value for key, value in model.items() if key not in same}
        rest, number = self.reducer.share((rest, number))
        model.update(rest["model"])
        return {**state, **rest, "model": model}, number

    def _settle(self) -> None:
        if self.agent.env.rank == 0:
            self.agent.settle()
        self.reducer.barrier()  # no rank leaves before the work is safe

    def _load(self) -> bool:
        """Goes on from the last checkpoint, if there is one: the newest that is whole, in
        the memory of a node or on the disk, where rank 0 finds it."""
        env, store = self.agent.env, self.agent.store
        disk = dict(store.disk.all()) if store is not None and env.rank == 0 else {}

        def check(number: int) -> bool:
            (damaged,) = self.reducer.max([float(env.rank == 0 and not whole(disk[number]))])
            return not damaged

        found = self._near.find([WHOLE] * self.reducer.world, {number: path.name for number, path in disk.items()}, check)
        if found is None:
            return False
        state = checkpoints.read(found.content or self.reducer.gather(disk.get(found.number))[0])
        self._restore(state)
        if store is not None and env.rank == 0:
            store.number(after=found.highest)
        if not found.durable:
            self.loop.save_soon()  # it is in memory only
        checkpoints.set_random_state(state["random"], env.rank, env.world, self._seed + self.loop.position)
        if self._source.streams:
            self._source.resume(state.get("stream", []), env.rank, env.world)
        log.info("resuming after %d examples with %d processes", self.loop.position, env.world)
        return True

    def _restore(self, state: dict[str, Any]) -> None:
        self.module.load_state_dict(state["model"])
        check_count(self.optimizer, state["optimizer"])
        self.optimizer.load_state_dict(state["optimizer"])
        self._restore_course(state)

    def _restore_course(self, state: dict[str, Any]) -> None:
        self.loop.load_state_dict(state["loop"])
        self._scheduled = state["scheduled"]
        for name, part in self._kept():
            if part is not None and name in state:
                part.load_state_dict(state[name])


def _rule_for(optimizer: Union[torch.optim.Optimizer, Together], rule: Union[str, Rule, None]) -> Rule:
    adaptive = any("betas" in group for group in optimizer.param_groups)
    found = make(rule or ("sqrt" if adaptive else "adascale"))
    if adaptive and found.name == "cabs":
        raise ValueError("rule = 'cabs' is for plain gradient descent; want another rule for this optimiser")
    return found
