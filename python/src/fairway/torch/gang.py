# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""The process group of a gang, and its clock."""

from __future__ import annotations

import atexit
import copy
import gc
import io
import os
import socket
import stat
import time
from datetime import timedelta
from typing import Any, Optional

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from fairway.env import Environment, prefer_loopback, survive_losses
from fairway.member import Member
from fairway.probe import BYTES, Link, measure

_DROP_SECONDS = 0.1  # far more than a thread needs that was woken
_SPARE_MEMORY = 2 << 30  # of a GPU, from which on its links are measured
_MEET_SECONDS = 60  # for ranks that were all ready a moment before
_LOOPBACK = ("127.0.0.1", "::1", "::ffff:127.0.0.1")


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

    def __init__(self, env: Environment, device: torch.device, port: int = 0, member: Optional[Member] = None) -> None:
        """Makes the group; port is where the ranks of a later generation meet, which
        the environment does not say."""
        self.world = env.world
        self.own = env.world == 1 or not dist.is_initialized()  # else it is the script's
        self._group: Optional[dist.ProcessGroup] = None
        self._before: set[int] = set()  # files that were open before the group was made
        self._sockets: Optional[set[int]] = set()  # of the group; None: it is being made
        if env.world == 1:
            return
        if not dist.is_initialized():
            self._before, self._sockets = _open_files(), None
            if member is not None:
                member.on_loss = self.abort
            self._make(env, device, port)
        if dist.get_world_size() != env.world:
            raise RuntimeError(f"the process group has {dist.get_world_size()} ranks; WORLD_SIZE is {env.world}")
        self._group = dist.new_group(backend="gloo") if dist.get_backend() == "nccl" else dist.group.WORLD
        if self._sockets is None:
            self._sockets = _open_files() - self._before

    def _make(self, env: Environment, device: torch.device, port: int) -> None:
        backend = "nccl" if device.type == "cuda" and dist.is_nccl_available() else "gloo"
        prefer_loopback(env)
        if env.gang:
            survive_losses()
        if port:
            store = dist.TCPStore(env.master_addr, port, env.world, env.rank == 0, timedelta(seconds=_MEET_SECONDS))
            dist.init_process_group(backend, store=store, rank=env.rank, world_size=env.world)
        else:
            dist.init_process_group(backend)
        if backend == "gloo":
            atexit.register(_end_group)

    @property
    def group(self) -> Optional[dist.ProcessGroup]:
        """The group for what is exchanged on the CPU; None: the default one."""
        return self._group

    def abort(self) -> None:
        """Makes what waits for other ranks fail, because one of them is gone. May be
        called from any thread."""
        sockets = self._sockets if self._sockets is not None else _open_files() - self._before
        for number in sockets:
            _shut(number)
        give_up = getattr(dist.distributed_c10d, "_abort_process_group", None)
        if give_up is not None and dist.is_initialized() and dist.get_backend() == "nccl":
            give_up()

    def end(self) -> None:
        """Leaves the group. Nothing else may refer to it."""
        self._group = None
        gc.collect()  # DDP is part of cycles, and keeps its group
        if dist.is_initialized():
            dist.destroy_process_group()
        gc.collect()

    def share(self, content: Any) -> Any:
        """Rank 0's object, on all ranks. The others' is not looked at."""
        if self.world == 1:
            return content
        data = io.BytesIO()
        if dist.get_rank() == 0:
            torch.save(content, data)
        (size,) = self.max([float(data.tell())])
        tensor = torch.frombuffer(bytearray(data.getvalue() or int(size)), dtype=torch.uint8)
        dist.broadcast(tensor, 0, group=self._group)
        return content if dist.get_rank() == 0 else _load(io.BytesIO(tensor.numpy().tobytes()))

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

    def beside(self) -> "Reducer":
        """A reducer of the same ranks for another thread of each of them, beside the
        training. All ranks must call it."""
        other = copy.copy(self)
        other._group = dist.new_group(backend="gloo")
        return other

    def exchange(self, send: list[tuple[int, bytes]], receive: list[tuple[int, int]]) -> list[bytearray]:
        """Sends bytes to ranks, and returns what others send, of whom and how much of
        which must be known."""
        work, got, kept = [], [], []
        for source, size in receive:
            got.append(bytearray(size))
            work.append(dist.irecv(torch.frombuffer(got[-1], dtype=torch.uint8), source, group=self._group))
        for target, data in send:
            kept.append(torch.frombuffer(bytearray(data), dtype=torch.uint8))
            work.append(dist.isend(kept[-1], target, group=self._group))
        for item in work:
            item.wait()
        return got

    def probe(self) -> list[Link]:
        """Measures links between the ranks, over the group that exchanges gradients.
        All ranks must call it. Measures nothing where memory of a GPU is scarce: NCCL
        takes some for each link."""
        device = torch.device("cuda" if dist.get_backend() == "nccl" else "cpu")
        if device.type == "cuda":
            (scarce,) = self.max([float(torch.cuda.mem_get_info()[0] < _SPARE_MEMORY)])
            if scarce:
                return []
        word, load = (torch.zeros((2, size), dtype=torch.uint8, device=device) for size in (1, BYTES))

        def swap(other: int) -> float:
            _swap(word, other)  # so that both begin together
            began = time.perf_counter()
            _swap(load, other)
            return time.perf_counter() - began

        return measure(dist.get_rank(), self.world, self.max, swap)

    def barrier(self) -> None:
        """Waits for all ranks."""
        self.max([0.0])

    def _reduce(self, values: list[float], op: dist.ReduceOp) -> list[float]:
        if self.world == 1:
            return values
        tensor = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(tensor, op=op, group=self._group)
        return tensor.tolist()


