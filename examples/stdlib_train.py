# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""Trains a small neural network with only Python's standard library and the agent
that PyTorch jobs use: elastic, checkpointed, with measured step times and gradient
noise. Without Fairway: python3 examples/stdlib_train.py"""

from __future__ import annotations

import argparse
import json
import logging
import math
import random
import sys
import time
from pathlib import Path
from typing import Iterator

try:
    import fairway
except ImportError:  # not installed: use the checkout
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python" / "src"))
    import fairway

from fairway.gang import Gang
from fairway.loop import Loop, Options, Pair, Several, limits_of
from fairway.order import Order

INPUTS, HIDDEN, CLASSES = 8, 12, 4


class Data:
    """Points around the corners of a shape in INPUTS dimensions, one class per corner.
    The classes overlap slightly."""

    def __init__(self, size: int, seed: int) -> None:
        rng = random.Random(seed)
        centres = [[rng.gauss(0, 1) for _ in range(INPUTS)] for _ in range(CLASSES)]
        self.labels = [i % CLASSES for i in range(size)]
        self.points = [[c + rng.gauss(0, 1.2) for c in centres[label]] for label in self.labels]

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, index: int) -> tuple[list[float], int]:
        return self.points[index], self.labels[index]


class Network:
    """A network with one hidden layer; all weights are in one flat list."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        first = [rng.gauss(0, 1 / math.sqrt(INPUTS)) for _ in range(INPUTS * HIDDEN)] + [0.0] * HIDDEN
        second = [rng.gauss(0, 1 / math.sqrt(HIDDEN)) for _ in range(HIDDEN * CLASSES)] + [0.0] * CLASSES
        self.weights = first + second

    def forward(self, point: list[float]) -> tuple[list[float], list[float]]:
        """Returns the hidden layer and the class probabilities."""
        w, bias = self.weights, INPUTS * HIDDEN
        hidden = [
            math.tanh(w[bias + h] + sum(w[h * INPUTS + i] * x for i, x in enumerate(point))) for h in range(HIDDEN)
        ]
        start = bias + HIDDEN
        scores = [
            w[start + HIDDEN * CLASSES + c] + sum(w[start + c * HIDDEN + h] * v for h, v in enumerate(hidden))
            for c in range(CLASSES)
        ]
        top = max(scores)
        powers = [math.exp(s - top) for s in scores]
        total = sum(powers)
        return hidden, [p / total for p in powers]

    def gradient(self, examples: list[tuple[list[float], int]]) -> tuple[list[float], float]:
        """Returns the gradient of the mean loss over examples, and that loss."""
        g, loss = [0.0] * len(self.weights), 0.0
        w, bias = self.weights, INPUTS * HIDDEN
        start = bias + HIDDEN
        for point, label in examples:
            hidden, chances = self.forward(point)
            loss -= math.log(max(chances[label], 1e-12))
            errors = [p - (c == label) for c, p in enumerate(chances)]
            for c, error in enumerate(errors):
                g[start + HIDDEN * CLASSES + c] += error
                for h, v in enumerate(hidden):
                    g[start + c * HIDDEN + h] += error * v
            for h, v in enumerate(hidden):
                back = (1 - v * v) * sum(errors[c] * w[start + c * HIDDEN + h] for c in range(CLASSES))
                g[bias + h] += back
                for i, x in enumerate(point):
                    g[h * INPUTS + i] += back * x
        return [x / len(examples) for x in g], loss / len(examples)


def square(g: list[float]) -> float:
    """Returns the squared norm of a gradient."""
    return sum(x * x for x in g)


def mean(vectors: list[list[float]]) -> list[float]:
    """Returns the mean of gradients."""
    return [sum(column) / len(vectors) for column in zip(*vectors)]


