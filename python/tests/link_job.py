# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""A gang that exchanges a megabyte of gradients in each step, for a number of seconds."""

from __future__ import annotations

import sys
import time

import torch

import fairway.probe
import fairway.torch

torch.set_num_threads(1)


def train(pause: float, seconds: float) -> None:
    model = torch.nn.Linear(512, 512)
    data = torch.utils.data.TensorDataset(torch.randn(64, 512))
    run = fairway.torch.wrap(model, torch.optim.SGD(model.parameters(), lr=1e-4), data, batch_size=16, epochs=1e9)
    end = time.monotonic() + seconds
    for (x,) in run:
        time.sleep(pause)
        run.step(run.model(x).square().mean())
        (left,) = run.reducer.max([end - time.monotonic()])
        if left < 0:
            return


if __name__ == "__main__":
    if len(sys.argv) > 3:
        fairway.probe.WINDOW = float(sys.argv[3])
    train(*(float(a) for a in sys.argv[1:3]))
