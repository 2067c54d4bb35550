"""Creates at a steady rate, over kept connections, through a balancer in front of several APIs.

The balancer does what every balancer does and no more: a new connection goes to the next API that accepts it. What was
sent is never sent again, so what an API leaves unanswered is the client's to repeat, which it does once.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import count
from uuid import uuid4

from tests.processes.fleet import Fleet, Json, until

CALLERS = 64  # connections at most; one request at a time on each
REQUESTS_EACH = 40  # then a caller connects anew, so that an API that is back gets its share
ANSWER_WITHIN = 20.0
GONE = (ConnectionError, asyncio.IncompleteReadError, TimeoutError)


class Balancer:
    """Takes turns among the ports; one that refuses the connection is passed over."""

    def __init__(self, ports: list[int]) -> None:
        self._ports = ports
        self._turns = count()
        self._serving: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[int]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=1_024)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
            await asyncio.gather(*self._serving)  # each ends with its caller, and all callers have left

    def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._forward(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        turn = next(self._turns) % len(self._ports)
        for port in self._ports[turn:] + self._ports[:turn]:
            try:
                answers, requests = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionRefusedError:
                continue
            await asyncio.gather(_copy(reader, requests), _copy(answers, writer))
            break
        await hang_up(writer)


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """Whichever side ends, the other is ended."""
    with suppress(ConnectionError):
        while some := await source.read(65_536):
            target.write(some)
            await target.drain()
    await hang_up(target)


async def hang_up(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


class Caller:
    """A client with one kept connection."""

    def __init__(self, port: int, key: str) -> None:
        self._port = port
        self._head = f"POST /v1/jobs HTTP/1.1\r\nHost: oncue\r\nAuthorization: Bearer {key}\r\n"
        self._connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._left = 0

    async def post(self, body: bytes, idempotency_key: str) -> tuple[int, Json]:
        if self._connection is not None and self._connection[0].at_eof():
            await self.close()  # as every client does: the server has ended it between two requests
        if self._connection is None:
            self._connection = await asyncio.open_connection("127.0.0.1", self._port)
            self._left = REQUESTS_EACH
        reader, writer = self._connection
        self._left -= 1
        writer.write(
            f"{self._head}Idempotency-Key: {idempotency_key}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
        answer = await reader.readexactly(int(length))
        if not self._left or b"connection: close" in head:
            await self.close()
        return int(head[9:12]), json.loads(answer)

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await hang_up(connection[1])


class Traffic:
    """One create after the other is due, `rate` a second; each with a key, so that repeating it makes nothing twice."""

    def __init__(self, fleets: list[Fleet], rate: float) -> None:
        self.made: list[str] = []  # acknowledged
        self.retried: list[str] = []  # why the first request was not answered, or not well
        self.failed: list[str] = []  # nor the second
        self.slowest = 0.0
        self.seconds = 0.0
        self._ports = [fleet.port for fleet in fleets]
        self._key = fleets[0].key
        self._rate = rate
        self._numbers = count()
        self._enough = threading.Event()

    @contextmanager
    def going(self) -> Iterator[Traffic]:
        with ThreadPoolExecutor(1) as thread:
            flow = thread.submit(asyncio.run, self._flow())
            try:
                yield self
            finally:
                self._enough.set()
                flow.result()

    def goes_on(self, fleet: Fleet, jobs: int = 20) -> None:
        """So many that are acknowledged from now on have started."""
        first = len(self.made)
        until(lambda: len(self.made) >= first + jobs, "jobs are accepted", fleet.tell)
        fleet.started(*self.made[first : first + jobs])

    async def _flow(self) -> None:
        began = time.monotonic()
        async with Balancer(self._ports).listening() as port:
            await asyncio.gather(*(self._call(Caller(port, self._key), began) for _ in range(CALLERS)))
        self.seconds = time.monotonic() - began

    async def _call(self, caller: Caller, began: float) -> None:
        while not self._enough.is_set():
            number = next(self._numbers)
            await asyncio.sleep(began + number / self._rate - time.monotonic())
            seconds = 0.3 if number % 10 == 0 else 0.0
            body = json.dumps({"task": "slow", "payload": {"seconds": seconds}}).encode()
            await self._create(caller, body)
        await caller.close()

    async def _create(self, caller: Caller, body: bytes) -> None:
        key, asked = str(uuid4()), time.monotonic()
        for refusals in (self.retried, self.failed):
            try:
                status, answer = await asyncio.wait_for(caller.post(body, key), ANSWER_WITHIN)
            except GONE as gone:
                await caller.close()
                refusals.append(repr(gone))
                continue
            if status in (201, 202):
                self.made.append(answer["job_id"])
                break
            refusals.append(f"{status} {answer}")
        self.slowest = max(self.slowest, time.monotonic() - asked)
