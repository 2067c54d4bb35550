"""Reading `GET /v1/events` as it comes: the application is called without a server, so that a reader can be slow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from tests.api.conftest import Desk

PATIENCE = 60  # seconds before an event counts as lost; it takes a quarter of one


class Event(msgspec.Struct, frozen=True):
    kind: str
    id: str
    data: Any


class Stream:
    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.first_id = ""
        self.reading = asyncio.Event()  # cleared: the reader takes nothing more
        self.reading.set()
        self.ended = asyncio.Event()
        self._parts: asyncio.Queue[bytes] = asyncio.Queue()
        self._events: list[Event] = []
        self._text = b""

    async def send(self, message: Any) -> None:
        await self.reading.wait()
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], dict(message["headers"])
        else:
            self._parts.put_nowait(message.get("body", b""))

    async def part(self) -> bytes:
        """The next block, an event or a comment."""
        async with asyncio.timeout(PATIENCE):
            while b"\n\n" not in self._text:
                self._text += await self._parts.get()
        found, _, self._text = self._text.partition(b"\n\n")
        return found

    async def next(self, kind: str | None = None) -> Event:
        """The next event, or the next one of a kind."""
        while True:
            fields = dict(line.split(": ", 1) for line in (await self.part()).decode().splitlines())
            if "data" in fields and kind in (None, fields["event"]):
                return Event(fields["event"], fields.get("id", ""), msgspec.json.decode(fields["data"]))

    async def end(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self.ended.wait()


@asynccontextmanager
async def streaming(
    desk: Desk, key: str = "ada", last: str | None = None, cookie: str | None = None, query: str = ""
) -> AsyncIterator[Stream]:
    """A stream that has begun: what changes from here on is in it."""
    headers = [(b"authorization", f"Bearer {desk.keys[key]}".encode())]
    if cookie is not None:
        headers = [(b"cookie", cookie.encode())]
    if last is not None:
        headers.append((b"last-event-id", last.encode()))
    stream, gone = Stream(), asyncio.Event()

    async def receive() -> Any:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def serve() -> None:
        asked = {"path": "/v1/events", "query_string": query.encode()}
        scope = {"type": "http", "method": "GET", "headers": headers, **asked}
        try:
            await desk.app(scope | {"http_version": "1.1", "scheme": "http"}, receive, stream.send)
        finally:
            stream.ended.set()

    serving = asyncio.create_task(serve())
    try:
        first = await stream.part()
        if first.startswith(b"id: "):
            stream.first_id = first[4:].decode()
        else:
            stream._text = first + b"\n\n" + stream._text
        yield stream
    finally:
        gone.set()
        stream.reading.set()
        await serving