class Trainer:
    """Gradient descent across a gang."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.agent = fairway.init()
        self.gang = Gang(self.agent.env)
        self.data, self.network = Data(args.examples, args.seed), Network(args.seed)
        limits = limits_of(self.agent, args.batch)
        options = Options(checkpoint_every=args.checkpoint_every, choose_every=min(30.0, self.agent.env.report_seconds))
        order = Order(len(self.data), args.seed)
        total = args.steps * limits.initial
        self.loop = Loop(self.agent, order, limits, total, rule=args.rule, reducer=self.gang, options=options)
        self.loop.save, self.loop.lr = self.save, args.lr
        self.loop.drain_lengths = self.drain
        self.taken: list[Several | Pair] = []
        self.before: list[float] | None = None
        self.load()

    def train(self) -> None:
        """Runs to the end of training, or until asked to stop."""
        loop, env = self.loop, self.agent.env
        while not loop.finished:
            config = loop.config
            batches = loop.order.batches(loop.position, config, env.rank, env.world)
            while not loop.finished and loop.config == config:
                self.step(batches)
        loop.end()

    def step(self, batches: Iterator[list[int]]) -> None:
        """One optimiser step."""
        loop, gradients, losses = self.loop, [], []
        for _ in range(loop.config.accum + 1):
            examples = [self.data[i] for i in next(batches)]
            gradient, loss = self.network.gradient(examples)
            time.sleep(self.args.sleep * len(examples) + self.args.sleep_gradient)
            gradients.append(gradient)
            losses.append(loss)
        mine = mean(gradients)
        waits = loop.mark()
        *total, loss = self.gang.mean(mine + [sum(losses) / len(losses)])
        sync = (waits, loop.mark())
        if loop.measures_noise:
            self.measure(gradients, mine, total)
        rate = self.args.lr * loop.lr_factor
        self.network.weights = [w - rate * g for w, g in zip(self.network.weights, total)]
        self.agent.report(loss=loss)
        loop.saw(loss)
        if self.args.bug and loop.position >= self.args.bug * loop.limits.initial:
            del self.data.labels[len(self.data) // 2 :]  # the bug: half of the labels are lost
        loop.step_done(sync if self.gang.world > 1 else None)

    def measure(self, gradients: list[list[float]], mine: list[float], total: list[float]) -> None:
        """Records the gradient norms from which the noise scale is computed."""
        loop, before, self.before = self.loop, self.before, None
        if self.gang.world > 1:
            self.taken.append(Several(square(mine), square(total), self.gang.world, loop.scale))
        elif len(gradients) > 1:
            local = sum(map(square, gradients)) / len(gradients)
            self.taken.append(Several(local, square(total), len(gradients), loop.scale))
        else:
            if before is not None:
                self.taken.append(Pair(square(before), square(total), square(mean([before, total])), loop.scale))
            self.before = total

    def drain(self) -> list[Several | Pair]:
        """Returns what was recorded since the last call."""
        taken, self.taken = self.taken, []
        return taken

    def save(self) -> None:
        """Rank 0 writes a checkpoint; the others wait until it is on disk."""
        if self.gang.rank == 0:
            state = {"weights": self.network.weights, "loop": self.loop.state_dict()}
            self.agent.save(json.dumps(state).encode())
        self.gang.barrier()

    def load(self) -> None:
        """Resumes from the last checkpoint, if there is one."""
        content = self.agent.store.load() if self.agent.store else None
        if content is None:
            return
        state = json.loads(content)
        self.network.weights = state["weights"]
        self.loop.load_state_dict(state["loop"])
        print(f"resumed after {self.loop.position} examples on {self.gang.world} slots", flush=True)

    def evaluate(self) -> tuple[float, float]:
        """Returns the loss and the accuracy over all data."""
        loss, right = 0.0, 0
        for i in range(len(self.data)):
            point, label = self.data[i]
            _, chances = self.network.forward(point)
            loss -= math.log(max(chances[label], 1e-12)) / len(self.data)
            right += chances.index(max(chances)) == label
        return loss, right / len(self.data)


def main() -> None:
    """Parses the flags and trains."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400, help="optimiser steps at the initial batch size")
    parser.add_argument("--batch", type=int, default=16, help="initial global batch size, over all ranks")
    parser.add_argument("--lr", type=float, default=0.1, help="learning rate for that batch size")
    parser.add_argument("--rule", default="adascale", help="rule of adaptation, such as adascale, sqrt, linear, adabatch:every=5, cabs, kungfu")
    parser.add_argument("--sleep", type=float, default=0.0, help="seconds of extra work per example")
    parser.add_argument("--sleep-gradient", type=float, default=0.0, help="seconds of extra work per gradient")
    parser.add_argument("--examples", type=int, default=2000, help="size of the data set")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoint-every", type=float, default=10.0, help="seconds between checkpoints")
    parser.add_argument("--bug", type=int, default=0, help="lose half of the labels after this many steps")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    trainer = Trainer(parser.parse_args())
    trainer.train()
    if trainer.gang.rank == 0:
        loss, accuracy = trainer.evaluate()
        print(f"done: loss {loss:.4f}, accuracy {accuracy:.3f}, noise scale {trainer.loop.noise_scale:.1f}", flush=True)


if __name__ == "__main__":
    main()
