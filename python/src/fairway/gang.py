# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""A small all-reduce over TCP for gangs that compute without PyTorch: rank 0
listens at MASTER_ADDR:MASTER_PORT, the others send it their numbers and get the
result. Meant for small models; the ranks of real ones use DDP."""

from __future__ import annotations

import hashlib
import hmac
import socket
import struct
import time
from array import array

from fairway.client import Refused, Unreachable, post
from fairway.env import Environment

_HEADER = struct.Struct("!16sI")  # key of the gang, rank
_LENGTH = struct.Struct("!I")
_LARGEST = 1 << 26  # numbers in one message


class Gang:
    """The ranks of one attempt. Every rank calls the same methods in the same
    order, with lists of the same length. It is a loop.Reducer."""

    def __init__(self, env: Environment, timeout: float = 60.0) -> None:
        self.rank, self.world = env.rank, env.world
        self._peers: list[socket.socket] = []
        if self.world == 1:
            return
        if env.master_port == 0:
            raise ValueError("MASTER_PORT is not set, and WORLD_SIZE is above 1")
        address = (env.master_addr, env.master_port)
        deadline = time.monotonic() + timeout
        self._env, self._asked = env, 0.0
        self._key = self._find_key(deadline)
        self._peers = self._listen(address, deadline) if self.rank == 0 else [self._connect(address, deadline)]
        for peer in self._peers:
            peer.settimeout(None)  # others may well be slow; if they die, the socket breaks
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _find_key(self, deadline: float) -> bytes:
        """The key of the gang: whoever does not know it is not let in. On one
        machine all ranks have the secret of the attempt. In a cluster each has a
        token of its own, and asks for a secret that they share."""
        env = self._env
        while True:
            self._asked = time.monotonic()
            try:
                secret = env.token if env.token or not (env.token_file and env.api) else shared_secret(env)
                return hashlib.sha256(f"{secret}/{env.job}/{env.attempt}".encode()).digest()[:16]
            except OSError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.5)

    def _is_key(self, key: bytes, deadline: float) -> bool:
        """Whether somebody knows the key. It may have changed since it was asked
        for: then it is asked for again, but not more than once a second."""
        if not hmac.compare_digest(key, self._key):
            self._renew_key(deadline)
        return hmac.compare_digest(key, self._key)

    def _renew_key(self, deadline: float) -> None:
        if time.monotonic() - self._asked > 1:
            self._key = self._find_key(deadline)

    def _listen(self, address: tuple[str, int], deadline: float) -> list[socket.socket]:
        """Waits for all other ranks; returns their sockets by rank."""
        found: dict[int, socket.socket] = {}
        with socket.create_server(address, reuse_port=False) as server:
            while len(found) < self.world - 1:
                server.settimeout(max(0.01, deadline - time.monotonic()))
                peer, _ = server.accept()
                peer.settimeout(5.0)
                try:
                    key, rank = _HEADER.unpack(_read(peer, _HEADER.size))
                except OSError:
                    peer.close()
                    continue
                if not self._is_key(key, deadline) or not 0 < rank < self.world or rank in found:
                    peer.close()
                    continue
                peer.sendall(self._key)
                found[rank] = peer
        return [found[rank] for rank in range(1, self.world)]

    def _connect(self, address: tuple[str, int], deadline: float) -> socket.socket:
        """Tries until rank 0 listens, and is rank 0 of this gang."""
        while True:
            try:
                peer = socket.create_connection(address, timeout=5.0)
                try:
                    peer.sendall(_HEADER.pack(self._key, self.rank))
                    if not hmac.compare_digest(_read(peer, len(self._key)), self._key):
                        raise ConnectionError(f"{address[0]}:{address[1]} belongs to another gang")
                    return peer
                except OSError:
                    peer.close()
                    self._renew_key(deadline)  # rank 0 hangs up on those who have another one
                    raise
            except OSError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.05)

    def sum(self, values: list[float]) -> list[float]:
        """The sum over all ranks, added up in the order of ranks."""
        return self._reduce(values, lambda a, b: a + b)

    def mean(self, values: list[float]) -> list[float]:
        """The mean over all ranks."""
        return [v / self.world for v in self.sum(values)]

    def max(self, values: list[float]) -> list[float]:
        """The largest of all ranks."""
        return self._reduce(values, max)

    def barrier(self) -> None:
        """Waits for all ranks."""
        self.sum([])

    def close(self) -> None:
        """Closes the connections."""
        for peer in self._peers:
            peer.close()

    def _reduce(self, values: list[float], join) -> list[float]:  # type: ignore[no-untyped-def]
        if self.world == 1:
            return list(values)
        try:
            return self._exchange(values, join)
        except OSError:
            self.close()  # nobody must wait for a rank that has given up
            raise

    def _exchange(self, values: list[float], join) -> list[float]:  # type: ignore[no-untyped-def]
        if self.rank > 0:
            _send(self._peers[0], values)
            return _receive(self._peers[0], len(values))
        result = list(values)
        for peer in self._peers:
            result = [join(a, b) for a, b in zip(result, _receive(peer, len(values)))]
        for peer in self._peers:
            _send(peer, result)
        return result


def shared_secret(env: Environment) -> str:
    """Asks for the secret of the attempt that all its ranks get."""
    try:
        secret = post(env.api, env.bearer(), {"done": 0, "ask": True}, timeout=5.0).get("gang")
    except (OSError, ValueError, Unreachable, Refused) as err:
        raise ConnectionError(f"cannot get the gang's key: {err}") from err
    if not isinstance(secret, str) or not secret:
        raise ConnectionError("cannot get the gang's key: the answer contains none")
    return secret


def _send(peer: socket.socket, values: list[float]) -> None:
    peer.sendall(_LENGTH.pack(len(values)) + array("d", values).tobytes())


def _receive(peer: socket.socket, count: int) -> list[float]:
    (sent,) = _LENGTH.unpack(_read(peer, _LENGTH.size))
    if sent != count or sent > _LARGEST:
        raise ConnectionError(f"a rank sent {sent} numbers; want {count}: the ranks have diverged")
    numbers = array("d")
    numbers.frombytes(_read(peer, 8 * count))
    return numbers.tolist()


def _read(peer: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        chunk = peer.recv(size - len(data))
        if not chunk:
            raise ConnectionError("lost the connection to a rank of the gang")
        data += chunk
    return bytes(data)
