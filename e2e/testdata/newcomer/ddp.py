# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""DistributedDataParallel without an agent: ddp.py LOG STEPS. Each rank logs to its own
file; the gradients are of different examples, the model is one."""

import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
inputs = torch.randn(64, 4)
labels = inputs.sum(1, keepdim=True)
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
with open(f"{sys.argv[1]}-{rank}", "a") as log:
    for position in range(int(sys.argv[2])):
        with torch.no_grad():
            loss = float(((model.module(inputs) - labels) ** 2).mean())
        line = {"position": position, "at": time.time(), "loss": loss, "world": world, "attempt": int(os.environ.get("FAIRWAY_ATTEMPT", 0))}
        print(json.dumps(line), file=log, flush=True)
        optimizer.zero_grad()
        ((model(inputs[rank::world]) - labels[rank::world]) ** 2).mean().backward()
        optimizer.step()
        time.sleep(0.05)
dist.destroy_process_group()
