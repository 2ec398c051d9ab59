# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""Measures what the agent costs on a real training step: the same model and
data in plain PyTorch, with the agent, and with the agent and co-adaptation.

    python3 bench/overhead.py --device cuda --model resnet50 --batch 64
    python3 bench/overhead.py --device cuda --model gpt --batch 8 --amp --optimizer adam --turns 12 --steps 15

A gpt is divided by FSDP2 in every kind, among ranks of which there may be one.

The four kinds run in turns, a stretch of steps each, and every stretch is
compared with the plain one of its turn, so that a machine that gets slower or
faster does not show up as overhead. "plain again" is the error of the method:
it does exactly what plain does. On the CPU, the time is that of the processor,
all threads of the agent included, so that other programs count less."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "src"))

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import fairway.torch
from fairway.agent import Agent
from fairway.env import read
from fairway.torch.gang import Reducer, device_of, group_of_one

KINDS = ("plain", "plain again", "agent, adaptation off", "agent, adaptation on")
EXAMPLES = 4096


class Bottleneck(nn.Module):
    """The block of a deep residual network."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs),
        )  # fmt: skip
        self.short: nn.Module = nn.Identity()
        if stride > 1 or inputs != outputs:
            self.short = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The block's output."""
        return torch.relu(self.body(x) + self.short(x))


def resnet50() -> nn.Module:
    """torchvision's where it is installed, else one of the same shape."""
    try:
        import torchvision

        return torchvision.models.resnet50()
    except ImportError:
        pass
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for stage, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for block in range(blocks):
            layers.append(Bottleneck(inputs, width, 2 if stage > 0 and block == 0 else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))


def small() -> nn.Module:
    """A network for machines without a GPU."""
    return nn.Sequential(nn.Conv2d(3, 16, 3, 2), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(),
                         nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(512, 1000))  # fmt: skip


class GPT(nn.Module):
    """A decoder of a billion parameters that predicts the word after a text."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, 2048), nn.Embedding(LENGTH, 2048)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(2048, 16, 4 * 2048, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
            for _ in range(18)
        )
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH), persistent=False)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """The scores of the next word."""
        x = self.words(text) + self.places.weight
        for layer in self.layers:
            x = layer(x, src_mask=self.mask, is_causal=True)
        return x[:, -1] @ self.words.weight.T


WORDS, LENGTH = 50304, 1024

# What makes a model, and what makes a batch for it on a device.
MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[int, torch.device], torch.Tensor]]] = {
    "small": (small, lambda n, where: torch.randn(n, 3, 32, 32, device=where)),
    "resnet50": (resnet50, lambda n, where: torch.randn(n, 3, 224, 224, device=where)),
    "gpt": (GPT, lambda n, where: torch.randint(WORDS, (n, LENGTH), device=where)),
}

SINK = """
import socketserver, sys
from http.server import BaseHTTPRequestHandler
class Handler(BaseHTTPRequestHandler):
    def address_string(self): return "unix"
    def log_message(self, *args): pass
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200); self.send_header("Content-Length", "2"); self.end_headers(); self.wfile.write(b"{}")
server = socketserver.UnixStreamServer(sys.argv[1], Handler)
print("up", flush=True)
server.serve_forever()
"""


class Bench:
    """One copy of the training, of one kind."""

    def __init__(self, args: argparse.Namespace, kind: str, inputs: torch.Tensor, folder: str) -> None:
        make, _ = MODELS[args.model]
        torch.manual_seed(0)
        self.args, self.inputs = args, inputs
        self.device = inputs.device
        model = make().to(self.device)
        divided = args.model == "gpt"
        labels = TensorDataset(torch.arange(EXAMPLES) % 1000)
        self.loader = DataLoader(labels, batch_size=args.batch, shuffle=True, drop_last=True)
        self.run: Any = None
        self.model: nn.Module = model
        environ = dict(os.environ)
        if kind.startswith("agent"):
            on = kind.endswith("on")
            environ.update(FAIRWAY_JOB="bench", FAIRWAY_API=f"unix://{folder}/sink", FAIRWAY_TOKEN="t", FAIRWAY_REPORT_SECONDS="30")
            environ.update(FAIRWAY_ADAPT="1" if on else "0", FAIRWAY_BATCH_MAX=str(8 * args.batch))
            options: dict[str, Any] = {"epochs": 1e9, "device": self.device, "checkpoint_every": 1e9, "agent": Agent(read(environ))}
            if divided:
                from fairway.torch import fsdp

                self.run = fsdp.wrap(model, self.make_optimizer, self.loader, **options)
            else:
                self.run = fairway.torch.wrap(model, self.make_optimizer(model.parameters()), self.loader, **options)
            self.model = self.run.model
        elif divided:
            self.divide(model)
        elif read(environ).world > 1:
            ids = [self.device.index] if self.device.type == "cuda" else None
            self.model = nn.parallel.DistributedDataParallel(model, device_ids=ids)
        if self.run is None:
            self.optimizer = self.make_optimizer(self.model.parameters())
        self.batches = iter(self.run) if self.run is not None else self.forever()

    def make_optimizer(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """The one of --optimizer."""
        if self.args.optimizer == "adam":
            return torch.optim.Adam(parameters, lr=1e-4)
        return torch.optim.SGD(parameters, lr=1e-3, momentum=0.9)

    def divide(self, model: nn.Module) -> None:
        """FSDP2 as a script without Fairway has it."""
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        if not dist.is_initialized():
            group_of_one(self.device)
        mesh, many = init_device_mesh(self.device.type, (dist.get_world_size(),)), dist.get_world_size() > 1
        for layer in model.layers:
            fully_shard(layer, mesh=mesh, reshard_after_forward=many)
        fully_shard(model, mesh=mesh, reshard_after_forward=many)

    def forever(self) -> Iterator[Any]:
        """The batches of a plain loop, epoch after epoch."""
        while True:
            for (labels,) in self.loader:
                yield (labels.to(self.device, non_blocking=True),)

    def steps(self, count: int) -> float:
        """Runs steps and returns the seconds for each."""
        clock = time.perf_counter if self.device.type == "cuda" else time.process_time
        self.wait()
        start = clock()
        for _ in range(count):
            (labels,) = next(self.batches)
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.args.amp):
                loss = nn.functional.cross_entropy(self.model(self.inputs[: len(labels)]).float(), labels)
            if self.run is not None:
                self.run.step(loss)
                continue
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
        self.wait()
        return (clock() - start) / count

    def wait(self) -> None:
        """Waits for the GPU."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Runs the kinds in turns."""
    env = read()
    device = device_of(env) if args.device == "cuda" else torch.device("cpu")
    Reducer(env, device)
    if device.type == "cpu":
        torch.set_num_threads(args.threads)
    inputs = MODELS[args.model][1](args.batch, device)
    with tempfile.TemporaryDirectory() as folder:
        sink = subprocess.Popen([sys.executable, "-c", SINK, folder + "/sink"], stdout=subprocess.PIPE)
        assert sink.stdout is not None
        sink.stdout.readline()
        try:
            benches = {kind: Bench(args, kind, inputs, folder) for kind in KINDS}
            for bench in benches.values():
                bench.steps(args.warmup)
            times: dict[str, list[float]] = {kind: [] for kind in KINDS}
            for turn in range(args.turns):
                for i in range(len(KINDS)):  # another one goes first in each turn
                    kind = KINDS[(turn + i) % len(KINDS)]
                    times[kind].append(benches[kind].steps(args.steps))
            noise = benches[KINDS[3]].run.loop.noise_scale
        finally:
            sink.terminate()
            sink.wait()
            sink.stdout.close()
    return summary(args, device, times, noise)


