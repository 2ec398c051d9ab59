# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""Compares the rules of adaptation on one real training: a small network learns
what another one says of random points, where one label in fifty is wrong.

    python3 bench/rules.py --epochs 10 --lr 0.1 --seeds 3

Every rule starts with the same weights and data order, on one core. The loop's clock
counts a millisecond for each step, so that batch sizes do not depend on how busy the
machine is; only adascale chooses by measured speed. The time is that of the processor.
Figures are the mean over seeds, and the largest distance from it."""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Optional

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "src"))
os.environ["OMP_NUM_THREADS"] = "1"

import torch
from torch import nn
from torch.utils.data import TensorDataset

import fairway.torch
from fairway.agent import Agent
from fairway.env import Environment
from fairway.goodput import Params
from fairway import loop as loops
from fairway.loop import Options

INPUTS, HIDDEN, CLASSES = 32, 128, 10
INITIAL, LARGEST = 8, 512


@dataclass
class Outcome:
    """What a training cost, and what came of it."""

    steps: int
    passes: float
    seconds: float
    batch: int
    loss: float
    held_out: float
    accuracy: float


def network(seed: int) -> nn.Module:
    """A small network."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(INPUTS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES))


def examples(seed: int, size: int) -> TensorDataset:
    """Random points, and the classes that a network with larger weights gives them."""
    teacher = network(1000 + seed)
    with torch.no_grad():
        for p in teacher.parameters():
            p.mul_(2.5)
        points = torch.randn(size, INPUTS)
        labels = teacher(points).argmax(1)
        wrong = torch.rand(size) < 0.02
        labels[wrong] = torch.randint(CLASSES, (int(wrong.sum()),))
    return TensorDataset(points, labels)


def measure(model: nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> tuple[float, float]:
    """Loss and accuracy."""
    with torch.no_grad():
        scores = model(inputs)
        return float(nn.functional.cross_entropy(scores, labels)), float((scores.argmax(1) == labels).float().mean())


def measure_speed() -> Params:
    """The throughput model that the daemon would have fitted: the time of a gradient
    at two batch sizes."""
    times = []
    for batch in (INITIAL, LARGEST):
        model, points = network(0), torch.randn(batch, INPUTS)
        began = time.process_time()
        for _ in range(50):
            model(points).sum().backward()
        times.append((time.process_time() - began) / 50)
    slope = max(1e-9, (times[1] - times[0]) / (LARGEST - INITIAL))
    return Params(max(1e-9, times[0] - slope * INITIAL), slope, 0.0, 0.0, 0.0, 0.0, 1.0)


def train(rule: Optional[str], decay: float, seed: int, args: argparse.Namespace, speed: Params) -> Outcome:
    """Trains by a rule; None: the batch stays. decay is by what the learning rate
    is multiplied every args.every epochs."""
    size = args.examples
    data = examples(seed, 2 * size)  # half of them held out
    train_set = TensorDataset(*(t[:size] for t in data.tensors))
    model = network(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    every = max(1, int(args.every * size / INITIAL))
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, every, decay) if decay != 1 else None
    clock = SimpleNamespace(now=0.0)
    loops.time = SimpleNamespace(monotonic=lambda: clock.now)
    env = Environment(adapt=rule is not None, batch_max=LARGEST, batch_local_max=LARGEST)
    run = fairway.torch.wrap(
        model, optimizer, train_set, batch_size=INITIAL, epochs=args.epochs, seed=seed,
        rule=rule, scheduler=scheduler, agent=Agent(env),
    )  # fmt: skip
    run.loop._options = Options(agree_every=0.02, choose_every=0.1)
    run.agent.params = speed
    began = time.process_time()
    for inputs, labels in run:
        clock.now += 0.001
        run.step(nn.functional.cross_entropy(run.model(inputs), labels))
    seconds = time.process_time() - began
    loss, _ = measure(model, *(t[:size] for t in data.tensors))
    held_out, accuracy = measure(model, *(t[size:] for t in data.tensors))
    return Outcome(run.loop.steps, run.loop.position / size, seconds, run.loop.batch, loss, held_out, accuracy)


def text(values: list[float], digits: int) -> str:
    """The mean, and the largest distance from it."""
    mean = statistics.fmean(values)
    off = max(abs(v - mean) for v in values)
    return f"{mean:.{digits}f}" + (f" ± {off:.{digits}f}" if len(values) > 1 else "")


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=float, default=10, help="length of the training")
    parser.add_argument("--every", type=float, default=2.5, help="epochs between changes by schedule")
    parser.add_argument("--examples", type=int, default=4096, help="size of the training set")
    parser.add_argument("--lr", type=float, default=0.1, help="learning rate of the initial batch size")
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    kinds = [
        ("constant batch", None, 1.0),
        (f"constant batch, rate x 0.375 every {args.every:g}", None, 0.375),
        ("adascale", "adascale", 1.0),
        (f"adabatch:every={args.every:g}", f"adabatch:every={args.every:g}", 1.0),
        ("cabs", "cabs", 1.0),
        ("kungfu", "kungfu", 1.0),
    ]
    speed = measure_speed()
    print("| rule | steps | passes over the data | CPU seconds | last batch | training loss | held-out loss | accuracy |")
    print("|---|---|---|---|---|---|---|---|")
    for name, rule, decay in kinds:
        done = [train(rule, decay, seed, args, speed) for seed in range(args.seeds)]
        cells = [name]
        for field, digits in (("steps", 0), ("passes", 1), ("seconds", 1), ("batch", 0), ("loss", 3), ("held_out", 3), ("accuracy", 3)):
            cells.append(text([float(getattr(o, field)) for o in done], digits))
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
