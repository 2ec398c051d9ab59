# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""The environment of a rank. No other module touches environment variables."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Callable, Mapping, Optional, TypeVar

from fairway.plan import Plan, parse

T = TypeVar("T")

_LARGEST_TOKEN = 16 << 10


@dataclass(frozen=True)
class Environment:
    """What Fairway, or torchrun, told this process about itself."""

    rank: int = 0
    world: int = 1
    local_rank: int = 0
    nodes: int = 1
    master_addr: str = "127.0.0.1"
    master_port: int = 0
    job: str = ""
    attempt: int = 0
    api: str = ""
    token: str = ""
    token_file: str = ""  # that holds the token, where somebody renews it
    checkpoint_dir: str = ""
    memory_dir: str = ""  # in the memory of the node, for copies of checkpoints
    notice: float = 30.0  # seconds between the signal to stop and the kill
    gpu_type: str = ""
    adapt: bool = False
    report_seconds: float = 30.0
    hang_seconds: float = 60.0  # the least that a training must stand still to count as hung; 0: it never does
    batch_initial: int = 0  # 0: the job file does not say
    batch_max: int = 0
    batch_local_min: int = 0
    batch_local_max: int = 0
    batch_scale: float = 1.0  # of the batch on each GPU: less after the GPU's memory ran out
    gang: str = ""  # the supervisor's socket, where the gang can change in place
    member: int = 0  # of the processes that the supervisor started
    generation: int = 0  # of the gang, that this process was started for
    role: str = ""  # of this process, in a gang of roles: rank and world are those of the role
    leads: bool = True  # rank 0 of this role reports for the job
    meet: str = ""  # host:port where the first process of the first role can be found
    plan: Optional[Plan] = None  # the execution plan, where the job has several
    screening: bool = False  # on fewer GPUs than the job asks for, to see whether it works
    problems: tuple[str, ...] = ()  # variables that could not be read

    @property
    def managed(self) -> bool:
        """Whether Fairway started this process."""
        return self.job != ""

    def bearer(self) -> str:
        """The token now. A file is read each time: in a cluster the token ends
        after an hour, and the kubelet puts the next one in its place. Raises
        ValueError while the file is being written."""
        if not self.token_file:
            return self.token
        with open(self.token_file, encoding="ascii") as file:
            token = file.read(_LARGEST_TOKEN).strip()
        if not token:
            raise ValueError(f"{self.token_file} is empty")
        return token


def read(environ: Optional[Mapping[str, str]] = None) -> Environment:
    """Reads the environment. A value that makes no sense counts as not set:
    a training must not fail because of one."""
    source = os.environ if environ is None else environ
    problems: list[str] = []

    def value(name: str, parse: Callable[[str], T], default: T) -> T:
        text = source.get(name, "")
        if text == "":
            return default
        try:
            return parse(text)
        except ValueError:
            problems.append(f"{name}={text[:40]!r}")
            return default

    world = value("WORLD_SIZE", _positive, 1)
    rank = value("RANK", _natural, 0)
    if rank >= world:
        problems.append(f"RANK={rank} with WORLD_SIZE={world}")
        rank = 0
    nodes = value("FAIRWAY_NODES", _positive, 0)
    if nodes == 0:
        nodes = max(1, world // value("LOCAL_WORLD_SIZE", _positive, world))
    return Environment(
        rank=rank,
        world=world,
        local_rank=value("LOCAL_RANK", _natural, rank),
        nodes=min(nodes, world),
        master_addr=value("MASTER_ADDR", str, "127.0.0.1"),
        master_port=value("MASTER_PORT", _natural, 0),
        job=value("FAIRWAY_JOB", str, ""),
        attempt=value("FAIRWAY_ATTEMPT", _natural, 0),
        api=value("FAIRWAY_API", str, ""),
        token=value("FAIRWAY_TOKEN", str, ""),
        token_file=value("FAIRWAY_TOKEN_FILE", str, ""),
        checkpoint_dir=value("FAIRWAY_CHECKPOINT_DIR", str, ""),
        memory_dir=value("FAIRWAY_MEMORY_DIR", str, ""),
        notice=value("FAIRWAY_NOTICE", _seconds, 30.0),
        gpu_type=value("FAIRWAY_GPU_TYPE", str, ""),
        adapt=value("FAIRWAY_ADAPT", str, "") == "1",
        report_seconds=value("FAIRWAY_REPORT_SECONDS", _seconds, 30.0),
        hang_seconds=value("FAIRWAY_HANG_SECONDS", _patience, 60.0),
        batch_initial=value("FAIRWAY_BATCH_INITIAL", _natural, 0),
        batch_max=value("FAIRWAY_BATCH_MAX", _natural, 0),
        batch_local_min=value("FAIRWAY_BATCH_LOCAL_MIN", _natural, 0),
        batch_local_max=value("FAIRWAY_BATCH_LOCAL_MAX", _natural, 0),
        batch_scale=value("FAIRWAY_BATCH_SCALE", _share, 1.0),
        gang=value("FAIRWAY_GANG", str, ""),
        member=value("FAIRWAY_MEMBER", _natural, rank),
        generation=value("FAIRWAY_GENERATION", _natural, 0),
        role=value("FAIRWAY_ROLE", str, ""),
        leads=source.get("FAIRWAY_ROLES", "").split("=")[0] == source.get("FAIRWAY_ROLE", ""),
        meet=value("FAIRWAY_MEET", str, ""),
        plan=value("FAIRWAY_PLAN", parse, None),
        screening=value("FAIRWAY_SCREENING", str, "") == "1",
        problems=tuple(problems),
    )


def prefer_loopback(env: Environment) -> None:
    """Lets a gang that meets on the loopback address talk over it: the name of
    a machine need not lead back to it."""
    if env.nodes == 1 and env.master_addr in ("127.0.0.1", "localhost") and os.path.exists("/sys/class/net/lo"):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")


def survive_losses() -> None:
    """Lets NCCL give up a group that has lost a rank without ending the process."""
    os.environ.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "2")


def _natural(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError(text)
    return number


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _share(text: str) -> float:
    """Reads a part of a whole: above 0, at most 1."""
    number = float(text)
    if not 0 < number <= 1:
        raise ValueError(text)
    return number


def _patience(text: str) -> float:
    """Reads seconds, or 0."""
    return 0.0 if text.strip() in ("0", "0s") else _seconds(text)


def _seconds(text: str) -> float:
    """Reads seconds: a number, with or without an s behind it."""
    number = float(text[:-1] if text.endswith("s") else text)
    if not 0 < number < 1e9:
        raise ValueError(text)
    return number
