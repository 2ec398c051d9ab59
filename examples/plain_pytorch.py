# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""An elastic PyTorch loop: a small convolutional network on synthetic images. It runs
unchanged alone, under torchrun and under Fairway."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

try:
    import fairway.torch
except ImportError:  # not installed: use the checkout
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python" / "src"))
    import fairway.torch


def images(count: int, classes: int = 4, size: int = 16) -> TensorDataset:
    """Images of noisy stripes; direction and width determine the class."""
    generator = torch.Generator().manual_seed(1)
    labels = torch.arange(count) % classes
    line = torch.arange(size, dtype=torch.float32)
    waves = torch.sin(line.view(1, 1, size) * (1.0 + (labels // 2).view(-1, 1, 1)))
    picture = waves.expand(count, size, size).clone()
    picture[labels % 2 == 1] = picture[labels % 2 == 1].transpose(1, 2)
    noise = 4.0 * torch.randn(count, size, size, generator=generator)
    return TensorDataset((picture + noise).unsqueeze(1), labels)


def network() -> nn.Module:
    """Two convolutions and a classifier."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4),
        nn.Flatten(), nn.Linear(256, 4),
    )  # fmt: skip


def main() -> None:
    """Trains and prints the last loss."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=float, default=5)
    parser.add_argument("--examples", type=int, default=4096)
    parser.add_argument("--batch", type=int, default=64, help="global batch size, over all processes")
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--sleep", type=float, default=0.0, help="seconds of extra work per example")
    parser.add_argument("--sleep-gradient", type=float, default=0.0, help="seconds of extra work per gradient")
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")

    torch.manual_seed(0)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    loader = DataLoader(images(args.examples), batch_size=args.batch)

    run = fairway.torch.wrap(model, optimizer, loader, epochs=args.epochs, rule="adascale", checkpoint_every=60)
    loss = torch.zeros(())
    for inputs, labels in run:
        loss = nn.functional.cross_entropy(run.model(inputs), labels)
        time.sleep(args.sleep * len(labels) + args.sleep_gradient)
        run.step(loss)

    if run.agent.env.rank == 0:
        print(f"done: epoch {run.epoch:.1f}, last loss {float(loss.detach()):.4f}, batch {run.loop.batch}", flush=True)


if __name__ == "__main__":
    main()
