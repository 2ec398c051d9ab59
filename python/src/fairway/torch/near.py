# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""Checkpoints in the memory of the nodes of a gang. Each is in the memory of at least two
nodes, if there are that many: a gang that has lost a node goes on from there, and not
from the disk. A checkpoint has one part that all ranks need, where they are replicas, or
one for each rank. Ranks whose node does not have their part get it from another one."""

from __future__ import annotations

import io
import logging
import os
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Mapping, Optional, Sequence, Union

from fairway.checkpoint import Folder, Store, whole
from fairway.torch.gang import Reducer

log = logging.getLogger("fairway")

WHOLE = ""  # the part of a training whose ranks are replicas
_PARTS = "part-"
_NODE = ".node"  # the file that says which node it is in whose memory it is

# What the memory of a node holds: names and sizes, by part and number.
Held = dict[str, dict[int, tuple[str, int]]]


@dataclass(frozen=True)
class Found:
    """A checkpoint that all ranks can go on from."""

    number: int
    content: Union[Path, io.BytesIO, None]  # this rank's part; None: the checkpoint is on the disk
    durable: bool
    highest: int  # number of all that were seen


class Near:
    """The memory of the nodes, as one rank sees it. Every rank calls the same methods in
    the same order, but put."""

    def __init__(self, store: Optional[Store], reducer: Reducer, rank: int) -> None:
        self._memory = store.memory if store is not None else None
        self._reducer, self._rank = reducer, rank
        self._nodes = [str(name) for name in reducer.gather(self._name_node())]  # by rank; empty: no memory
        self._names = list(dict.fromkeys(name for name in self._nodes if name))

    @property
    def available(self) -> bool:
        """Whether some node has memory for checkpoints."""
        return bool(self._names)

    @property
    def several(self) -> bool:
        """Whether several nodes have."""
        return len(self._names) > 1

    @property
    def leads(self) -> bool:
        """Whether this rank acts for its node."""
        mine = self._nodes[self._rank]
        return mine != "" and self._nodes.index(mine) == self._rank

    def part(self, rank: int, layout: Sequence[int]) -> str:
        """The part of a rank, where each has its own: it fits the same layout only."""
        return f"{_PARTS}{rank}-of-{'x'.join(map(str, layout))}"

    def put(self, part: str, number: int, content: bytes) -> None:
        """Writes a part to the memory of this node. The one before stays: other nodes may
        not have got as far."""
        if self._memory is not None:
            folder = self._folder(part)
            if folder.put_if_it_fits(number, content) is not None:
                folder.keep(2)

    def swap(self, mine: bytes, reducer: Reducer) -> dict[int, bytes]:
        """Sends a part to the next node, and returns what this rank has to keep for
        others, by rank. With a reducer beside the training, a thread may call it."""
        sizes = [int(str(size)) for size in reducer.gather(len(mine))]
        to = [self._partner(rank) for rank in range(len(self._nodes))]
        sources = [rank for rank, target in enumerate(to) if target == self._rank]
        target = to[self._rank]
        got = reducer.exchange([(target, mine)] if target is not None else [], [(rank, sizes[rank]) for rank in sources])
        return dict(zip(sources, got))

    def find(self, parts: Sequence[str], disk: Mapping[int, str], check: Callable[[int], bool]) -> Optional[Found]:
        """The newest checkpoint of which each rank can get its part; None: there is none.
        disk holds names of what rank 0 sees on the disk, by number; check, which all ranks
        call, whether one of them is whole."""
        seen = self._reducer.gather((self._list() if self.leads else {}, dict(disk)))
        held: dict[str, Held] = {node: mine for node, (mine, _) in zip(self._nodes, seen) if mine}
        on_disk: dict[int, str] = seen[0][1]
        highest = max([*on_disk, *(n for node in held.values() for part in node.values() for n in part)], default=0)
        while True:
            number, near = self._newest(parts, held, on_disk)
            if number == 0:
                return None
            if not near:
                if check(number):
                    return Found(number, None, True, highest)
                del on_disk[number]
                continue
            sources = self._sources(parts, held, number)
            damaged = self._damaged(parts, held, number, sources)
            if not damaged:
                return Found(number, self._fetch(parts, held, number, sources), number in on_disk, highest)
            for node, part in damaged:
                del held[node][part][number]

    def clear(self) -> None:
        """Frees the memory of this node: the training is over."""
        if self.leads and self._memory is not None:
            shutil.rmtree(self._memory.path, ignore_errors=True)

    def _name_node(self) -> str:
        """A name that all ranks find that have the same memory."""
        if self._memory is None:
            return ""
        path = self._memory.path / _NODE
        try:
            self._memory.path.mkdir(parents=True, exist_ok=True)
            own = path.with_name(f"{_NODE}-{os.getpid()}-{uuid.uuid4().hex}")
            own.write_text(uuid.uuid4().hex, encoding="ascii")
            try:
                os.link(own, path)
            except FileExistsError:
                pass  # another rank, or another attempt, was first
            finally:
                own.unlink()
            return path.read_text(encoding="ascii")
        except OSError as err:
            log.warning("no checkpoints in memory: %s", err)
            self._memory = None
            return ""

    def _partner(self, rank: int) -> Optional[int]:
        """The rank that keeps a second copy for another one: on the next node."""
        node = self._nodes[rank]
        others = [name for name in self._names if name != node]
        if not others:
            return None
        at = self._names.index(node) if node else 0
        ranks = [r for r, name in enumerate(self._nodes) if name == others[at % len(others)]]
        return ranks[self._nodes[:rank].count(node) % len(ranks)]

    def _folder(self, part: str) -> Folder:
        assert self._memory is not None
        return Folder(self._memory.path / part) if part else self._memory

    def _list(self) -> Held:
        """What is in the memory of this node."""
        assert self._memory is not None
        out: Held = {}
        for part in (WHOLE, *sorted(path.name for path in self._memory.path.glob(_PARTS + "*"))):
            for number, path in self._folder(part).all():
                out.setdefault(part, {})[number] = (path.name, path.stat().st_size)
        return out

    @staticmethod
    def _newest(parts: Sequence[str], held: Mapping[str, Held], on_disk: Mapping[int, str]) -> tuple[int, bool]:
        """The number of the newest checkpoint that seems complete, and whether to take it
        from memory; 0: there is none."""
        names: dict[int, dict[str, set[str]]] = {}  # by number and part
        wanted = set(parts)
        for node in held.values():
            for part in wanted & node.keys():
                for number, (name, _) in node[part].items():
                    names.setdefault(number, {}).setdefault(part, set()).add(name)
        near = max((number for number, found in names.items() if len(found) == len(wanted)), default=0)
        disk = max(on_disk, default=0)
        if near != disk:
            return max(near, disk), near > disk
        # Of two with the same number the disk's counts: the job may have run on another node in
        # between. If they are the same, memory is nearer.
        return near, near > 0 and any(on_disk[disk] in found for found in names[near].values())

    def _sources(self, parts: Sequence[str], held: Mapping[str, Held], number: int) -> list[str]:
        """By rank: the node from which it gets its part, its own if that has it."""
        holders: dict[str, list[str]] = {}
        for name, node in held.items():
            for part, numbers in node.items():
                if number in numbers:
                    holders.setdefault(part, []).append(name)
        out = []
        for rank, part in enumerate(parts):
            here, found = self._nodes[rank], holders[part]
            out.append(here if here in found else found[rank % len(found)])
        return out

    def _damaged(self, parts: Sequence[str], held: Mapping[str, Held], number: int, sources: Sequence[str]) -> list[tuple[str, str]]:
        """The parts that are to be used and are not whole, with their nodes."""
        mine, bad = self._nodes[self._rank], []
        if self.leads:
            for part in sorted({part for part, source in zip(parts, sources) if source == mine}):
                if not whole(self._folder(part).path / held[mine][part][number][0]):
                    bad.append((mine, part))
        return [pair for found in self._reducer.gather(bad) for pair in found]

    def _fetch(self, parts: Sequence[str], held: Mapping[str, Held], number: int, sources: Sequence[str]) -> Union[Path, io.BytesIO]:
        """This rank's part. Ranks that have parts which others need send them."""
        mine, send, receive = self._nodes[self._rank], [], []
        for rank, (part, source) in enumerate(zip(parts, sources)):
            if source == self._nodes[rank]:
                continue
            name, size = held[source][part][number]
            if source == mine and self.leads:
                send.append((rank, (self._folder(part).path / name).read_bytes()))
            if rank == self._rank:
                receive.append((self._nodes.index(source), size))
        got = self._reducer.exchange(send, receive)
        if got:
            return io.BytesIO(got[0])
        part = parts[self._rank]
        return self._folder(part).path / held[mine][part][number][0]
