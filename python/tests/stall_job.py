# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""Gangs that are in trouble: one rank is slow, hangs, or evaluates for long."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import torch

import fairway.pace
import fairway.torch

torch.set_num_threads(1)


def fake_collective() -> None:
    time.sleep(1000)


def multiply(count: int) -> None:
    """Computes for some milliseconds times count."""
    matrix = torch.ones(256, 256)
    for _ in range(count):
        matrix = matrix @ matrix / 256


def evaluate(seconds: float) -> None:
    """Computes until it was noticed that this rank moves, which takes long after slow
    steps, and then for so many seconds more."""
    noticed = Path(os.environ["FAIRWAY_CHECKPOINT_DIR"]) / ".fairway-watch" / "moving"
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(1000))
        if not noticed.exists():
            end = time.monotonic() + seconds


def train(kind: str, rank: int, amount: float, pause: float, seconds: float) -> None:
    """Trains for so many seconds, with pauses for computation, or computing (busy). A
    rank takes amount times as long (slow, busy), never comes back from step 30 (hang), or computes something
    else for amount seconds in it (evaluate)."""
    model = torch.nn.Linear(4, 1)
    data = torch.utils.data.TensorDataset(torch.randn(64, 4))
    run = fairway.torch.wrap(model, torch.optim.SGD(model.parameters(), lr=0.01), data, batch_size=8, epochs=seconds / pause / 8)
    mine = run.agent.env.rank == rank
    for (x,) in run:
        times = amount if mine and kind in ("slow", "busy") else 1.0
        if kind == "busy":
            multiply(round(1000 * pause * times))
        else:
            time.sleep(pause * times)
        if mine and run.loop.steps == 30 and kind == "hang":
            fake_collective()
        if mine and run.loop.steps == 30 and kind == "evaluate":
            evaluate(amount)
        run.step(run.model(x).square().mean())


if __name__ == "__main__":
    fairway.pace.WINDOW = float(sys.argv[6])
    train(sys.argv[1], int(sys.argv[2]), *(float(a) for a in sys.argv[3:6]))
