# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""The notice: SIGTERM asks a job to save its work and leave. The handler only
raises a flag; the training looks at it between two steps."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from types import FrameType
from typing import Any, Optional

log = logging.getLogger("fairway")


class Notice:
    """A flag that SIGTERM raises. Python runs signal handlers in the main
    thread, and only that thread may install one: elsewhere install() does
    nothing, says so, and the flag can still be raised by hand. A handler that
    was there before is called too."""

    def __init__(self) -> None:
        # A plain attribute: a handler must not take a lock that the code it
        # interrupts may hold.
        self._since: Optional[float] = None
        self._before: Any = None
        self._installed = False
        self._pid = 0

    def install(self) -> bool:
        """Starts to listen; returns whether it could."""
        if self._installed:
            return True
        if threading.current_thread() is not threading.main_thread():
            log.warning("SIGTERM can only be caught in the main thread; call fairway.init() there")
            return False
        self._pid = os.getpid()
        self._before = signal.signal(signal.SIGTERM, self._handle)
        self._installed = True
        return True

    def uninstall(self) -> None:
        """Puts the handler back that was there before."""
        if self._installed and threading.current_thread() is threading.main_thread():
            if signal.getsignal(signal.SIGTERM) == self._handle:
                signal.signal(signal.SIGTERM, self._before if self._before is not None else signal.SIG_DFL)
            self._installed = False

    def give(self) -> None:
        """Raises the flag."""
        if self._since is None:
            self._since = time.monotonic()

    @property
    def installed(self) -> bool:
        """Whether SIGTERM raises the flag."""
        return self._installed

    @property
    def given(self) -> bool:
        """Whether the job was asked to stop."""
        return self._since is not None

    def left(self, notice: float) -> float:
        """Seconds left of a notice of that many; all of them if none was given."""
        return notice if self._since is None else max(0.0, self._since + notice - time.monotonic())

    def _handle(self, number: int, frame: Optional[FrameType]) -> None:
        if os.getpid() != self._pid:
            # A child by fork, such as a loader's worker: it dies of the signal
            # as it would without us.
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
            return
        self.give()
        if callable(self._before):
            self._before(number, frame)
