# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""The state of a training with PyTorch, as kept in a checkpoint."""

from __future__ import annotations

import copy
import io
import random
import weakref
from pathlib import Path
from typing import Any, BinaryIO, Mapping, Union

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


def read(content: Union[Path, io.BytesIO]) -> dict[str, Any]:
    """Reads a checkpoint into the memory of the host. It comes from the job's
    own folder, and its checksum was right: the objects in it are trusted."""
    options = {"map_location": "cpu"}
    try:
        return torch.load(content, weights_only=False, **options)
    except TypeError:  # before 1.13 there was nothing else
        return torch.load(content, **options)


class Copies:
    """Copies of a training's state in the memory of the host, so that it can be
    written while the training goes on. Memory is used again once the writer has
    dropped a copy: to get it for the first time takes longer than to fill it."""

    def __init__(self) -> None:
        self._free: list[dict[Any, torch.Tensor]] = []

    def take(self, state: Mapping[str, Any]) -> "Copy":
        """Copies the state. Waits for the GPU."""
        old = self._free.pop() if self._free else {}
        new: dict[Any, torch.Tensor] = {}
        taken = Copy(_copy(state, old, new))
        if any(t.is_pinned() for t in new.values()):
            torch.cuda.current_stream().synchronize()
        weakref.finalize(taken, self._free.append, new).atexit = False
        return taken


class Copy:
    """A state that no longer changes; as the content of a checkpoint, it writes
    itself."""

    def __init__(self, state: Any) -> None:
        self.state = state

    def __call__(self, file: BinaryIO) -> None:
        write(file, self.state)


def _copy(item: Any, old: dict[Any, torch.Tensor], new: dict[Any, torch.Tensor]) -> Any:
    """Copies an item, its tensors into the memory of old ones. Tensors that share
    memory share that of their copy."""
    if isinstance(item, torch.Tensor):
        key = (item.data_ptr(), item.shape, item.stride(), item.dtype)
        if key not in new:
            kept = old.pop(key, None)
            if kept is None:
                kept = torch.empty_like(item.detach(), device="cpu", pin_memory=item.is_cuda)
            new[key] = kept.copy_(item.detach(), non_blocking=item.is_cuda)
        return new[key]
    if isinstance(item, dict):
        out = copy.copy(item)  # of its own kind, with its attributes: those of a model hold versions
        for key, value in item.items():
            out[key] = _copy(value, old, new)
        return out
    if type(item) in (list, tuple):
        return type(item)(_copy(value, old, new) for value in item)
    return copy.deepcopy(item)
