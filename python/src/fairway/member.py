# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""A rank's link to the supervisor of its attempt, which owns the membership of
the gang: numbered generations, each with a world size and a port to meet at. The
link is an abstract Unix socket with one JSON object in a line:

    rank        {"member": 2, "generation": 0}  who it is; sent first
    supervisor  {"generation": 1, "rank": 0, "world": 4, "port": 4711, ...}  see Place
    rank        {"ready": 1}  it has left the generation before and waits
    supervisor  {"go": 1}     all members are ready
    rank        {"up": 1}     it has the state of the training and goes on

A new process is told its generation by its environment. It says that it is ready
before it is told its place: until then the others train on."""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from dataclasses import dataclass
from typing import Any, Callable, Optional

from fairway.env import Environment

log = logging.getLogger("fairway")


@dataclass(frozen=True)
class Place:
    """A rank's place in a generation of its gang. Ranks that stay come before new
    ones, so rank 0 has the state of the training."""

    generation: int
    rank: int  # below 0: this process is to leave
    world: int
    port: int
    lost: bool = False  # a rank has died: what runs among the ranks cannot end
    fresh: int = 0  # ranks that are new


class Member:
    """The link of one process. A thread of its own reads it, so that a rank that
    waits for a dead one in a collective hears of it."""

    def __init__(self, env: Environment) -> None:
        self.generation = env.generation - 1 if env.generation else 0  # that this process belongs to
        self.on_loss: Callable[[], None] = lambda: None  # called from the thread when a rank has died
        self._place: Optional[Place] = None  # the newest
        self._gone = 0  # the newest generation that may go
        self._closed = False
        self._news = threading.Condition()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.connect("\0" + env.gang)
            self._send(member=env.member, generation=env.generation)
        except OSError:
            self._socket.close()
            raise
        threading.Thread(target=self._read, name="fairway-member", daemon=True).start()

    @property
    def asked(self) -> int:
        """The generation that this process should belong to."""
        return self._place.generation if self._place is not None else self.generation

    def next(self, after: int, timeout: float) -> Optional[Place]:
        """Waits for a place in a generation after another."""
        with self._news:
            self._news.wait_for(lambda: self._closed or self.asked > after, timeout)
            return self._place if self.asked > after else None

    def ready(self, generation: int, timeout: float) -> bool:
        """Says that this process waits to enter a generation, and waits until it
        may. False: there is a newer one, or the time is up."""
        self.waits(generation)
        with self._news:
            self._news.wait_for(lambda: self._closed or self._gone >= generation or self.asked > generation, timeout)
            return self._gone >= generation and self.asked == generation

    def waits(self, generation: int) -> None:
        """Says that this process waits to enter a generation."""
        self._send(ready=generation)

    def up(self, generation: int) -> None:
        """Says that this process trains in a generation."""
        self.generation = generation
        self._send(up=generation)

    def close(self) -> None:
        """Ends the link."""
        self._closed = True
        self._socket.close()

    def _send(self, **message: Any) -> None:
        self._socket.sendall(json.dumps(message).encode() + b"\n")

    def _read(self) -> None:
        try:
            with self._socket.makefile("rb") as lines:
                for line in lines:
                    self._take(json.loads(line))
        except (OSError, ValueError) as err:
            if not self._closed:
                log.warning("lost the link to the supervisor: %s", err)
        with self._news:
            self._closed = True
            self._news.notify_all()

    def _take(self, message: dict[str, Any]) -> None:
        with self._news:
            if "go" in message:
                self._gone = max(self._gone, int(message["go"]))
                self._news.notify_all()
                return
            place = Place(**message)
            if place.generation <= (self._place.generation if self._place is not None else 0):
                return
            self._place = place
            self._news.notify_all()
        if place.lost and place.generation > self.generation:
            self.on_loss()


def connect(env: Environment) -> Optional[Member]:
    """The link of this process; None where there is no supervisor to talk to."""
    if not env.gang:
        return None
    for left in (2, 1, 0):
        try:
            return Member(env)
        except OSError as err:
            if left == 0:
                log.warning("the gang cannot change in place: no link to the supervisor: %s", err)
        time.sleep(0.2)
    return None
