# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""A script that knows nothing of Fairway: plain.py LOG STEPS [torch]. It logs the loss
before each step, and cannot resume."""

import json
import sys
import time


class Parabola:
    """The smallest model there is."""

    weight = 4.0

    def loss(self):
        return self.weight**2

    def step(self):
        self.weight -= 0.04 * self.weight


class Linear:
    """The same with PyTorch."""

    def __init__(self):
        import torch

        torch.manual_seed(0)
        self.model = torch.nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.02)
        self.inputs = torch.randn(32, 4)
        self.labels = self.inputs.sum(1, keepdim=True)

    def error(self):
        return ((self.model(self.inputs) - self.labels) ** 2).mean()

    def loss(self):
        return float(self.error())

    def step(self):
        self.optimizer.zero_grad()
        self.error().backward()
        self.optimizer.step()


model = Linear() if "torch" in sys.argv[3:] else Parabola()
with open(sys.argv[1], "a") as log:
    for position in range(int(sys.argv[2])):
        print(json.dumps({"position": position, "at": time.time(), "loss": model.loss()}), file=log, flush=True)
        model.step()
        time.sleep(0.05)
