# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""Checkpoints that are written while the training goes on."""

from __future__ import annotations

import threading
from typing import Callable, Optional

Write = Callable[[], object]


class Behind:
    """Writes checkpoints in a thread of its own, one at a time; of those that
    wait, only the newest is written."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: Optional[Write] = None
        self._busy = False

    @property
    def busy(self) -> bool:
        """Whether something is left to write."""
        return self._busy

    def put(self, write: Write) -> None:
        """Queues the write of a checkpoint, which raises nothing, and returns at once."""
        with self._changed:
            self._waiting = write
            if not self._busy:
                self._busy = True
                threading.Thread(target=self._run, name="fairway-checkpoints", daemon=True).start()

    def withdraw(self) -> None:
        """Drops the checkpoint that waits: a newer one comes."""
        with self._changed:
            self._waiting = None

    def settle(self, timeout: Optional[float] = None) -> bool:
        """Waits until nothing is left to write; returns whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._busy, timeout)

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._waiting is None:
                    self._busy = False
                    self._changed.notify_all()
                    return
                write, self._waiting = self._waiting, None
            write()
            del write  # the memory of its content can be used again
