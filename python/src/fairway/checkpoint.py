# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""Checkpoints that survive a crash at any instruction. One is a plain file
whose name holds its number and the SHA-256 of its content; it appears under
that name only when all of it is there. The last two are kept on the disk: when the
newest is damaged, the one before it is used.

Where the node offers memory, a checkpoint is written there first, and from there
to the disk. A process that is killed in between loses nothing: the next one on the
node takes the newest that is whole, wherever it is."""

from __future__ import annotations

import errno
import hashlib
import logging
import math
import os
import re
from pathlib import Path
from typing import BinaryIO, Callable, Optional, Union

log = logging.getLogger("fairway")

_NAME = re.compile(r"^checkpoint-(\d{1,18})-([0-9a-f]{64})$")
_UNFINISHED = ".unfinished-"

Content = Union[bytes, Callable[[BinaryIO], None]]


# The part of the memory that is free, of the folder in memory and of the node, which
# one checkpoint may take.
_SHARE_OF_FOLDER, _SHARE_OF_NODE = 0.5, 0.25


class _HashingWriter:
    """A file that hashes what passes through. It cannot seek, so what was
    hashed is what is in the file."""

    def __init__(self, file: BinaryIO, most: float = math.inf) -> None:
        self._file = file
        self._left = most
        self.hash = hashlib.sha256()
        self.error: Optional[OSError] = None

    def write(self, data: bytes) -> int:
        size = memoryview(data).nbytes
        self._left -= size
        try:
            if self._left < 0:
                raise OSError(errno.EFBIG, "too large for the memory that is free")
            self._file.write(data)
        except OSError as err:
            self.error = err
            raise
        self.hash.update(data)
        return size

    def flush(self) -> None:
        self._file.flush()


class _Folder:
    """The checkpoints in one folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def all(self) -> list[tuple[int, Path]]:
        """The checkpoints by number, oldest first."""
        try:
            names = os.listdir(self.path)
        except OSError as err:
            if not isinstance(err, FileNotFoundError):
                log.warning("cannot list checkpoints: %s", err)
            return []
        return sorted((int(m.group(1)), self.path / name) for name in names if (m := _NAME.match(name)))

    def put(self, number: int, content: Content, most: float = math.inf) -> Path:
        """Writes a checkpoint; on a disk, it is durable on return."""
        self.path.mkdir(parents=True, exist_ok=True)
        for path in self.path.glob(_UNFINISHED + "*"):
            path.unlink(missing_ok=True)  # a crash left it
        temporary = self.path / f"{_UNFINISHED}{number}-{os.getpid()}"
        writer: Optional[_HashingWriter] = None
        try:
            with open(temporary, "wb") as file:
                writer = _HashingWriter(file, most)
                if callable(content):
                    content(writer)  # type: ignore[arg-type]
                else:
                    writer.write(content)
                file.flush()
                os.fsync(file.fileno())
            path = self.path / f"checkpoint-{number}-{writer.hash.hexdigest()}"
            os.replace(temporary, path)
        except BaseException as err:
            temporary.unlink(missing_ok=True)
            if writer is not None and writer.error is not None and err is not writer.error:
                raise writer.error from err  # torch hides the error of the disk behind one of its own
            raise
        sync_folder(self.path)
        return path

    def keep(self, count: int) -> None:
        """Removes all but the newest."""
        for _, old in self.all()[:-count]:
            old.unlink(missing_ok=True)


class Store:
    """The checkpoints of one job in one folder and, if there is one, in a folder
    in the memory of the node. One process at a time may save; any number may load."""

    def __init__(self, folder: Union[str, Path], keep: int = 2, memory: Union[str, Path, None] = None) -> None:
        if keep < 1:
            raise ValueError(f"keep = {keep}; want 1 or more")
        self.folder = Path(folder)
        self._disk, self._keep = _Folder(self.folder), keep
        self._memory: Optional[_Folder] = None
        if memory:  # each folder has its own part of it: a script may name another
            own = hashlib.sha256(os.path.abspath(self.folder).encode()).hexdigest()[:16]
            self._memory = _Folder(Path(memory) / own)

    def save(self, content: Content) -> Path:
        """Writes a checkpoint and returns its path once it is durable. Content
        is bytes, or a function that writes to the file it is given, perhaps twice.
        Raises OSError if the disk does not take it; earlier checkpoints stay."""
        number = 1 + max((number for number, _ in self._disk.all() + self._in_memory()), default=0)
        near = self._put_in_memory(number, content)
        path = self._disk.put(number, _copy_of(near) if near else content)
        self._disk.keep(self._keep)
        return path

    def latest(self) -> Optional[Path]:
        """The newest checkpoint that is whole; None if there is none."""
        disk, memory = self._disk.all(), self._in_memory()
        saved = {path.name for _, path in disk}
        # Of two with the same number the disk's counts: the job may have run on another
        # node in between. If they are the same, memory is nearer.
        found = [(number, 1, path) for number, path in disk]
        found += [(number, 2 if path.name in saved else 0, path) for number, path in memory]
        for _, _, path in sorted(found, reverse=True):
            try:
                if digest_of(path) == path.name.rsplit("-", 1)[1]:
                    return path
                log.warning("checkpoint %s is damaged; using the previous one", path.name[:40])
            except OSError as err:
                log.warning("cannot read checkpoint %s: %s", path.name[:40], err)
        return None

    def durable(self, path: Path) -> bool:
        """Whether a checkpoint is on the disk."""
        return (self.folder / path.name).exists()

    def load(self) -> Optional[bytes]:
        """The content of the newest checkpoint that is whole."""
        path = self.latest()
        return path.read_bytes() if path else None

    def _in_memory(self) -> list[tuple[int, Path]]:
        return self._memory.all() if self._memory else []

    def _put_in_memory(self, number: int, content: Content) -> Optional[Path]:
        """Writes a checkpoint to memory; None if it does not fit."""
        if self._memory is None:
            return None
        try:
            path = self._memory.put(number, content, _room(self._memory.path))
            self._memory.keep(1)
            return path
        except OSError as err:  # the disk shall say whether it is more than that
            log.info("no copy of the checkpoint in memory: %s", err)
            return None


def _room(folder: Path) -> float:
    """The bytes that a checkpoint may take in a folder in memory."""
    folder.mkdir(parents=True, exist_ok=True)
    disk = os.statvfs(folder)
    room = _SHARE_OF_FOLDER * disk.f_bavail * disk.f_frsize
    with open("/proc/meminfo", encoding="ascii") as lines:
        for line in lines:
            if line.startswith("MemAvailable:"):
                return min(room, _SHARE_OF_NODE * 1024 * int(line.split()[1]))
    return room


def _copy_of(path: Path) -> Callable[[BinaryIO], None]:
    """Content that is the same as a file's."""

    def write(file: BinaryIO) -> None:
        with open(path, "rb") as source:
            while chunk := source.read(1 << 22):
                file.write(chunk)

    return write


def digest_of(path: Path) -> str:
    """The SHA-256 of a file."""
    sha = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            sha.update(chunk)
    return sha.hexdigest()


def sync_folder(folder: Path) -> None:
    """Makes a rename in the folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
