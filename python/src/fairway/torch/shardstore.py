# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""Checkpoints of a training of which each rank holds a part: folders of PyTorch's
distributed checkpoint, which another number of ranks, laid out in another way, can read.
As with fairway.checkpoint, the name of one holds its number and a digest, it has that name
only when all of it is on the disk, and the last two are kept."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
from pathlib import Path
from typing import Any, Mapping

import torch.distributed.checkpoint as dcp

from fairway.checkpoint import digest_of, sync_folder
from fairway.torch import state as checkpoints
from fairway.torch.gang import Reducer

log = logging.getLogger("fairway")

_NAME = re.compile(r"^shards-(\d{1,18})-([0-9a-f]{64})$")
_UNFINISHED = ".unfinished-shards-"
_LIST, _COURSE = "files.json", "course"
_KEEP = 2


class ShardStore:
    """The checkpoints in one folder, which all ranks see. Every rank calls the same
    methods in the same order."""

    def __init__(self, folder: Path, rank: int, reducer: Reducer) -> None:
        self._folder, self._rank, self._reducer = folder, rank, reducer

    def save(self, tensors: dict[str, Any], course: Mapping[str, Any], number: int) -> None:
        """Writes a checkpoint: tensors may be distributed, course and number are rank 0's. It
        is durable on return. Raises on all ranks if one of them fails."""
        made = self._reducer.gather(self._try(lambda: self._make(number)) if self._rank == 0 else None)[0]
        if isinstance(made, Exception):
            raise made
        folder = Path(str(made))
        try:
            dcp.save(tensors, storage_writer=dcp.FileSystemWriter(folder), process_group=self._reducer.group)
        except dcp.CheckpointException as err:  # all ranks get it; the cause says more than its list of ranks
            cause, _ = next(iter(err.failures.values()))
            raise cause from err
        digests = self._reducer.gather(self._try(lambda: self._own_digests(folder)))
        error = next((d for d in digests if isinstance(d, Exception)), None)
        if error is None and self._rank == 0:
            error = self._try(lambda: self._finish(folder, digests, course))
        error = self._reducer.gather(error)[0]
        if isinstance(error, Exception):
            raise error

    def all(self) -> dict[int, Path]:
        """The checkpoints that this rank sees, by number."""
        try:
            names = os.listdir(self._folder)
        except FileNotFoundError:
            return {}
        return {int(m.group(1)): self._folder / name for name in names if (m := _NAME.match(name))}

    def whole(self, path: Path) -> bool:
        """Whether a checkpoint is as it was written. The ranks share the work of reading it."""
        (damaged,) = self._reducer.max([float(not self._whole(path))])
        if damaged:
            log.warning("checkpoint %s is damaged; using the previous one", path.name[:40])
        return not damaged

    def load(self, path: Path, tensors: dict[str, Any]) -> dict[str, Any]:
        """Fills tensors from a checkpoint, however they were laid out when it was
        written, and returns its course."""
        dcp.load(tensors, storage_reader=dcp.FileSystemReader(path), process_group=self._reducer.group)
        return checkpoints.read(path / _COURSE)

    def _make(self, number: int) -> Path:
        self._folder.mkdir(parents=True, exist_ok=True)
        for old in self._folder.glob(_UNFINISHED + "*"):
            shutil.rmtree(old, ignore_errors=True)  # a crash left it
        folder = self._folder / f"{_UNFINISHED}{number}"
        folder.mkdir()
        return folder

    def _own_digests(self, folder: Path) -> dict[str, str]:
        """The digests of the files that this rank wrote; rank 0 wrote those for all."""
        mine = f"__{self._rank}_"
        return {
            path.name: digest_of(path) for path in folder.iterdir()
            if path.name.startswith(mine) or self._rank == 0 and not path.name.startswith("__")
        }  # fmt: skip

    def _finish(self, folder: Path, digests: list[Any], course: Mapping[str, Any]) -> None:
        files: dict[str, str] = {}
        for part in digests:
            files.update(part)
        with open(folder / _COURSE, "wb") as file:
            checkpoints.write(file, course)
            file.flush()
            os.fsync(file.fileno())
        files[_COURSE] = digest_of(folder / _COURSE)
        with open(folder / _LIST, "w", encoding="utf-8") as file:
            json.dump(files, file, sort_keys=True)
            file.flush()
            os.fsync(file.fileno())
        sync_folder(folder)
        number = folder.name[len(_UNFINISHED) :]
        os.replace(folder, self._folder / f"shards-{number}-{digest_of(folder / _LIST)}")
        sync_folder(self._folder)
        for _, old in sorted(self.all().items())[:-_KEEP]:
            shutil.rmtree(old, ignore_errors=True)

    def _whole(self, path: Path) -> bool:
        """Whether this rank's share of the files of a checkpoint is as it was written."""
        try:
            if digest_of(path / _LIST) != path.name.rsplit("-", 1)[1]:
                return False
            files = sorted(json.loads((path / _LIST).read_text(encoding="utf-8")).items())
            return all(digest_of(path / name) == digest for name, digest in files[self._rank :: self._reducer.world])
        except (OSError, ValueError) as err:
            log.warning("cannot read checkpoint %s: %s", path.name[:40], err)
            return False

    @staticmethod
    def _try(act: Any) -> Any:
        """What an act returns, or the error that the other ranks have to hear of."""
        try:
            return act()
        except OSError as err:
            return err
        except Exception as err:  # noqa: BLE001: it must be one that can be sent
            return RuntimeError(f"{type(err).__name__}: {err}")