def _swap(tensor: torch.Tensor, other: int) -> None:
    """Sends a rank the first half, and gets its own as the second."""
    work = dist.batch_isend_irecv([dist.P2POp(dist.isend, tensor[0], other), dist.P2POp(dist.irecv, tensor[1], other)])
    for item in work:
        item.wait()
    if tensor.is_cuda:
        torch.cuda.synchronize(tensor.device)


def group_of_one(device: torch.device) -> None:
    """Makes the process group of a gang of one, for code that needs one."""
    backend = "nccl" if device.type == "cuda" and dist.is_nccl_available() else "gloo"
    dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    atexit.register(_end_group)


def _end_group() -> None:
    """Ends the threads of the group before the process does. One that drops the
    tensor of the last exchange while the interpreter ends would abort the process,
    and a job that is done would count as failed. A model in DDP keeps the threads
    alive: they get the time to drop it."""
    if dist.is_initialized():
        dist.destroy_process_group()
        time.sleep(_DROP_SECONDS)


def _load(data: io.BytesIO) -> Any:
    try:
        return torch.load(data, map_location="cpu", weights_only=False)
    except TypeError:  # before 1.13 there was nothing else
        return torch.load(data, map_location="cpu")


def _open_files() -> set[int]:
    try:
        return {int(name) for name in os.listdir("/proc/self/fd")}
    except OSError:
        return set()  # not Linux: nothing can be aborted


def _shut(number: int) -> None:
    """Ends the connection of a file, if it is one within this machine."""
    try:
        if not stat.S_ISSOCK(os.fstat(number).st_mode):
            return
        with socket.socket(fileno=os.dup(number)) as end:
            if end.family in (socket.AF_INET, socket.AF_INET6) and end.getpeername()[0] in _LOOPBACK:
                end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # closed by now, or not connected


class Replica(torch.nn.Module):
    """A model that stays the same object while the gang around it changes. A
    forward pass that fails because a rank is gone is done without the others: the
    step is abandoned anyway, and the script's loop must get to its end."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module
        self.lost: Optional[RuntimeError] = None
        self.alone()

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("module"), name)

    def alone(self) -> None:
        """Drops what belongs to the gang."""
        self.__dict__["ddp"] = None  # not a part of the model

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """What the module returns."""
        if self.ddp is None:
            return self.module(*inputs, **named)
        try:
            return self.ddp(*inputs, **named)
        except RuntimeError as err:
            if not of_group(err):
                raise
            self.lost = err
            return self.module(*inputs, **named)

    def train(self, mode: bool = True) -> "Replica":
        super().train(mode)
        if self.ddp is not None:
            self.ddp.training = mode
        return self

    def join(self, device: torch.device, options: dict[str, Any]) -> DistributedDataParallel:
        """Replicates the module over the process group that is there."""
        ids = [device.index] if device.type == "cuda" else None
        self.__dict__["ddp"] = DistributedDataParallel(self.module, device_ids=ids, **options)
        self.ddp.training = self.training
        return self.ddp


def of_group(err: RuntimeError) -> bool:
    """Whether an error is one of the exchange between ranks."""
    text = str(err).lower()
    return any(word in text for word in ("gloo", "nccl", "connection", "socket", "process group", "store"))


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
