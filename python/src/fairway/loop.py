# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""The course of a training, whatever computes its gradients: where in the data
it is, how its batch is made up, when all ranks save, change or stop together."""

from __future__ import annotations

import collections
import logging
import math
import statistics
import time
from dataclasses import dataclass
from typing import Any, Callable, Mapping, Optional, Protocol, Union

from fairway import goodput
from fairway.agent import Agent
from fairway.goodput import Config, Limits, Shape
from fairway.noise import Estimator, Noise
from fairway.order import Order
from fairway.pace import Pace
from fairway.probe import Link, Probing
from fairway.profile import Sample
from fairway.rules import Rule, Seen, make
from fairway.timing import Clock, Span, StepTimer, WallClock

log = logging.getLogger("fairway")

# The weight of measured noise from which it is trusted: some twenty batches of
# the initial size.
_ENOUGH = 0.02

# A noise scale from here on says that no gradient was seen in the noise: no
# number for a plot.
_NO_GRADIENT = 1e15

# Steps between two measurements of the exchange, if they are not longer than that.
_PROBE_EVERY, _LONG = 8, 0.1

# The most of its time that a training stands still for checkpoints in memory, and that
# the thread works which writes them. At 0.5 s for each and thousands of GPUs, saving more
# often costs more than failures do.
_STILL, _WRITING = 0.004, 0.25

# Seconds from one step that is taken apart to the next at least, and the most of the time
# that this may cost.
_PARTS_EVERY, _PARTS_COST = 60.0, 0.002

# Steps before the first one that is taken apart.
_PARTS_AFTER = 4

# The losses that are kept between two looks at them.
_LOSSES = 64

# The epochs in which the loss must hardly fall.
_CONVERGED_FOR = 3


@dataclass(frozen=True)
class Parts:
    """What a step spends besides computing, in seconds (plan.Parts): with exchanges
    under way, of that waiting for them, and waiting for other stages of a pipeline."""

    exchange: float
    wait: float
    bubble: float


class Recorder(Protocol):
    """Takes a step apart."""

    def begin(self) -> None:
        """Watches from here on."""

    def end(self) -> Optional[Parts]:
        """What was spent since then; None: that is not known."""


class Reducer(Protocol):
    """What the ranks of a gang need to agree. Every rank calls the same
    methods in the same order."""

    def max(self, values: list[float]) -> list[float]:
        """The largest of all ranks, one by one."""

    def mean(self, values: list[float]) -> list[float]:
        """The mean of all ranks, one by one."""

    def probe(self) -> list[Link]:
        """Measures links between the ranks."""


class Alone:
    """The reducer of a gang of one."""

    def max(self, values: list[float]) -> list[float]:
        return values

    def mean(self, values: list[float]) -> list[float]:
        return values

    def probe(self) -> list[Link]:
        return []


@dataclass(frozen=True)
class Several:
    """A batch of several gradients: the mean of their squared lengths as far as
    this rank knows them, and the squared length of their mean."""

    local: float
    total: float
    count: int
    scale: float


@dataclass(frozen=True)
class Pair:
    """Two successive batches of one gradient each: squared lengths of both and
    of their mean."""

    before: float
    now: float
    mean: float
    scale: float


Lengths = Union[Several, Pair]


@dataclass(frozen=True)
class Options:
    """How often things happen, in seconds."""

    checkpoint_every: float = 300.0
    near_every: float = 30.0
    agree_every: float = 0.5
    choose_every: float = 30.0


def limits_of(agent: Agent, batch_size: int, at_once: int = 0) -> Limits:
    """The bounds of the batch size: those of the job file, or else no change of
    the script's batch size. at_once is the most of it that goes through a GPU at
    once; 0: all of it."""
    env = agent.env
    initial = env.batch_initial or batch_size
    local_min = env.batch_local_min or 1
    local_max = max(env.batch_local_max or at_once or initial, local_min)
    if env.batch_scale < 1:
        # An attempt before this one ran out of the GPU's memory. What no longer
        # goes through it at once is accumulated: the batch stays what it was.
        share = min(local_max, -(-initial // env.world))
        local_max = max(local_min, int(share * env.batch_scale))
    limits = Limits(initial, max(env.batch_max, initial), local_min, local_max)
    limits.check()
    return limits


class Loop:
    """One rank's view of the course of the training. Work is counted in
    examples of the initial batch size: a step at a larger batch counts for what
    it is worth, as the noise scale tells, unless the rule sets the batch.
    replicas is how many the batch is divided among, if each takes several ranks or all of
    its exchange is part of its step; by default each rank has one of its own.
    converged is the user's rule for policies that predict convergence: the part of
    the highest loss by which it falls in an epoch at the end."""

    def __init__(
        self,
        agent: Agent,
        order: Order,
        limits: Limits,
        total: float,
        *,
        rule: Union[str, Rule] = "adascale",
        converged: float = 0.0,
        can: str = "resizes",
        replicas: Optional[int] = None,
        reducer: Optional[Reducer] = None,
        clock: Optional[Clock] = None,
        options: Options = Options(),
    ) -> None:
        self.rule = make(rule)
        self.agent, self.order, self.limits, self.total = agent, order, limits, total
        self.adapt = agent.env.adapt and limits.max > limits.initial
        self.world = agent.env.world
        self._planned = replicas is not None
        self.replicas = replicas if replicas is not None else self.world
        self.shape = Shape(agent.env.nodes, self.world)
        self.position = 0  # examples taken from the stream
        self.done = 0.0  # examples of the initial batch size they are worth
        self.steps = 0
        self.estimator = Estimator()
        self.lr = 0.0  # for the plots
        self.save: Callable[[], None] = lambda: None  # called by all ranks after the same step
        self.settle: Callable[[], None] = lambda: None  # the same; returns when what was saved is safe, or has failed
        self.save_near: Optional[Callable[[], None]] = None  # like save, but to memory; None: there is none
        self.after_step: Callable[[], None] = lambda: None  # called when done has grown
        self.asked: Callable[[], int] = lambda: 0  # the generation of the gang that this rank should be in
        self.generation = agent.env.generation
        self.regroup: Callable[[], None] = lambda: None  # called by all ranks after the same step, to enter it
        self.drain_lengths: Callable[[], list[Lengths]] = list
        self._converged = converged
        self._losses: collections.deque[Any] = collections.deque(maxlen=_LOSSES)
        self._loss: Optional[float] = None
        self._reducer: Reducer = reducer or Alone()
        self._options = options
        clock = clock or WallClock()
        self.mark = clock.mark  # for when a step waits for the exchange
        self._timer = StepTimer(clock)
        self._pace, self._probing = Pace(), Probing()
        self.probe_every = _PROBE_EVERY
        self._prior = 0.0
        self._noise: Optional[Noise] = None
        now = time.monotonic()
        self._last_save, self._last_choice, self._next_near = now, now, now + options.near_every
        self._used_to_near = False  # whether memory for such saves was got: that takes longer than to fill it
        self._next_try = 0.0  # to save and leave, after a save that failed
        self.recorder: Optional[Recorder] = None
        self._recording: Optional[float] = None  # since when
        self._next_parts = 0.0
        self._last_agreed, self._steps_agreed = now, 0
        self._pause = 1  # steps from one agreement to the next
        self.config = self._split(limits.initial)
        if agent.store is not None:
            agent.able(can)
            agent.watch.arm(self.world, agent.env.attempt)

    # What to run.

    @property
    def batch(self) -> int:
        """Examples of one step, on all ranks together."""
        return self.config.batch(self.replicas)

    @property
    def scale(self) -> float:
        """The batch size over the initial one."""
        return self.batch / self.limits.initial

    @property
    def finished(self) -> bool:
        """Whether all the work is done."""
        return self.done >= self.total - 1e-6

    @property
    def lr_factor(self) -> float:
        """By what the learning rate is to be multiplied now."""
        return self.rule.lr_factor(self._seen()) if self.adapt else 1.0

    @property
    def measures_noise(self) -> bool:
        """Whether drain_lengths is called."""
        return self.adapt and "noise" in self.rule.observes

    @property
    def noise_scale(self) -> float:
        """The gradient noise scale in examples; 0: not known."""
        return self._noise.scale(self.limits.initial) if self._noise else 0.0

    def _seen(self) -> Seen:
        return Seen(self.limits, self.batch, self.position / self.order.size, self.lr, self._loss, self._noise)

    # After a step.

    def saw(self, loss: Any) -> None:
        """Takes in the loss of a step, if the rule asks for it. A tensor is read
        later."""
        if self.adapt and "loss" in self.rule.observes:
            self._losses.append(loss.detach() if hasattr(loss, "detach") else loss)

    def step_done(self, sync: Optional[Span] = None, skipped: bool = False) -> None:
        """Says that an optimiser step has ended, and when it waited for the
        exchange of gradients. One that the optimiser skipped has used up its
        examples, but is no work done. May save, change the batch, or end the
        process because it was asked to stop."""
        self.steps += 1
        self.position += self.batch
        if not skipped:
            self.done += self._worth()
        self.after_step()
        if self._recording is not None:
            self._take_parts()
        self._timer.step(sync)
        self.agent.progress(self.done, self.total)
        if self._due():
            self._agree()

    def end(self) -> None:
        """Saves the end of the training and tells it."""
        self._measure()
        self.save()
        self.settle()
        self.agent.complete()

    def save_soon(self) -> None:
        """Saves when the ranks next agree."""
        self._last_save = -math.inf

    def _worth(self) -> float:
        if not self.adapt or self.rule.sets_batch:
            return float(self.batch)
        return goodput.gain(self.noise_scale, self.limits.initial, self.batch) * self.limits.initial

    def _due(self) -> bool:
        if self.world > 1:  # all ranks at the same step
            return self.steps - self._steps_agreed >= self._pause
        return self.agent.should_stop() or self.asked() > self.generation or time.monotonic() - self._last_agreed >= self._options.agree_every

    def _agree(self) -> None:
        """Makes all ranks do the same from here on."""
        self._measure()
        now = time.monotonic()
        pace = (now - self._last_agreed) / (self.steps - self._steps_agreed)
        leads = self.agent.env.rank == 0
        wish = self._choose(now) if leads else Config(0, 0)
        self._pace.add(self._timer.drain_own())
        stop, save, near, saving, probe, parts, least, pace, local, accum, self._prior, generation, *ranks = self._reducer.max([
            float(self.agent.should_stop() and now >= self._next_try),
            float(leads and now - self._last_save >= self._options.checkpoint_every),
            float(leads and self.save_near is not None and now >= self._next_near),
            float(self.agent.saving),
            float(leads and self._probing.due()),
            float(leads and self.recorder is not None and self.steps >= _PARTS_AFTER and now >= self._next_parts),
            self._probing.offer(),
            pace,
            float(wish.local),
            float(wish.accum),
            self.agent.prior_noise if leads else 0.0,
            float(self.asked()),
            *self._pace.offer(self.agent.env.rank, self.world),
        ])
        self.agent.paced(*self._pace.take(ranks))
        self._probing.take(least, pace)
        self.probe_every = 1 if pace > _LONG else _PROBE_EVERY
        often = min(self._options.agree_every, self.agent.env.notice / 10)
        self._pause = max(1, min(int(often / max(pace, 1e-9)), 2 * self._pause))
        self._take(Config(int(local), int(accum)))
        if (stop or save and not saving) and not self.finished:
            self._save_and_leave(bool(stop))
        elif near and not saving and not self.finished:
            self._save_near()
        elif probe and not self.finished:
            self._measure_links()
        if generation > self.generation and not stop and not self.finished:
            self.regroup()
        self._last_agreed, self._steps_agreed = time.monotonic(), self.steps
        if parts and self.recorder is not None:
            self._recording = self._last_agreed
            self.recorder.begin()

    def regrouped(self, reducer: Reducer, generation: int) -> None:
        """Goes on in another generation of the gang, with the agent's new rank and
        world. The batch stays what it is and is divided anew."""
        batch = self.batch if self.adapt else self.limits.initial
        self._reducer, self.generation = reducer, generation
        self.world = self.replicas = self.agent.env.world
        self.shape = Shape(self.agent.env.nodes, self.world)
        self.config = self._split(batch)
        self._pace, self._probing = Pace(), Probing()
        self._timer.restart(warmup=1, forget=True)
        self._last_agreed, self._steps_agreed, self._pause = time.monotonic(), self.steps, 1
        self._tell()

    def _save_and_leave(self, stop: bool) -> None:
        """Saves, and leaves if that was asked for. Work that could not be saved
        would be lost: the training goes on and tries again."""
        self.save()
        if stop:
            self.settle()
        (failed,) = self._reducer.max([float(bool(self.agent.save_error))])
        self._last_save = time.monotonic()
        self._next_near = self._last_save + self._options.near_every
        self._timer.restart()
        if stop and not failed:
            log.info("asked to stop: saved a checkpoint after %d examples, exiting", self.position)
            self.agent.leave()
        if stop:
            pause = min(5.0, self.agent.env.notice / 10)
            self._next_try = self._last_save + pause
            log.error("asked to stop, but the work is not saved; training on, trying again in %.0f s", pause)

    def _save_near(self) -> None:
        """Saves to memory, and decides when to do so again."""
        began = time.monotonic()
        self.save_near()  # type: ignore[misc]
        now = time.monotonic()
        still = now - began if self._used_to_near else 0.0
        self._used_to_near = True
        self._next_near = now + max(self._options.near_every, still / _STILL, self.agent.wrote / _WRITING)
        self._timer.restart()

    def _take_parts(self) -> None:
        """Takes in a step that was taken apart, which is no longer one like the others. What
        a rank waits for another to begin is no time of the exchange, so that counts where
        it was shortest."""
        found = self.recorder.end()  # type: ignore[union-attr]
        exchange, wait, bubble = (found.exchange, found.wait, found.bubble) if found else (0.0, 0.0, 0.0)
        unknown, shortest = self._reducer.max([float(found is None), -exchange])
        wait, bubble = self._reducer.mean([wait, bubble])
        now, began = time.monotonic(), self._recording or 0.0
        cost = max(0.0, now - began - self._timer.mean())
        self._next_parts = now + max(_PARTS_EVERY, cost / _PARTS_COST)
        self._recording = None
        self._timer.restart()
        if not unknown:
            self.agent.spent(Parts(-shortest, wait, bubble).__dict__)

    def _measure_links(self) -> None:
        began = time.monotonic()
        links = self._reducer.probe()
        if self.agent.env.rank == 0:
            self.agent.probed(self.world, links, self._probing.done(time.monotonic() - began))
        self._timer.restart()

    def _take(self, config: Config) -> None:
        if config == self.config:
            return
        before, self.config = self.batch, config
        log.info("batch size %d -> %d (%d per GPU, %d accumulation steps)", before, self.batch, config.local, config.accum)
        self._timer.restart(warmup=1, forget=True)
        self._tell()

    def _choose(self, now: float) -> Config:
        """The configuration to go on with: within the limits, changed seldom,
        and only for a gain that can be felt."""
        if self.adapt and self.rule.sets_batch:
            return self._follow_rule(now)
        params, noise = self.agent.params, self.noise_scale
        if not self.adapt or params is None or self._noise is None or now - self._last_choice < self._options.choose_every:
            return self.config
        self._last_choice = now
        best, most = self.limits.best(params, noise, self.shape)
        here = self.limits.goodput(params, noise, self.shape, self.config)
        return best if best.local > 0 and most > 1.05 * here else self.config

    def _follow_rule(self, now: float) -> Config:
        """The configuration that the rule asks for, as far as the limits allow. A
        schedule is followed at once, what is measured is not followed at every turn."""
        measured = bool(self.rule.observes)
        if measured and now - self._last_choice < self._options.choose_every:
            return self.config
        self._last_choice = now
        wish = self.rule.batch(self._seen())
        if math.isnan(wish):
            return self.config
        wish = min(max(wish, self.limits.initial), self.limits.max)
        if measured and abs(wish - self.batch) < 0.1 * self.batch:
            return self.config
        return self.limits.split(round(wish), self.replicas) or self.config

    # Measuring.

    def _measure(self) -> None:
        """Takes in what was measured since the last time, and hands it on."""
        steps, syncs = self._timer.drain()
        self._probing.add(syncs)
        if steps:
            mean = statistics.fmean(steps)
            sync = min(statistics.median(syncs), 0.99 * mean) if syncs else 0.0
            grad = (mean - sync) / (self.config.accum + 1)
            if self._planned:
                self.agent.measured([Sample(self.shape.nodes, self.world, self.config.local, mean, 0.0, len(steps))])
            elif self.world == 1 or syncs:
                sample = Sample(self.shape.nodes, self.world, self.config.local, grad + sync, sync, len(steps))
                self.agent.measured([sample])
        if self.measures_noise:
            self._estimate()
        losses = [x for x in map(float, self._losses) if math.isfinite(x)]
        self._losses.clear()
        if losses:
            mean = statistics.fmean(losses)
            self._loss = mean if self._loss is None else (self._loss + mean) / 2
        self._tell()

    def _estimate(self) -> None:
        taken = self.drain_lengths()
        several = [t for t in taken if isinstance(t, Several)]
        if self.world > 1 and several:
            means = self._reducer.mean([t.local for t in several] + [t.total for t in several])
            count = len(several)
            several = [Several(means[i], means[count + i], t.count, t.scale) for i, t in enumerate(several)]
        for t in several:
            self.estimator.add(t.local, t.total, t.count, t.scale)
        for p in taken:
            if isinstance(p, Pair):
                self.estimator.add_pair(p.before, p.now, p.mean, p.scale)
        self._noise = self._best_guess()

    def _best_guess(self) -> Optional[Noise]:
        """The noise as measured, or what the daemon says until that is enough."""
        if self.estimator.weight >= _ENOUGH:
            return self.estimator.noise()
        return Noise(1.0, self._prior / self.limits.initial) if self._prior > 0 else None

    def _tell(self) -> None:
        if self.agent.env.rank != 0:
            return
        step = self._timer.mean()
        rate = self.batch / step if step > 0 else 0.0
        worth = self._worth() / self.batch
        point = {"gpus": self.world, "batch": self.batch, "lr": self.lr * self.lr_factor}
        if 0 < self.noise_scale < _NO_GRADIENT:
            point["noise"] = self.noise_scale
        point["efficiency"] = worth
        if rate > 0:
            point.update(throughput=rate, goodput=rate * worth)
        fixed = 0 if self.adapt else self.limits.initial
        if self.adapt and self.rule.sets_batch:
            fixed = self.batch  # until the rule says otherwise, on any number of GPUs
        stop = {"fall": self._converged, "epochs": _CONVERGED_FOR, "epoch": self.order.size / self.limits.initial}
        self.agent.training(self.limits, fixed=fixed, noise=self.noise_scale, point=point, stop=stop if self._converged else None)

    # Checkpoints.

    def state_dict(self) -> dict[str, Any]:
        """All that must be kept."""
        return {
            "position": self.position,
            "done": self.done,
            "batch": self.batch,
            "estimator": self.estimator.state_dict(),
            "order": [self.order.size, self.order.seed],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a checkpoint, at any world size."""
        if list(state["order"]) != [self.order.size, self.order.seed]:
            log.warning("the data set or its seed has changed since the checkpoint; examples may repeat")
        self.position, self.done = int(state["position"]), float(state["done"])
        self.estimator.load_state_dict(state["estimator"])
        if self.adapt:
            self._noise = self._best_guess()
            self.config = self._split(max(self.limits.initial, min(int(state["batch"]), self.limits.max)))
        self.agent.restored(self.done, self.total)

    def _split(self, batch: int) -> Config:
        config = self.limits.split(batch, self.replicas)
        if config is None:
            raise ValueError(
                f"a batch of {batch} (at most {self.limits.max}) cannot be split over {self.replicas} processes; "
                "use fewer processes, or raise the batch size"
            )
        return config