def summary(args: argparse.Namespace, device: torch.device, times: dict[str, list[float]], noise: float) -> dict[str, Any]:
    """Medians, and overheads against the plain stretch of the same turn."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else f"CPU, {args.threads} threads"
    out: dict[str, Any] = {"device": name, "torch": torch.__version__, "noise_scale": noise, "kinds": {}}
    out.update({k: getattr(args, k) for k in ("model", "batch", "amp", "optimizer", "turns", "steps")})
    for kind, seconds in times.items():
        over = sorted(100 * (s / p - 1) for s, p in zip(seconds, times["plain"]))
        quarter = len(over) // 4
        out["kinds"][kind] = {
            "step_ms": 1000 * statistics.median(seconds),
            "overhead_percent": statistics.median(over),
            "middle_half": [over[quarter], over[-1 - quarter]],
        }
    return out


def main() -> None:
    """Prints a table and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--model", choices=sorted(MODELS), default="resnet50" if torch.cuda.is_available() else "small")
    parser.add_argument("--optimizer", choices=("sgd", "adam"), default="sgd")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--amp", action="store_true", help="bfloat16 where PyTorch uses it")
    parser.add_argument("--turns", type=int, default=24)
    parser.add_argument("--steps", type=int, default=40, help="of one stretch")
    parser.add_argument("--warmup", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    out = measure(args)
    print(f"{out['device']}, torch {out['torch']}, {args.model}, batch {args.batch}, {args.optimizer}")
    print(f"{'kind':24}{'step':>12}{'overhead':>12}   middle half")
    for kind, row in out["kinds"].items():
        low, high = row["middle_half"]
        print(f"{kind:24}{row['step_ms']:9.3f} ms{row['overhead_percent']:+10.2f} %   {low:+.2f} to {high:+.2f} %")
    print(json.dumps(out))


if __name__ == "__main__":
    main()
