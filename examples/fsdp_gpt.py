# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""A small GPT that learns to write Python's own documentation, one character at a time,
under execution plans. It runs unchanged alone, under torchrun and under Fairway."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

import pydoc_data.topics
import torch
from torch import nn
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.utils.data import Dataset

try:
    import fairway.torch
except ImportError:  # not installed: use the checkout
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python" / "src"))
from fairway.torch import fsdp


class Text(Dataset):
    """Pieces of a text, and the character after each of theirs."""

    def __init__(self, length: int, characters: int) -> None:
        text = "".join(pydoc_data.topics.topics[name] for name in sorted(pydoc_data.topics.topics))[:characters]
        self.alphabet = sorted(set(text))
        index = {c: i for i, c in enumerate(self.alphabet)}
        self._codes, self._length = torch.tensor([index[c] for c in text]), length

    def __len__(self) -> int:
        return (len(self._codes) - 1) // self._length

    def __getitem__(self, i: int) -> tuple[torch.Tensor, torch.Tensor]:
        piece = self._codes[i * self._length : (i + 1) * self._length + 1]
        return piece[:-1], piece[1:]


class Block(nn.Module):
    """Attention and a perceptron. Of its heads and units a rank may have a part."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self._width = hidden // heads
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.query, self.key, self.value = (nn.Linear(hidden, hidden) for _ in range(3))
        self.out = nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = self.norm1(x)
        q, k, v = (part(normed).unflatten(-1, (-1, self._width)).transpose(1, 2) for part in (self.query, self.key, self.value))
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    """A decoder."""

    def __init__(self, words: int, length: int, layers: int, hidden: int, heads: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, hidden), nn.Embedding(length, hidden)
        self.blocks = nn.ModuleList(Block(hidden, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(hidden), nn.Linear(hidden, words)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.words is not None:
            x = self.words(x) + self.places(torch.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            x = block(x)
        return x if self.head is None else self.head(self.norm(x))


def split(model: GPT, mesh: torch.distributed.DeviceMesh) -> None:
    """Divides heads and units among the ranks that share layers."""
    into, back = ColwiseParallel(), RowwiseParallel()
    for block in model.blocks:
        parallelize_module(block, mesh, {"query": into, "key": into, "value": into, "out": back, "up": into, "down": back})


def cut(model: GPT, stage: int, stages: int) -> None:
    """Leaves the model what a stage of a pipeline computes."""
    fsdp.keep(model.blocks, stage, stages)
    if stage > 0:
        model.words = model.places = None
    if stage < stages - 1:
        model.norm = model.head = None


def cross_entropy(scores: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
    """The loss of the characters that follow."""
    return nn.functional.cross_entropy(scores.flatten(0, 1), following.flatten())


def main() -> None:
    """Trains and prints the last loss."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=float, default=1)
    parser.add_argument("--characters", type=int, default=400_000)
    parser.add_argument("--batch", type=int, default=16, help="pieces of text in a step, over all processes")
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--heads", type=int, default=4)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")

    torch.manual_seed(0)
    data = Text(args.length, args.characters)
    model = GPT(len(data.alphabet), args.length, args.layers, args.hidden, args.heads)
    run = fsdp.wrap(
        model, lambda params: torch.optim.AdamW(params, lr=3e-4), data,
        batch_size=args.batch, epochs=args.epochs, clip=1.0,
        tensor=split, stages=cut, loss=cross_entropy, checkpoint_every=60,
    )  # fmt: skip
    loss = None  # of the last batch, which may be in parts
    for codes, following in run:
        loss = run.learn(codes, following)
    if run.agent.env.rank == 0:
        print(f"done: {run.loop.steps} steps under {run.plan}" + (f", last loss {float(loss):.4f}" if loss is not None else ""), flush=True)


if __name__ == "__main__":
    main()
