# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""The state of a training with PyTorch, as kept in a checkpoint."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, BinaryIO, Mapping

import torch


def random_state() -> dict[str, Any]:
    """The states of this rank's random number generators."""
    state: dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def set_random_state(states: list[Any], rank: int, world: int, seed: int) -> None:
    """Goes on with the generators of a checkpoint. At another world size there
    is no state for each rank: then the seeds are new, and differ by rank."""
    if len(states) != world:
        random.seed(f"{seed}/{rank}/{world}")
        torch.manual_seed(random.getrandbits(63))
        return
    state = states[rank]
    random.setstate(state["python"])
    torch.set_rng_state(state["torch"].cpu())
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"].cpu())


def write(file: BinaryIO, state: Mapping[str, Any]) -> None:
    """Writes a checkpoint to a file that cannot seek."""
    torch.save(dict(state), file)


def read(path: Path) -> dict[str, Any]:
    """Reads a checkpoint into the memory of the host. It comes from the job's
    own folder, and its checksum was right: the objects in it are trusted."""
    options = {"map_location": "cpu"}
    try:
        return torch.load(path, weights_only=False, **options)
    except TypeError:  # before 1.13 there was nothing else
        return torch.load(path, **options)
