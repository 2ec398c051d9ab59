# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""Checkpoints that survive a crash at any instruction. One is a plain file
whose name holds its number and the SHA-256 of its content; it appears under
that name only when all of it is there. The last two are kept on the disk: when the
newest is damaged, the one before it is used.

Where the node offers memory, a checkpoint is written there first, and from there
to the disk. A process that is killed in between loses nothing: the next one on the
node takes the newest that is whole, wherever it is. fairway.torch also keeps
checkpoints in the memory of several nodes (see fairway.torch.near)."""

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

# Where a container finds the limit of its memory, and what it uses of it.
_LIMIT, _USED = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")

# The checkpoints of a later attempt have higher numbers than those of an earlier one,
# also where nobody can see how many that one has left in the memory of other nodes.
_PER_ATTEMPT = 1_000_000


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


class Folder:
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

    def put_if_it_fits(self, number: int, content: Content) -> Optional[Path]:
        """Writes a checkpoint to a folder in memory; None if it does not fit."""
        try:
            return self.put(number, content, _room(self.path))
        except OSError as err:  # the disk shall say whether it is more than that
            log.info("no checkpoint in memory: %s", err)
            return None

    def keep(self, count: int) -> None:
        """Removes all but the newest."""
        for _, old in self.all()[:-count]:
            old.unlink(missing_ok=True)


class Store:
    """The checkpoints of one job in one folder and, if there is one, in a folder
    in the memory of the node. One process at a time may save; any number may load."""

    def __init__(
        self, folder: Union[str, Path], keep: int = 2, memory: Union[str, Path, None] = None, attempt: int = 0, nodes: int = 1
    ) -> None:
        if keep < 1:
            raise ValueError(f"keep = {keep}; want 1 or more")
        self.folder = Path(folder)
        self.disk, self._keep = Folder(self.folder), keep
        self.memory: Optional[Folder] = None
        if memory:  # each folder has its own part of it: a script may name another
            own = hashlib.sha256(os.path.abspath(self.folder).encode()).hexdigest()[:16]
            self.memory = Folder(Path(memory) / own)
        self._number = attempt * _PER_ATTEMPT  # that no later checkpoint may have
        self._looked = False
        self._nodes = nodes

    def number(self, after: int = 0) -> int:
        """A number for the next checkpoint: above those of all that are here, and above
        another one. One process at a time saves, so the disk is looked at once."""
        here = self.memory.all() if self.memory else []
        if not self._looked:
            here += self.disk.all()
            self._looked = True
        self._number = 1 + max([number for number, _ in here] + [self._number, after])
        return self._number

    def save(self, content: Content, number: int = 0) -> Path:
        """Writes a checkpoint and returns its path once it is durable. Content
        is bytes, or a function that writes to the file it is given, perhaps twice.
        Raises OSError if the disk does not take it; earlier checkpoints stay."""
        number = number or self.number()
        near = self.save_to_memory(content, number)
        path = self.disk.put(number, _copy_of(near) if near else content)
        self.disk.keep(self._keep)
        return path

    def save_to_memory(self, content: Content, number: int) -> Optional[Path]:
        """Writes a checkpoint to the memory of the node; None if there is no room."""
        if self.memory is None:
            return None
        path = self.memory.put_if_it_fits(number, content)
        if path is not None:
            self.memory.keep(1)
        return path

    def latest(self) -> Optional[Path]:
        """The newest checkpoint that is whole; None if there is none."""
        # Ranks on other nodes could not read what is in the memory of this one.
        disk, memory = self.disk.all(), self.memory.all() if self.memory and self._nodes == 1 else []
        saved = {path.name for _, path in disk}
        # Of two with the same number the disk's counts: the job may have run on another
        # node in between. If they are the same, memory is nearer.
        found = [(number, 1, path) for number, path in disk]
        found += [(number, 2 if path.name in saved else 0, path) for number, path in memory]
        for _, _, path in sorted(found, reverse=True):
            if whole(path):
                return path
        return None

    def durable(self, path: Path) -> bool:
        """Whether a checkpoint is on the disk."""
        return (self.folder / path.name).exists()

    def load(self) -> Optional[bytes]:
        """The content of the newest checkpoint that is whole."""
        path = self.latest()
        return path.read_bytes() if path else None


def whole(path: Path) -> bool:
    """Whether a checkpoint is as it was written."""
    try:
        if digest_of(path) == path.name.rsplit("-", 1)[1]:
            return True
        log.warning("checkpoint %s is damaged; using the previous one", path.name[:40])
    except OSError as err:
        log.warning("cannot read checkpoint %s: %s", path.name[:40], err)
    return False


def _room(folder: Path) -> float:
    """The bytes that a checkpoint may take in a folder in memory."""
    folder.mkdir(parents=True, exist_ok=True)
    disk = os.statvfs(folder)
    room = min(_SHARE_OF_FOLDER * disk.f_bavail * disk.f_frsize, _SHARE_OF_NODE * _left_of_limit())
    with open("/proc/meminfo", encoding="ascii") as lines:
        for line in lines:
            if line.startswith("MemAvailable:"):
                return min(room, _SHARE_OF_NODE * 1024 * int(line.split()[1]))
    return room


def _left_of_limit() -> float:
    """The bytes that the container of this process may still use: what it writes to a
    folder in memory counts as its own."""
    try:
        return float(_LIMIT.read_text()) - float(_USED.read_text())
    except (OSError, ValueError):  # there is no limit, or it cannot be seen
        return math.inf


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
