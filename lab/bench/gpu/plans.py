# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""Measures the memory and the steps of a GPT of a billion parameters under plans of one
GPU: lab/bench/gpu/plans.py OUT. Weights and gradients have two bytes, Adam keeps weights
and two moments of four bytes, on the host if they are offloaded. Each plan runs in a
process of its own. Then the state is saved and read back by PyTorch's distributed
checkpoint. Needs a GPU and a python3 with PyTorch; writes OUT/plans.json."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

LAYERS, HIDDEN, HEADS, SEQUENCE, VOCABULARY = 18, 2048, 16, 1024, 50304
STEPS = 5  # that are timed

# Batch, parts of it one after the other, offload, recompute, attention without its matrix.
TRIALS = [
    (8, 1, False, False, False),
    (8, 1, False, False, True),
    (16, 1, False, False, True),
    (32, 1, False, False, True),
    (16, 4, False, False, True),
    (32, 8, False, False, True),
    (16, 1, False, True, True),
    (32, 1, False, True, True),
    (8, 1, False, True, False),
    (16, 1, True, False, True),
    (32, 4, True, True, True),
]


class Layer(nn.Module):
    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.fused = fused
        self.before, self.between = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.qkv, self.out = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.up, self.down = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (t.view(*x.shape[:2], HEADS, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        if self.fused:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=0.1)
        else:
            scores = q @ k.transpose(-1, -2) / (HIDDEN // HEADS) ** 0.5
            scores = scores.masked_fill(torch.ones_like(scores[0, 0], dtype=torch.bool).triu(1), float("-inf"))
            y = F.dropout(scores.softmax(-1), 0.1) @ v
        return self.out(y.transpose(1, 2).reshape(x.shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + F.dropout(self.attend(self.before(x)), 0.1)
        return x + F.dropout(self.down(F.gelu(self.up(self.between(x)))), 0.1)


class GPT(nn.Module):
    def __init__(self, fused: bool, recompute: bool) -> None:
        super().__init__()
        self.recompute = recompute
        self.words, self.places = nn.Embedding(VOCABULARY, HIDDEN), nn.Embedding(SEQUENCE, HIDDEN)
        self.layers = nn.ModuleList(Layer(fused) for _ in range(LAYERS))
        self.last = nn.LayerNorm(HIDDEN)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens) + self.places.weight
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.recompute else layer(x)
        logits = self.last(x) @ self.words.weight.T
        return F.cross_entropy(logits.float().view(-1, VOCABULARY), tokens.roll(-1, 1).reshape(-1))


class Adam:
    """Adam on weights of four bytes, for a model with weights of two."""

    def __init__(self, model: nn.Module, offload: bool) -> None:
        self.own = list(model.parameters())
        where = "cpu" if offload else "cuda"
        self.full = [nn.Parameter(p.detach().to(where, torch.float32)) for p in self.own]
        self.steps = [torch.optim.AdamW([p], lr=1e-4, fused=True) for p in self.full]

    def step(self) -> None:
        for own, full, step in zip(self.own, self.full, self.steps):  # one at a time: no second copy of all gradients
            full.grad = own.grad.to(full.device, torch.float32)
            own.grad = None
            step.step()
            full.grad = None
            own.data.copy_(full.data)

    def state(self) -> dict[str, torch.Tensor]:
        out = {}
        for i, (full, step) in enumerate(zip(self.full, self.steps)):
            out[f"{i}.weight"] = full.data
            for name in ("exp_avg", "exp_avg_sq"):
                out[f"{i}.{name}"] = step.state[full][name]
        return out


def train(batch: int, micro: int, offload: bool, recompute: bool, fused: bool, save: bool) -> dict:
    torch.manual_seed(1)
    with torch.device("cuda"):
        model = GPT(fused, recompute).to(torch.bfloat16)
        tokens = torch.randint(VOCABULARY, (batch, SEQUENCE))
    optimizer = Adam(model, offload)
    torch.cuda.empty_cache()

    def step() -> None:
        for part in tokens.chunk(micro):
            (model(part) / micro).backward()
        optimizer.step()

    step()
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.synchronize()
    began = time.monotonic()
    for _ in range(STEPS):
        step()
    torch.cuda.synchronize()
    took = (time.monotonic() - began) / STEPS
    free, total = torch.cuda.mem_get_info()
    measured = {
        "batch": batch,
        "plan": {"data": 1, "tensor": 1, "pipeline": 1, "micro": micro, "offload": offload, "recompute": recompute},
        "fused_attention": fused,
        "step_s": round(took, 4),
        "tensors": torch.cuda.max_memory_allocated(),
        "runtime": total - free - torch.cuda.memory_reserved(),
        "host": sum(3 * 4 * p.numel() for p in optimizer.full) if offload else 0,
        "parameters": sum(p.numel() for p in model.parameters()),
    }
    if save:
        measured["checkpoint"] = save_and_read(optimizer.state())
    return measured


def save_and_read(state: dict[str, torch.Tensor]) -> dict:
    import torch.distributed.checkpoint as dcp

    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        dcp.save(state, checkpoint_id=folder)
        saved = time.monotonic()
        other = {name: torch.empty_like(t) for name, t in state.items()}
        dcp.load(other, checkpoint_id=folder)
        torch.cuda.synchronize()
        read = time.monotonic()
        size = sum(f.stat().st_size for f in Path(folder).rglob("*"))
    same = all(torch.equal(t, other[name]) for name, t in state.items())
    return {"bytes": size, "save_s": round(saved - began, 2), "read_s": round(read - saved, 2), "same": same}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--trial", type=int, help="run this one here, and print what was measured")
    args = parser.parse_args()
    if args.trial is not None:
        print(json.dumps(train(*TRIALS[args.trial], save=args.trial == 1)))
        return
    trials = []
    for i, trial in enumerate(TRIALS):
        run = subprocess.run([sys.executable, __file__, str(args.out), "--trial", str(i)], capture_output=True, text=True)
        if run.returncode:
            sys.exit(f"trial {trial} failed:\n{run.stderr[-2000:]}")
        trials.append(json.loads(run.stdout.splitlines()[-1]))
        print(trials[-1], flush=True)
    about = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "layers": LAYERS, "hidden": HIDDEN, "heads": HEADS, "sequence": SEQUENCE, "vocabulary": VOCABULARY}
    (args.out / "plans.json").write_text(json.dumps({"about": about, "trials": trials}, indent=1) + "\n")


if __name__ == "__main__":
    main()
