# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""Training jobs large enough to fill a data-centre GPU, with the agent:
a residual network on images, a transformer on tokens. Synthetic data."""

from __future__ import annotations

import argparse
import logging
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import fairway.torch


class Block(nn.Module):
    """Two convolutions with a residual connection."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + self.body(x))


def residual() -> nn.Module:
    """A residual network for images of 32 by 32."""
    return nn.Sequential(
        nn.Conv2d(3, 128, 3, padding=1), *[Block(128) for _ in range(4)], nn.MaxPool2d(2),
        nn.Conv2d(128, 256, 3, padding=1), *[Block(256) for _ in range(4)], nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(256, 10),
    )  # fmt: skip


class Tokens(nn.Module):
    """A transformer that classifies sequences of tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(1000, 512)
        layer = nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 6)
        self.head = nn.Linear(512, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(self.embed(x)).mean(1))


def data(model: str, count: int) -> TensorDataset:
    """Noisy examples of ten classes."""
    generator = torch.Generator().manual_seed(7)
    labels = torch.randint(0, 10, (count,), generator=generator)
    if model == "residual":
        base = torch.randn(10, 3, 32, 32, generator=generator)
        return TensorDataset(base[labels] * 0.3 + torch.randn(count, 3, 32, 32, generator=generator), labels)
    tokens = torch.randint(0, 1000, (count, 128), generator=generator)
    tokens[:, ::4] = labels.view(-1, 1) * 10
    return TensorDataset(tokens, labels)


def main() -> None:
    """Trains one of the models for a number of epochs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=["residual", "tokens"], default="residual")
    parser.add_argument("--epochs", type=float, default=10)
    parser.add_argument("--examples", type=int, default=8192)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--times", type=Path, help="a file to which the time of every step is added")
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.manual_seed(0)
    model = residual() if args.model == "residual" else Tokens()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    loader = DataLoader(data(args.model, args.examples), batch_size=args.batch)
    run = fairway.torch.wrap(model, optimizer, loader, epochs=args.epochs, rule="adascale", checkpoint_every=20)
    loss = torch.zeros(())
    for inputs, labels in run:
        loss = nn.functional.cross_entropy(run.model(inputs), labels)
        run.step(loss)
        if args.times:
            loss.item()  # waits for the GPU
            with args.times.open("a") as times:
                times.write(f"{time.time():.3f}\n")
    if run.agent.env.rank == 0:
        print(f"done: epoch {run.epoch:.1f}, last loss {float(loss.detach()):.4f}, batch {run.loop.batch}", flush=True)


if __name__ == "__main__":
    main()
