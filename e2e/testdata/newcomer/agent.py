# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""The README's few lines: agent.py LOG EPOCHS. Rank 0 logs where it is, and the loss over
all data, before each step."""

import json
import logging
import os
import sys
import time

import torch
from torch.utils.data import DataLoader, TensorDataset

import fairway.torch

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
torch.set_num_threads(1)
torch.manual_seed(0)
inputs = torch.randn(64, 4)
labels = inputs.sum(1, keepdim=True)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
loader = DataLoader(TensorDataset(inputs, labels), batch_size=16, shuffle=True)
criterion = torch.nn.MSELoss()

run = fairway.torch.wrap(model, optimizer, loader, epochs=float(sys.argv[2]), checkpoint_every=3600)


def note(log):
    with torch.no_grad():
        loss = float(criterion(model(inputs), labels))
    line = {"position": run.loop.position, "at": time.time(), "loss": loss, "world": run.agent.env.world, "attempt": int(os.environ.get("FAIRWAY_ATTEMPT", 0))}
    print(json.dumps(line), file=log, flush=True)


with open(sys.argv[1] if run.agent.env.rank == 0 else os.devnull, "a") as log:
    for x, y in run:
        note(log)
        time.sleep(float(os.environ.get("STEP", 0.05)))
        run.step(criterion(run.model(x), y))
    note(log)
