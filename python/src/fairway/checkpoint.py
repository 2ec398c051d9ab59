# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""Checkpoints that survive a crash at any instruction. One is a plain file
whose name holds its number and the SHA-256 of its content; it appears under
that name only when all of it is on the disk. The last two are kept: when the
newest is damaged, the one before it is used."""

from __future__ import annotations

import hashlib
import logging
import os
import re
from pathlib import Path
from typing import BinaryIO, Callable, Optional, Union

log = logging.getLogger("fairway")

_NAME = re.compile(r"^checkpoint-(\d{1,18})-([0-9a-f]{64})$")
_UNFINISHED = ".unfinished-"

Content = Union[bytes, Callable[[BinaryIO], None]]


class _HashingWriter:
    """A file that hashes what passes through. It cannot seek, so what was
    hashed is what is on the disk."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.hash = hashlib.sha256()
        self.error: Optional[OSError] = None

    def write(self, data: bytes) -> int:
        self.hash.update(data)
        try:
            self._file.write(data)
        except OSError as err:
            self.error = err
            raise
        return memoryview(data).nbytes

    def flush(self) -> None:
        self._file.flush()


class Store:
    """The checkpoints of one job in one folder. One process at a time may
    save; any number may load."""

    def __init__(self, folder: Union[str, Path], keep: int = 2) -> None:
        if keep < 1:
            raise ValueError(f"keep = {keep}; want 1 or more")
        self.folder = Path(folder)
        self._keep = keep

    def save(self, content: Content) -> Path:
        """Writes a checkpoint and returns its path once it is durable. Content
        is bytes, or a function that writes to the file it is given. Raises
        OSError if the disk does not take it; earlier checkpoints stay."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._sweep()
        known = self._all()
        number = known[-1][0] + 1 if known else 1
        temporary = self.folder / f"{_UNFINISHED}{number}-{os.getpid()}"
        writer: Optional[_HashingWriter] = None
        try:
            with open(temporary, "wb") as file:
                writer = _HashingWriter(file)
                if callable(content):
                    content(writer)  # type: ignore[arg-type]
                else:
                    writer.write(content)
                file.flush()
                os.fsync(file.fileno())
            path = self.folder / f"checkpoint-{number}-{writer.hash.hexdigest()}"
            os.replace(temporary, path)
        except BaseException as err:
            temporary.unlink(missing_ok=True)
            if isinstance(err, RuntimeError) and writer is not None and writer.error is not None:
                raise writer.error from err  # torch hides the error of the disk behind one of its own
            raise
        _sync_folder(self.folder)
        for _, old in known[: len(known) + 1 - self._keep]:
            old.unlink(missing_ok=True)
        return path

    def latest(self) -> Optional[Path]:
        """The newest checkpoint that is whole; None if there is none."""
        for _, path in reversed(self._all()):
            try:
                if _digest(path) == path.name.rsplit("-", 1)[1]:
                    return path
                log.warning("checkpoint %s is damaged; using the previous one", path.name[:40])
            except OSError as err:
                log.warning("cannot read checkpoint %s: %s", path.name[:40], err)
        return None

    def load(self) -> Optional[bytes]:
        """The content of the newest checkpoint that is whole."""
        path = self.latest()
        return path.read_bytes() if path else None

    def _all(self) -> list[tuple[int, Path]]:
        """The checkpoints by number, oldest first."""
        try:
            names = os.listdir(self.folder)
        except FileNotFoundError:
            return []
        found = [(int(m.group(1)), self.folder / name) for name in names if (m := _NAME.match(name))]
        return sorted(found)

    def _sweep(self) -> None:
        """Removes what a crash left unfinished."""
        for path in self.folder.glob(_UNFINISHED + "*"):
            path.unlink(missing_ok=True)


def _digest(path: Path) -> str:
    sha = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            sha.update(chunk)
    return sha.hexdigest()


def _sync_folder(folder: Path) -> None:
    """Makes a rename in the folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
