"""A bad network between oncue and its database: slow, cut, silent, or dead at one end only."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count

CHUNK = 65_536
RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER: unsent bytes are dropped, and the peer is told by a reset


class StoreProxy:
    """Passes on every connection to a server. `delay`, `open`, `answering`, `resets`: how badly, for all at once."""

    def __init__(self, port: int, seed: int = 7) -> None:
        self.delay = 0.0  # seconds that are added to each round trip
        self.resets = 0.0  # how likely a request is the last of its connection
        self.open = asyncio.Event()  # not set: a black hole. What is sent meanwhile arrives when it is set again
        self.open.set()
        self.answering = asyncio.Event()  # not set: requests arrive, and their answers only when it is set again
        self.answering.set()
        self.were_reset = 0
        self.came_late = 0  # requests that reached the server after their sender had hung up
        self._port = port
        self._chance = random.Random(seed)
        self._links: set[Link] = set()
        self._serving: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[int]:
        """Yield the port to connect to, in this block."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=256)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
            for task in self._serving:
                task.cancel()
            await asyncio.gather(*self._serving, return_exceptions=True)

    def leave_half_open(self) -> int:
        """End every connection at the server, without a word to the client: as a firewall does that forgets them."""
        links = [link for link in self._links if not link.half_open]
        for link in links:
            link.half_open = True
            link.server.transport.abort()
        return len(links)

    def cut(self) -> None:
        """End every connection on both sides. Answers that were held back never arrive."""
        for link in self._links:
            link.server.transport.abort()
            link.client.transport.abort()

    def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._pass_on(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._after_delay()
            answers, server = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            writer.transport.abort()
            return
        link = Link(writer, server)
        self._links.add(link)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._requests(reader, link))
                both.create_task(self._answers(answers, link))
        finally:
            self._links.discard(link)
            writer.transport.abort()
            server.transport.abort()

    async def _after_delay(self) -> None:
        await asyncio.sleep(self.delay)
        await self.open.wait()

    async def _requests(self, reader: asyncio.StreamReader, link: Link) -> None:
        for request in count():
            some = await _read(reader)
            await self.open.wait()
            if request and self._chance.random() < self.resets:  # never the first: it opens the connection
                self._reset(link, some)
                return
            if not some:
                link.server.close()
                return
            if not (link.half_open or link.server.is_closing()):
                self.came_late += reader.at_eof()
                link.server.write(some)

    def _reset(self, link: Link, request: bytes) -> None:
        """Every other time the server gets the request, and only its answer is lost."""
        self.were_reset += 1
        if self.were_reset % 2:
            link.server.write(request)
            link.server.close()
        else:
            link.server.transport.abort()
        with suppress(OSError):  # it has just been closed
            link.client.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        link.client.transport.abort()

    async def _answers(self, answers: asyncio.StreamReader, link: Link) -> None:
        """Read on while answers are on their way: a delay is added to each, not to one after the other."""
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        now = asyncio.get_running_loop().time
        delivering = asyncio.create_task(self._deliver(under_way, link, now))
        try:
            while some := await _read(answers):
                under_way.put_nowait((now() + self.delay, some))
            under_way.put_nowait((now() + self.delay, b""))
            await delivering
        finally:
            delivering.cancel()

    async def _deliver(
        self, under_way: asyncio.Queue[tuple[float, bytes]], link: Link, now: Callable[[], float]
    ) -> None:
        while True:
            at, some = await under_way.get()
            await asyncio.sleep(at - now())
            await self.open.wait()
            await self.answering.wait()
            if link.half_open or link.client.is_closing():
                return
            if not some:
                link.client.close()
                return
            link.client.write(some)


class Link:
    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.client = client
        self.server = server
        self.half_open = False


async def _read(reader: asyncio.StreamReader) -> bytes:
    with suppress(ConnectionError):
        return await reader.read(CHUNK)
    return b""
