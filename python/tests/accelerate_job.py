# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""A small training with Accelerate: accelerate_job.py FOLDER STEPS PAUSE. Rank 0 appends
each batch and its loss to the file "losses"."""

import json
import sys
import time

import torch
from accelerate import Accelerator, DataLoaderConfiguration, FullyShardedDataParallelPlugin
from accelerate.state import AcceleratorState, PartialState
from accelerate.utils import DistributedType, set_seed

from fairway.accelerate import Course

folder, steps, pause, kind = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
torch.set_num_threads(1)
set_seed(3)
accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True))
if kind == "fsdp":  # Accelerate leaves its plugin alone on CPUs; what it does on GPUs works there too
    plugin = FullyShardedDataParallelPlugin(fsdp_version=2, auto_wrap_policy="no_wrap", state_dict_type="SHARDED_STATE_DICT")
    for state in (PartialState, AcceleratorState):
        state._shared_state["distributed_type"] = DistributedType.FSDP
    AcceleratorState._shared_state["fsdp_plugin"] = plugin
inputs = torch.randn(96, 6)
data = torch.utils.data.TensorDataset(inputs, (inputs @ torch.randn(6, 1)).tanh())
model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Dropout(0.1), torch.nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10, 0.9)
model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
if kind == "fsdp":
    model.set_force_sum_reduction_for_comms(True)  # gloo knows no mean
course = Course(accelerator, steps, folder=folder, checkpoint_every=0.4)
for x, y in course.batches(loader):
    loss = torch.nn.functional.mse_loss(model(x), y)
    accelerator.backward(loss)
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad()
    mean = accelerator.reduce(loss.detach(), reduction="mean")
    if accelerator.is_main_process:
        with open(f"{folder}/losses", "a") as file:
            file.write(json.dumps([course.done, float(mean)]) + "\n")
    time.sleep(pause)
    course.step(loss)
