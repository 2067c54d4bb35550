"""A light generator of HTTP load: requests are encoded beforehand, answers counted and hardly read.

It implements just enough HTTP/1.1 for our own API: keep-alive, Content-Length. One core of it sends some thirty
thousand requests a second, so it is not what is measured.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlsplit

from oncue.clock import Clock, SystemClock
from oncue.domain.instants import MILLISECOND, SECOND, Duration, Instant

CONNECTIONS = 64


@dataclass
class Load:
    """The answers: how many of each status, and how long each took, in milliseconds."""

    statuses: Counter[int] = field(default_factory=Counter)
    took: list[float] = field(default_factory=list)
    seconds: float = 0.0
    refusal: str = ""
    """What one of the answers said that were no success, if there are any."""

    @property
    def refused(self) -> dict[int, int]:
        """Return how many answers had each status that is no success."""
        return {status: count for status, count in self.statuses.items() if status >= 300}

    @property
    def rate(self) -> float:
        return len(self.took) / self.seconds

    def percentile(self, part: float) -> float:
        return sorted(self.took)[int(len(self.took) * part)]


def request(url: str, key: str, method: str, path: str, body: bytes = b"", idempotency_key: str = "") -> bytes:
    host = urlsplit(url).netloc
    kind = "Content-Type: application/json\r\n" if body else ""
    once = f"Idempotency-Key: {idempotency_key}\r\n" if idempotency_key else ""
    head = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {key}\r\n{kind}{once}"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def load(url: str, connections: int, requests: Callable[[], Iterator[bytes]]) -> Load:
    """Let each connection send one request after the other, from one source, until there are no more."""
    found, source, clock = Load(), requests(), SystemClock()

    def go_on(talker: _Talker) -> None:
        following = next(source, None)
        if following is None:
            talker.close()
        else:
            talker.send(following)

    talkers = await _connected(url, connections, lambda: _Talker(found, go_on, clock))
    began = clock.monotonic()
    for talker in talkers:
        go_on(talker)
    await asyncio.gather(*(talker.over for talker in talkers))
    found.seconds = (clock.monotonic() - began) / SECOND
    return found


async def paced(url: str, connections: int, requests: Iterable[tuple[Instant, bytes]], clock: Clock) -> Load:
    """Send each request at its instant; if all connections are busy, as soon as one is free.

    Sends none after a refusal.
    """
    found, free = Load(), asyncio.Queue[_Talker]()
    talkers = await _connected(url, connections, lambda: _Talker(found, free.put_nowait, clock))
    for talker in talkers:
        free.put_nowait(talker)
    began = clock.monotonic()
    try:
        for at, one in requests:
            await clock.sleep(Duration(max(0, at - clock.now())))
            (await _next(free)).send(one)
            if found.refused:
                break
        for _ in talkers:
            (await _next(free)).close()
    finally:
        for talker in talkers:
            talker.close()
    found.seconds = (clock.monotonic() - began) / SECOND
    return found


async def _connected(url: str, connections: int, make: Callable[[], _Talker]) -> list[_Talker]:
    address, loop = urlsplit(url), asyncio.get_running_loop()
    host, port = address.hostname or "", address.port or 80
    return [(await loop.create_connection(make, host, port))[1] for _ in range(connections)]


async def _next(free: asyncio.Queue[_Talker]) -> _Talker:
    talker = await free.get()
    if talker.over.done():
        talker.over.result()  # raises why it was lost
    return talker


class _Talker(asyncio.Protocol):
    """One connection with at most one request in flight; calls `answered` when there is none again, or it is lost."""

    def __init__(self, found: Load, answered: Callable[[_Talker], None], clock: Clock) -> None:
        self._found = found
        self._answered = answered
        self._clock = clock
        self._buffer = b""
        self._left = 0  # bytes of the answer still to come, once its head has arrived
        self._status = 0
        self._sent = clock.monotonic()
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def send(self, one: bytes) -> None:
        self._sent = self._clock.monotonic()
        self._transport.write(one)

    def close(self) -> None:
        if self.over.done():
            self.over.exception()  # if it was lost, no caller asks any more
        else:
            self.over.set_result(None)
        self._transport.close()

    def data_received(self, data: bytes) -> None:
        if not self._left:
            self._buffer += data
            head, found, rest = self._buffer.partition(b"\r\n\r\n")
            if not found:
                return
            self._status = int(head[9:12])
            length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
            self._left, data, self._buffer = int(length), rest, b""
        if self._status >= 300:
            self._found.refusal = data.decode(errors="replace")
        self._left -= len(data)
        if not self._left:
            self._found.took.append((self._clock.monotonic() - self._sent) / MILLISECOND)
            self._found.statuses[self._status] += 1
            self._answered(self)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.over.done():
            lost = error or ConnectionError("the server closed a connection while it owed an answer")
            self.over.set_exception(lost)
            self._answered(self)
