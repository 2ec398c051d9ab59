# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""Measures what saving costs a training: the same steps without saves, with saves
to memory, with saves to the disk that are written behind, and with some that are waited for.

    python3 bench/checkpoints.py --seconds 40 --every 10 [--sharded]

"blocked" is the time that the training waits in a save; steps per second also show
what the writer takes from it behind its back, on a machine that is otherwise idle."""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Callable, Iterable

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "src"))

import torch
from torch.utils.data import TensorDataset

import fairway.torch
from fairway.agent import Agent
from fairway.env import Environment

KINDS = ("none", "in memory", "behind", "waited for")


def measure(args: argparse.Namespace, kind: str, folder: str, memory: str) -> dict[str, float]:
    """Trains for some seconds; returns steps, saves and seconds blocked."""
    torch.manual_seed(0)
    device = torch.device(args.device)
    side = int((args.megabytes * 1e6 / 2 / 4 / args.layers) ** 0.5)  # weights and momentum
    model = torch.nn.Sequential(*(torch.nn.Linear(side, side) for _ in range(args.layers)))
    data = TensorDataset(torch.randn(1024, side))
    agent = Agent(Environment(checkpoint_dir=folder, memory_dir=memory))
    if kind == "waited for":
        agent.write_behind = lambda copy: agent._write(copy(), None)  # type: ignore[method-assign]
    every = 1e9 if kind in ("none", "in memory") else args.every
    near = args.every if kind == "in memory" else 1e9
    options = dict(epochs=1e9, batch_size=args.batch, checkpoint_every=every, memory_every=near, device=device, agent=agent)
    if args.sharded:
        from fairway.torch import fsdp

        run: fairway.torch.Run = fsdp.wrap(model.to(device), sgd, data, blocks=list, **options)
    else:
        run = fairway.torch.wrap(model, sgd(model.parameters()), data, **options)
    blocked: list[float] = []

    def timed(save: Callable[[], None]) -> Callable[[], None]:
        def act() -> None:
            began = time.perf_counter()
            save()
            blocked.append(time.perf_counter() - began)

        return act

    run.loop.save, run.loop.save_near = timed(run.loop.save), timed(run._save_near)
    began, warm = time.perf_counter(), 0
    for (x,) in run:
        run.step(run.model(x).square().mean())
        if warm < 5:  # the first steps make the optimiser's state
            warm, began = warm + 1, time.perf_counter()
            run.loop._last_save = time.monotonic()
        if time.perf_counter() - began > args.seconds:
            break
    seconds = time.perf_counter() - began
    agent.settle()
    return {"rate": (run.loop.steps - warm) / seconds, "seconds": seconds, "saves": len(blocked), "blocked": sum(blocked),
            "median": statistics.median(blocked or [0.0]), "worst": max(blocked, default=0.0)}  # fmt: skip


def sgd(params: Iterable[torch.nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.SGD(params, lr=1e-4, momentum=0.9)


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--megabytes", type=float, default=200.0, help="of model and optimiser")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=45.0)
    parser.add_argument("--every", type=float, default=10.0, help="seconds between two saves")
    parser.add_argument("--folder", help="for the checkpoints; default: where temporary files are")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--sharded", action="store_true", help="with fairway.torch.fsdp, on one rank")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    kind = "parts (fairway.torch.fsdp)" if args.sharded else "replicas"
    print(f"{args.megabytes:.0f} MB of {kind} on {args.device}, a save every {args.every:.0f} s for {args.seconds:.0f} s, torch {torch.__version__}")
    print(f"{'saves':12}{'steps/s':>9}{'count':>7}{'blocked: median':>17}{'worst':>9}{'share':>9}")
    shared = "/dev/shm" if os.path.isdir("/dev/shm") else None
    for kind in KINDS:
        with tempfile.TemporaryDirectory(dir=args.folder) as folder, tempfile.TemporaryDirectory(dir=shared) as memory:
            got = measure(args, kind, folder, memory)
        print(f"{kind:12}{got['rate']:9.2f}{got['saves']:7.0f}{got['median']:15.3f} s{got['worst']:7.3f} s"
              f"{100 * got['blocked'] / got['seconds']:7.2f} %", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
