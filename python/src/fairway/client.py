# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""Sends reports to the daemon from a thread of its own. Whatever the daemon
does, the training neither waits nor fails because of it."""

from __future__ import annotations

import collections
import http.client
import json
import logging
import random
import socket
import threading
import time
import urllib.parse
from typing import Any, Callable, Mapping

log = logging.getLogger("fairway")

Answer = Mapping[str, Any]

_PATH = "/v1/agent/report"
_LARGEST_ANSWER = 1 << 20
_LARGEST_REPORT = 256 << 10  # what the daemon takes


class Unreachable(Exception):
    """The daemon did not take a report, but may take it later."""


class Refused(Exception):
    """The daemon will never take this report."""


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def connection(api: str, timeout: float) -> http.client.HTTPConnection:
    """A connection to unix:///path, http://host:port or https://host:port."""
    url = urllib.parse.urlsplit(api)
    if url.scheme == "unix" and url.path:
        return _UnixConnection(url.path, timeout)
    if url.scheme in ("http", "https") and url.hostname:
        kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
        return kind(url.hostname, url.port, timeout=timeout)
    raise ValueError(f"{api[:80]!r} is not an address; want unix:///path, http://host:port or https://host:port")


def post(api: str, token: str, report: Mapping[str, Any], timeout: float) -> Answer:
    """Sends one report and returns the answer."""
    body = json.dumps(report, allow_nan=False).encode()
    if len(body) > _LARGEST_REPORT:
        raise Refused(f"the report has {len(body)} bytes; the limit is {_LARGEST_REPORT}")
    link = connection(api, timeout)
    try:
        headers = {"Content-Type": "application/json", "Authorization": "Bearer " + token}
        link.request("POST", _PATH, body, headers)
        response = link.getresponse()
        data = response.read(_LARGEST_ANSWER)
    except (OSError, http.client.HTTPException) as err:
        raise Unreachable(f"{type(err).__name__}: {err}") from err
    finally:
        link.close()
    if response.status == 429 or response.status >= 500:
        raise Unreachable(f"HTTP {response.status}: {data[:200]!r}")
    if response.status >= 300:
        raise Refused(f"HTTP {response.status}: {data[:200]!r}")
    try:
        answer = json.loads(data or b"{}")
    except ValueError as err:
        raise Unreachable(f"the answer is not JSON: {data[:80]!r}") from err
    return answer if isinstance(answer, dict) else {}


class Client:
    """A queue of reports and the thread that sends them, oldest first. The
    token is asked for each time, for it may be renewed meanwhile. The queue is bounded: when the daemon is away for long, the oldest ordinary
    reports are dropped, those marked as kept last."""

    def __init__(
        self,
        api: str,
        token: Callable[[], str],
        on_answer: Callable[[Answer], None],
        *,
        timeout: float = 10.0,
        capacity: int = 64,
        first_delay: float = 1.0,
        longest_delay: float = 60.0,
    ) -> None:
        connection(api, timeout)  # an address that is wrong is told at once
        self._api, self._token, self._timeout = api, token, timeout
        self._on_answer = on_answer
        self._capacity = capacity
        self._delays = (first_delay, longest_delay)
        self._queue: collections.deque[tuple[Mapping[str, Any], bool]] = collections.deque()
        self._changed = threading.Condition()
        self._busy = False
        self._closed = False
        self._hurry = False
        self.away = False  # the daemon could not be reached when last tried
        self._old = False  # the daemon is of version 0.1
        self.dropped = 0
        self._thread = threading.Thread(target=self._run, name="fairway-client", daemon=True)
        self._thread.start()

    def send(self, report: Mapping[str, Any], keep: bool = False) -> None:
        """Queues a report and returns at once. A kept one (a checkpoint, the
        end) outlives ordinary ones when the queue is full."""
        with self._changed:
            if self._closed:
                return
            if len(self._queue) >= self._capacity:
                ordinary = next((i for i, (_, kept) in enumerate(self._queue) if not kept), 0)
                del self._queue[ordinary]
                self.dropped += 1
            self._queue.append((report, keep))
            self._changed.notify_all()

    def flush(self, timeout: float, if_away: float = 60.0) -> bool:
        """Waits until everything is sent, but no longer than timeout seconds,
        or if_away if the daemon cannot be reached; returns whether it is.
        Shortens a wait before a retry."""
        start = time.monotonic()
        with self._changed:
            self._hurry = True
            self._changed.notify_all()
            while self._queue or self._busy:
                patience = min(timeout, if_away) if self.away else timeout
                left = start + patience - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(left)
        return True

    def close(self, timeout: float, if_away: float = 1.0) -> None:
        """Flushes, then ends the thread. What could not be sent is lost."""
        self.flush(timeout, if_away)
        with self._changed:
            self._closed = True
            self._queue.clear()
            self._changed.notify_all()

    def _run(self) -> None:
        delay = self._delays[0]
        while True:
            with self._changed:
                while not self._queue and not self._closed:
                    self._changed.wait()
                if self._closed:
                    return
                entry = self._queue.popleft()
                self._busy = True
            sent = self._deliver(entry[0])
            with self._changed:
                self._busy = False
                if not sent and not self._closed:
                    self._queue.appendleft(entry)
                self._changed.notify_all()
            if sent:
                delay = self._delays[0]
                continue
            self._pause(delay)
            delay = min(2 * delay, self._delays[1])

    def _deliver(self, report: Mapping[str, Any]) -> bool:
        """Sends a report; returns whether it is done with."""
        try:
            answer = self._post(report)
        except Unreachable as err:
            if not self.away:
                log.warning("cannot reach the daemon (%s); training continues, reports will be retried", err)
                self.away = True
            return False
        except Exception as err:  # noqa: BLE001: nothing may end this thread
            log.warning("the daemon rejected a report, dropping it: %s", err)
            return True
        if self.away:
            log.warning("connected to the daemon again")
            self.away = False
        try:
            self._on_answer(answer)
        except Exception:  # noqa: BLE001
            log.exception("the daemon's answer could not be used")
        return True

    def _post(self, report: Mapping[str, Any]) -> Answer:
        """Sends a report, to a daemon of version 0.1 without what it does
        not know and would refuse."""
        plain = {name: value for name, value in report.items() if name not in ("series", "links")}
        if not self._old:
            try:
                return post(self._api, self._read_token(), report, self._timeout)
            except Refused as err:
                if len(plain) == len(report) or "no such field" not in str(err):
                    raise
                self._old = True
        return post(self._api, self._read_token(), plain, self._timeout)

    def _read_token(self) -> str:
        try:
            return self._token()
        except (OSError, ValueError) as err:
            raise Unreachable(f"cannot read the token: {err}") from err

    def _pause(self, delay: float) -> None:
        """Waits before the next try: with some chance in it, so that the jobs
        of a machine do not all come at once, and briefly if someone flushes."""
        until = time.monotonic() + delay * random.uniform(0.5, 1.0)
        with self._changed:
            while not self._closed:
                left = until - time.monotonic()
                if self._hurry:
                    left = min(left, 0.2)
                    until = time.monotonic() + left
                    self._hurry = False
                if left <= 0:
                    return
                self._changed.wait(left)
