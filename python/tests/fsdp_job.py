# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""Jobs that the tests of execution plans run: gpt, titan or noise."""

from __future__ import annotations

import errno
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint import FileSystemWriter
from torch.distributed.fsdp import CPUOffloadPolicy

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))

import fairway.loop
import fsdp_gpt
from fairway.torch import fsdp

torch.set_num_threads(1)
fairway.loop._STILL = fairway.loop._WRITING = 1.0  # checkpoints in memory may be frequent


def gpt(folder: str, steps: int, checkpoint_every: float = 3600.0, titan: bool = False) -> None:
    """A tiny GPT, or TorchTitan's Llama. Rank 0 appends each step, its plan and its loss to the file "losses". A
    file "pace" has the seconds that it pauses in each step, by the name of its plan; "":
    under any other. A file "late" has those that a rank pauses besides. A file "disk" says how the disk is."""
    torch.manual_seed(7 if os.environ.get("RANK", "0") == "0" else 8)  # the model of rank 0 counts
    data = fsdp_gpt.Text(16, 6000)
    if titan:
        model, split, cut = _llama(len(data.alphabet))
    else:
        model, split, cut = fsdp_gpt.GPT(len(data.alphabet), 16, layers=4, hidden=32, heads=4), fsdp_gpt.split, fsdp_gpt.cut
    run = fsdp.wrap(
        model, lambda params: torch.optim.AdamW(params, lr=3e-3), data, batch_size=8, epochs=8 * steps / len(data), clip=1.0,
        scheduler=lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 10, 0.9), tensor=split,
        stages=cut, loss=fsdp_gpt.cross_entropy, checkpoint_every=checkpoint_every, memory_every=0.1,
    )  # fmt: skip
    _use_disk(folder, run)
    for part in (run.model, *run._blocks(run.model)):
        group = part._get_fsdp_state()._fsdp_param_group  # none: a stage may have blocks only
        assert group is None or isinstance(group.offload_policy, CPUOffloadPolicy) == run.plan.offload, f"{run.plan}: {group.offload_policy}"
    name = os.environ.get("FAIRWAY_PLAN", "")
    log = open(f"{folder}/losses", "a", buffering=1) if run.agent.env.rank == 0 else None
    parts: list[float] = []  # of the batch of a step

    def saw(loss: torch.Tensor) -> None:  # before the step, in which the process may leave
        parts.append(run.reducer.mean([float(loss.detach())])[0])
        if len(parts) > (run.loop.config.accum if run.plan.pipeline == 1 else 0):
            if log is not None:
                log.write(json.dumps([run.loop.position // 8, name, statistics.fmean(parts)]) + "\n")
            parts.clear()

    run.loop.saw = saw
    for codes, following in run:
        time.sleep(_pause(folder, name) + _read(folder, "late").get(str(run.agent.env.rank), 0.0))
        run.learn(codes, following)


def _llama(words: int) -> tuple[torch.nn.Module, fsdp.Split, fsdp.Cut]:
    from torchtitan.models.llama3.infra.parallelize import apply_tp
    from torchtitan.models.llama3.model.args import TransformerModelArgs
    from torchtitan.models.llama3.model.model import Transformer

    model = Transformer(TransformerModelArgs(dim=32, n_layers=2, n_heads=4, vocab_size=words, max_seq_len=16))
    with torch.no_grad():
        model.init_weights()

    def cut(model: torch.nn.Module, stage: int, stages: int) -> None:
        fsdp.keep(model.layers, stage, stages)
        if stage > 0:
            model.tok_embeddings = None
        if stage < stages - 1:
            model.norm = model.output = None

    return model, lambda model, mesh: apply_tp(model, mesh, loss_parallel=False, enable_float8_tensorwise_tp=False), cut


def _use_disk(folder: str, run: fsdp.Run) -> None:
    """Makes the disk as slow as its file says ("seconds"), or full for one rank ("full").
    Appends the steps before and after each of rank 0's writes to the file "writes"."""
    write = FileSystemWriter.write_data

    def write_data(*arguments: Any) -> Any:
        began, disk = run.loop.steps, _read(folder, "disk")
        time.sleep(disk.get("seconds", 0.0))
        if disk.get("full") == run.agent.env.rank:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        done = write(*arguments)
        if run.agent.env.rank == 0:
            with open(f"{folder}/writes", "a") as file:
                file.write(json.dumps([began, run.loop.steps]) + "\n")
        return done

    FileSystemWriter.write_data = write_data


def _pause(folder: str, name: str) -> float:
    """The pause of a step."""
    pace = _read(folder, "pace")
    return float(pace.get(name, pace.get("", 0.0)))


def _read(folder: str, name: str) -> dict[str, float]:
    """A file that is being written counts as empty."""
    try:
        return json.loads(Path(folder, name).read_text())
    except (OSError, ValueError):
        return {}


def noise(steps: int, accumulate: int) -> None:
    """Prints the noise scale of a network that hardly moves, at a batch that is divided
    into parts in the same way on any number of ranks."""
    torch.manual_seed(1)
    inputs = torch.randn(400, 6)
    targets = inputs @ torch.randn(6, 3) + torch.randn(400, 3)
    model = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3), torch.nn.Identity())
    data = torch.utils.data.TensorDataset(inputs, targets)
    run = fsdp.wrap(
        model, lambda params: torch.optim.Adam(params, lr=1e-9), data, batch_size=8, accumulate=accumulate,
        epochs=steps * 8 * accumulate / 400, rule="adascale", blocks=lambda model: list(model)[:1],
        tensor=_halves, stages=_ends, loss=lambda got, want: (got - want).square().mean(),
    )  # fmt: skip
    for x, y in run:
        run.learn(x, y)
    if run.agent.env.rank == 0:
        estimate = run.loop.estimator
        print("result", json.dumps({"sqr": estimate.sqr, "var": estimate.var, "weight": estimate.weight, "biased": estimate.biased}))


def _halves(model: torch.nn.Module, mesh: torch.distributed.DeviceMesh) -> None:
    into, back = fsdp_gpt.ColwiseParallel(), fsdp_gpt.RowwiseParallel()
    fsdp_gpt.parallelize_module(model, mesh, {"0": into, "2": back})


def _ends(model: torch.nn.Module, stage: int, stages: int) -> None:
    fsdp.keep(model, stage, stages)


if __name__ == "__main__":
    if sys.argv[1] in ("gpt", "titan"):
        gpt(sys.argv[2], int(sys.argv[3]), *map(float, sys.argv[4:]), titan=sys.argv[1] == "titan")
    else:
        noise(int(sys.argv[2]), int(sys.argv[3]))
