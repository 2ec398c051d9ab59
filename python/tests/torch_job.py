# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""Jobs that the tests with PyTorch run as gangs: elastic, noise or stuck."""

from __future__ import annotations

import json
import os
import sys
import time

import torch

import fairway.loop
import fairway.torch

torch.set_num_threads(1)
fairway.loop._STILL = fairway.loop._WRITING = 1.0  # checkpoints in memory may be frequent


def elastic(pause: float) -> None:
    """A regression whose data order and loss must not depend on the gang.
    Prints the indices it saw, and at the end the loss over all data. It pauses
    after each step until there is a file "hurry" in its folder."""
    hurry = os.path.join(sys.argv[2], "hurry")
    generator = torch.Generator().manual_seed(3)
    inputs = torch.randn(480, 6, generator=generator)
    targets = torch.tanh(inputs @ torch.randn(6, 1, generator=generator)) + 0.1 * torch.randn(480, 1, generator=generator)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    data = torch.utils.data.TensorDataset(torch.arange(480), inputs, targets)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 40, 0.7)
    run = fairway.torch.wrap(
        model, optimizer, data, batch_size=16, epochs=4, scheduler=scheduler, checkpoint_every=float(sys.argv[4] if sys.argv[4:] else 0.7), memory_every=0.1
    )
    rank = run.agent.env.rank
    with open(f"{sys.argv[2]}/seen-{run.agent.env.attempt}-{rank}", "w", buffering=1) as seen:
        for indices, x, y in run:
            at = run.loop.position + rank * run.loop.config.local
            seen.write(json.dumps([at, indices.tolist()]) + "\n")
            if not os.path.exists(hurry):
                time.sleep(pause * len(indices))
            run.step(torch.nn.functional.mse_loss(run.model(x), y))
    with torch.no_grad():
        loss = float(torch.nn.functional.mse_loss(model(inputs), targets))
    print("result", json.dumps({"loss": loss, "lr": scheduler.get_last_lr()[0], "resumed": run.resumed, "steps": run.loop.steps}))


def noise(steps: int, kind: str) -> None:
    """A quadratic bowl whose noise scale is known: the example x has the loss
    |w - x|^2 / 2, so its gradient is w - x, with the covariance of the x. The
    learning rate is nearly 0, so w stays where it is."""
    size, count = 256, 10000
    spread = torch.linspace(0.5, 2.0, size)
    torch.manual_seed(1)
    examples = torch.randn(count, size) * spread
    model = torch.nn.Linear(1, size, bias=False)
    at = torch.linspace(1.0, 0.2, size)
    model.weight.data = at.clone().unsqueeze(1)
    options = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}
    optimizer = options[kind](model.parameters(), lr=1e-12)
    data = torch.utils.data.TensorDataset(examples)
    batch = 16
    run = fairway.torch.wrap(model, optimizer, data, batch_size=batch, epochs=steps * batch / count)
    one = torch.ones(1)
    for (x,) in run:
        run.step((run.model(one) - x).square().sum(1).mean() / 2)
    slope, variance = at - examples.mean(0), examples.var(0)
    divisor = torch.ones(size)
    if kind == "adam":
        divisor = (slope.square() + variance / batch).sqrt()
    want = float((variance / divisor**2).sum() / (slope / divisor).square().sum())
    print("result", json.dumps({"got": run.loop.noise_scale, "want": want, "biased": run.loop.estimator.biased, "batch": run.loop.batch}))


if __name__ == "__main__":
    if sys.argv[1] == "elastic":
        elastic(float(sys.argv[3]))
    else:
        noise(int(sys.argv[2]), sys.argv[3])
