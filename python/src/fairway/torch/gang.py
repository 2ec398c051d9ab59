# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""The process group of a gang, and its clock."""

from __future__ import annotations

import atexit
import time
from typing import Optional

import torch
import torch.distributed as dist

from fairway.env import Environment, prefer_loopback

_DROP_SECONDS = 0.1  # far more than a thread needs that was woken


def device_of(env: Environment) -> torch.device:
    """The device of this rank: its GPU, or the CPU where there is none."""
    if torch.cuda.is_available() and env.local_rank < torch.cuda.device_count():
        device = torch.device("cuda", env.local_rank)
        torch.cuda.set_device(device)
        return device
    return torch.device("cpu")

class Reducer:
    """A loop.Reducer over torch.distributed. It exchanges a few numbers on the
    CPU, next to the gradients' group, so that no GPU has to be waited for."""

    def __init__(self, env: Environment, device: torch.device) -> None:
        self.world = env.world
        self._group: Optional[dist.ProcessGroup] = None
        if env.world == 1:
            return
        if not dist.is_initialized():
            backend = "nccl" if device.type == "cuda" and dist.is_nccl_available() else "gloo"
            prefer_loopback(env)
            dist.init_process_group(backend)
            if backend == "gloo":
                atexit.register(_end_group)
        if dist.get_world_size() != env.world:
            raise RuntimeError(f"the process group has {dist.get_world_size()} ranks; WORLD_SIZE is {env.world}")
        if dist.get_backend() == "nccl":
            self._group = dist.new_group(backend="gloo")
        else:
            self._group = dist.group.WORLD

    def max(self, values: list[float]) -> list[float]:
        return self._reduce(values, dist.ReduceOp.MAX)

    def mean(self, values: list[float]) -> list[float]:
        return [v / self.world for v in self._reduce(values, dist.ReduceOp.SUM)]

    def gather(self, mine: object) -> list[object]:
        """The objects of all ranks, by rank."""
        if self.world == 1:
            return [mine]
        out: list[object] = [None] * self.world
        dist.all_gather_object(out, mine, group=self._group)
        return out

    def barrier(self) -> None:
        """Waits for all ranks."""
        self.max([0.0])

    def _reduce(self, values: list[float], op: dist.ReduceOp) -> list[float]:
        if self.world == 1:
            return values
        tensor = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(tensor, op=op, group=self._group)
        return tensor.tolist()


def _end_group() -> None:
    """Ends the threads of the group before the process does. One that drops the
    tensor of the last exchange while the interpreter ends would abort the process,
    and a job that is done would count as failed. A model in DDP keeps the threads
    alive: they get the time to drop it."""
    if dist.is_initialized():
        dist.destroy_process_group()
        time.sleep(_DROP_SECONDS)


class CudaClock:
    """Marks moments in the work of a GPU. The program that queues the work
    does not wait for it."""

    def mark(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, start: torch.cuda.Event, end: torch.cuda.Event) -> Optional[float]:
        if not end.query():
            return None
        return start.elapsed_time(end) / 1000.0


def largest(value: float) -> float:
    """The largest value of all ranks of the process group that is there."""
    if not (dist.is_available() and dist.is_initialized()):
        return value
    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
    tensor = torch.tensor([value], dtype=torch.float32, device=device)
    dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
    return float(tensor)
