# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""The examples of a data set in the order that the loop says."""

from __future__ import annotations

import itertools
import logging
from typing import Any, Iterable, Iterator, Mapping, Optional, Sequence, Union

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler, SequentialSampler
from torch.utils.data.dataloader import default_collate

log = logging.getLogger("fairway")


def permute(size: int, seed: int) -> Sequence[int]:
    """A permutation of range(size): as order.shuffle, but fast."""
    return torch.randperm(size, generator=torch.Generator().manual_seed(seed)).tolist()


class Source:
    """A data set, and how its examples are put together."""

    def __init__(self, data: Union[DataLoader, Dataset], device: torch.device, examples: int = 0) -> None:
        self._device = device
        self._options: dict[str, Any] = {"pin_memory": device.type == "cuda"}
        self.batch_size = 0
        self.dataset: Any = data
        if isinstance(data, DataLoader):
            self.dataset = data.dataset
            if not isinstance(data.sampler, (RandomSampler, SequentialSampler)) and not isinstance(data.dataset, IterableDataset):
                log.warning("ignoring the loader's sampler: Fairway uses a seeded shuffle that can be resumed")
            self.batch_size = data.batch_size or 0
            self._options.update(
                pin_memory=data.pin_memory,
                num_workers=data.num_workers,
                collate_fn=data.collate_fn,
                worker_init_fn=data.worker_init_fn,
                multiprocessing_context=data.multiprocessing_context,
            )
            if data.num_workers > 0:
                self._options["prefetch_factor"] = data.prefetch_factor
        self.streams = isinstance(self.dataset, IterableDataset) or not hasattr(self.dataset, "__getitem__")
        self._iterator: Optional[Iterator[Any]] = None
        if self.streams:
            self._check_stream(examples)
        elif not hasattr(self.dataset, "__len__"):
            raise TypeError("the data set has no length; want one with __len__ and __getitem__, so that training can resume in order")
        self.size = examples if self.streams and examples else len(self.dataset)

    def _check_stream(self, examples: int) -> None:
        if not (hasattr(self.dataset, "state_dict") and hasattr(self.dataset, "load_state_dict")):
            raise TypeError(
                "the data set is iterable and does not say where it is, so training could not resume in order: "
                "give it state_dict() and load_state_dict(), or use one with __len__ and __getitem__"
            )
        if self._options.get("num_workers"):
            raise ValueError(
                "the data set is iterable, and its loader has workers: they, not this process, would know where it is; use num_workers=0"
            )
        if not examples and not hasattr(self.dataset, "__len__"):
            raise ValueError("the data set is iterable and has no length: say how many examples an epoch has (examples=...)")

    def stream(self, count: int) -> Iterator[Any]:
        """Collated examples of a data set that is iterated over, count at a time,
        without end. None is taken before it is used, so the data set knows the place."""
        collate = self._options.get("collate_fn") or default_collate
        empty = False
        while True:
            if self._iterator is None:
                self._iterator = iter(self.dataset)
            taken = list(itertools.islice(self._iterator, count))
            if len(taken) < count:  # the end; what is less than a batch is dropped
                if empty:
                    raise ValueError(f"the data set has fewer examples for this process than go into a batch ({count})")
                self._iterator, empty = None, True
                continue
            empty = False
            yield collate(taken)

    def resume(self, states: list[Any], rank: int, world: int) -> None:
        """Goes on where a data set that is iterated over was."""
        if len(states) != world:
            raise RuntimeError(
                f"the iterable data set has kept its place for each of {len(states)} processes and cannot go on with {world}; "
                "give the job a fixed number of GPUs"
            )
        self.dataset.load_state_dict(states[rank])

    def examples(self, indices: Iterable[list[int]]) -> Iterator[Any]:
        """The collated examples of each list of indices. Workers may be ahead
        of what is used; that is why the loop, not the loader, keeps the place."""
        return iter(DataLoader(self.dataset, batch_sampler=indices, **self._options))

    def move(self, item: Any) -> Any:
        """Moves tensors, and those in lists, tuples and dicts, to the device."""
        if self._device.type == "cpu":
            return item
        if isinstance(item, torch.Tensor):
            return item.to(self._device, non_blocking=True)
        if isinstance(item, Mapping):
            return {k: self.move(v) for k, v in item.items()}
        if isinstance(item, tuple) and hasattr(item, "_fields"):
            return type(item)(*(self.move(v) for v in item))
        if isinstance(item, (list, tuple)):
            return type(item)(self.move(v) for v in item)
        return item
