# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""A training that knows nothing of Fairway: plain.py --gigabytes G. It prints the loss of
every tenth step, with all its digits, and keeps that much memory on the GPU, which it
looks at now and then."""

import argparse
import sys
import time

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--gigabytes", type=float, default=0)
parser.add_argument("--steps", type=int, default=10**9)
parser.add_argument("--workers", type=int, default=0, help="processes that load data")
parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
args = parser.parse_args()

torch.manual_seed(1)
torch.backends.cudnn.deterministic = True
width = 64 if args.device == "cuda" else 8


class Examples(torch.utils.data.IterableDataset):
    """Random images with labels, the same in every run."""

    def __iter__(self):
        random = torch.Generator().manual_seed(2)
        while True:
            yield torch.randn(3, 32, 32, generator=random), torch.randint(10, (), generator=random)


model = nn.Sequential(
    nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
    nn.MaxPool2d(4), nn.Flatten(), nn.Linear(width * 64, 10),
).to(args.device)  # fmt: skip
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
ballast = torch.full((int(args.gigabytes * 1e9),), 7, dtype=torch.uint8, device=args.device)
loader = iter(torch.utils.data.DataLoader(Examples(), batch_size=64, num_workers=args.workers, pin_memory=args.device == "cuda"))
batches = [next(loader) for _ in range(16)]
began = time.monotonic()
for step in range(1, args.steps + 1):
    images, labels = (t.to(args.device) for t in (next(loader) if args.workers else batches[step % 16]))
    loss = nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        if len(ballast) and int(ballast[:: 1 << 20].to(torch.int64).sum()) != 7 * len(ballast[:: 1 << 20]):
            sys.exit("the memory on the GPU has changed")
        print(step, float(loss).hex(), f"{time.monotonic() - began:.3f}", flush=True)
