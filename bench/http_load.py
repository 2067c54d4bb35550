"""A light generator of HTTP load: requests written beforehand, answers counted and hardly read.

It speaks just enough HTTP/1.1 for our own API: keep-alive, Content-Length. One core of it makes some thirty thousand
requests a second, so it is not what is measured.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlsplit

CONNECTIONS = 64


@dataclass
class Load:
    """What came back: how many of each status, and how long each took, in milliseconds."""

    statuses: Counter[int] = field(default_factory=Counter)
    took: list[float] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        return len(self.took) / self.seconds

    def percentile(self, part: float) -> float:
        return sorted(self.took)[int(len(self.took) * part)]


def request(url: str, key: str, method: str, path: str, body: bytes = b"") -> bytes:
    host = urlsplit(url).netloc
    kind = "Content-Type: application/json\r\n" if body else ""
    head = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {key}\r\n{kind}"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def load(url: str, connections: int, requests: Callable[[], Iterator[bytes]]) -> Load:
    """Each connection sends one request after the other, from one source, until there are no more."""
    found, source = Load(), requests()
    address = urlsplit(url)
    loop = asyncio.get_running_loop()
    talkers = []
    for _ in range(connections):
        _, talker = await loop.create_connection(lambda: _Talker(source, found), address.hostname, address.port)
        talkers.append(talker)
    began = time.perf_counter()
    for talker in talkers:
        talker.go_on()
    await asyncio.gather(*(talker.done for talker in talkers))
    found.seconds = time.perf_counter() - began
    return found


class _Talker(asyncio.Protocol):
    """One connection with one request under way."""

    def __init__(self, source: Iterator[bytes], found: Load) -> None:
        self._source = source
        self._found = found
        self._buffer = b""
        self._left = 0  # bytes of the answer still to come, once its head is here
        self._status = 0
        self._sent = 0.0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def go_on(self) -> None:
        following = next(self._source, None)
        if following is None:
            self._transport.close()
            self.done.set_result(None)
            return
        self._sent = time.perf_counter()
        self._transport.write(following)

    def data_received(self, data: bytes) -> None:
        if not self._left:
            self._buffer += data
            head, found, rest = self._buffer.partition(b"\r\n\r\n")
            if not found:
                return
            self._status = int(head[9:12])
            length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
            self._left, data, self._buffer = int(length), rest, b""
        self._left -= len(data)
        if not self._left:
            self._found.took.append((time.perf_counter() - self._sent) * 1_000)
            self._found.statuses[self._status] += 1
            self.go_on()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(error or ConnectionError("the server closed a connection while it owed an answer"))
