# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""The examples of a data set in the order that the loop says."""

from __future__ import annotations

import logging
from typing import Any, Iterable, Iterator, Mapping, Sequence, Union

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler, SequentialSampler

log = logging.getLogger("fairway")


def permute(size: int, seed: int) -> Sequence[int]:
    """A permutation of range(size): as order.shuffle, but fast."""
    return torch.randperm(size, generator=torch.Generator().manual_seed(seed)).tolist()


class Source:
    """A data set, and how its examples are put together."""

    def __init__(self, data: Union[DataLoader, Dataset], device: torch.device) -> None:
        self._device = device
        self._options: dict[str, Any] = {"pin_memory": device.type == "cuda"}
        self.batch_size = 0
        self.dataset: Any = data
        if isinstance(data, DataLoader):
            self.dataset = data.dataset
            if not isinstance(data.sampler, (RandomSampler, SequentialSampler)):
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
        if isinstance(self.dataset, IterableDataset) or not hasattr(self.dataset, "__len__"):
            raise TypeError("the data set has no length; want one with __len__ and __getitem__, so that training can resume in order")

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
