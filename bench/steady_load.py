"""Load that goes on whatever the API answers: creates that are repeated until they are acknowledged, and schedules."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from oncue.clock import Clock
from oncue.domain.instants import SECOND, Instant, rfc3339
from oncue_bench.http_load import request

LONG_EVERY, LONG = 5, 1.5  # one in five takes so many seconds
ALL_OF_THEM = {"overlap": "allow", "catch_up": "all"}
REPEAT_AFTER = 0.5  # seconds
MOST_OPEN = 200  # creates that are not acknowledged yet; then none is sent
PATIENCE = 30.0  # seconds for one answer


@dataclass(frozen=True)
class Answer:
    at: float
    seconds: float
    status: int  # 0: none


class SteadyLoad:
    """`rate` runs a second: half of them are created, half are due by schedules."""

    def __init__(self, address: str, key: str, clock: Clock, rate: int) -> None:
        self.created: dict[str, float] = {}  # acknowledged: the job, and when
        self.jobs: list[str] = []  # the recurring ones
        self.ends_at = 0.0  # of the schedules
        self._answers: list[Answer] = []
        self._address = address
        self._key = key
        self._clock = clock
        self._half = max(1, rate // 2)

    def now(self) -> float:
        return self._clock.now() / SECOND

    def answered(self, since: float, until: float) -> list[Answer]:
        """Answers to what was sent in between."""
        return [one for one in self._answers if since <= one.at < until]

    async def recurring(self, seconds: float) -> None:
        """Create the jobs that are due every second for so long, evenly spread over it."""
        start = int(self.now()) + 3
        self.ends_at = start + seconds
        for number in range(self._half):
            first, end = (
                rfc3339(Instant(round(at * SECOND))) for at in (start + number / self._half, self.ends_at + 0.5)
            )
            schedule = {"every": "1s", "start_at": first, "end_at": end}
            answer = await self.acknowledged(
                "POST", "/v1/jobs", {"task": "witness", "schedule": schedule, **ALL_OF_THEM}
            )
            self.jobs.append(answer["job_id"])

    @asynccontextmanager
    async def going(self) -> AsyncIterator[None]:
        """Create in this block; when it ends, every create is acknowledged, and the schedules have ended."""
        creating: set[asyncio.Task[None]] = set()
        sending = asyncio.create_task(self._send(creating))
        try:
            yield
        finally:
            sending.cancel()
        async with asyncio.timeout(2 * PATIENCE):
            await asyncio.gather(*creating)
        await asyncio.sleep(self.ends_at - self.now())

    async def _send(self, creating: set[asyncio.Task[None]]) -> None:
        began = self._clock.monotonic()
        for number in count():
            await asyncio.sleep(max(0.0, number / self._half - (self._clock.monotonic() - began) / SECOND))
            if len(creating) >= MOST_OPEN:
                continue
            task = asyncio.create_task(self.create(LONG if number % LONG_EVERY == 0 else 0.0))
            creating.add(task)
            task.add_done_callback(creating.discard)

    async def create(self, seconds: float = 0.0) -> None:
        """Create a run that takes so long."""
        job = {"task": "witness", "payload": {"seconds": seconds}}
        answer = await self.acknowledged("POST", "/v1/jobs", job, str(uuid4()))
        self.created[answer["job_id"]] = self.now()

    async def acknowledged(self, method: str, path: str, body: object = None, idempotency_key: str = "") -> Any:
        """Repeat it until it is."""
        while True:
            at, sent = self.now(), self._clock.monotonic()
            status, answer = await self.ask(method, path, body, idempotency_key)
            self._answers.append(Answer(at, (self._clock.monotonic() - sent) / SECOND, status))
            if 200 <= status < 300:
                return answer
            assert status in (0, 429, 503), (method, path, status, answer)
            await asyncio.sleep(REPEAT_AFTER)

    async def ask(self, method: str, path: str, body: object = None, idempotency_key: str = "") -> tuple[int, Any]:
        """Return the status, 0 without an answer, and what it says."""
        encoded = b"" if body is None else json.dumps(body).encode()
        address = urlsplit(self._address)
        try:
            async with asyncio.timeout(PATIENCE):
                reader, writer = await asyncio.open_connection(address.hostname, address.port)
                try:
                    writer.write(request(self._address, self._key, method, path, encoded, idempotency_key))
                    head = (await reader.readuntil(b"\r\n\r\n")).lower()
                    length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
                    said = await reader.readexactly(length)
                finally:
                    writer.close()
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            return 0, None
        return int(head[9:12]), json.loads(said or b"null")


def percentile(values: Sequence[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]
