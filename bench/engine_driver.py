"""Drives an engine through its port as a worker would, and keeps the time."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable

from oncue.clock import SystemClock
from oncue.domain import attempt
from oncue.domain.change import only_run
from oncue.domain.ids import ClassId, JobId, UserNumber, WorkerId, uuid7
from oncue.domain.instants import DAY, SECOND, Duration, Instant
from oncue.domain.job import Job, Spec
from oncue.domain.run import Claimed, Peeked
from oncue.domain.schedule import Schedule
from oncue.engines.port import Engine, JobQuery, NewJob, Worker

BATCH = 1_000
PAGE = 100


class Driver:
    def __init__(self, engine: Engine, uid: UserNumber, class_id: ClassId, worker_id: WorkerId, now: Instant) -> None:
        self.engine = engine
        self.uid = uid
        self.class_id = class_id
        self.worker_id = worker_id
        self.claim_ms = 0.0
        self._clock = SystemClock()
        self._seen = Instant(now - DAY)  # everything due before has been claimed: where the next peek begins

    @classmethod
    async def on(cls, engine: Engine) -> Driver:
        now = await engine.now()
        await engine.maintenance.maintain(now, Duration(30 * DAY))
        uid = await engine.accounts.user("bench", now)
        [class_id] = await engine.jobs.intern([Spec(task="noop").class_key])
        worker_id = WorkerId(uuid7(now, secrets.token_bytes(8)))
        await engine.fleet.register(Worker(worker_id, "bench", "here", Duration(DAY), now, now), now)
        return cls(engine, uid, class_id, worker_id, now)

    def now(self) -> Instant:
        return self._clock.now()

    async def create_rate(self, n: int) -> float:
        began = time.perf_counter()
        await self.create(n)
        return n / (time.perf_counter() - began)

    async def create(self, n: int) -> None:
        """One-shots that are due, a microsecond apart."""
        now = self.now()
        for start in range(0, n, BATCH):
            await self.engine.jobs.create(
                [self._one_shot(Instant(now - n + start + i), now) for i in range(BATCH)], now
            )

    def _one_shot(self, due: Instant, now: Instant) -> NewJob:
        spec = Spec(task="noop", schedule=Schedule(at=due))
        job = Job(JobId(uuid7(due, secrets.token_bytes(8))), self.uid, spec, b"{}", now, now)
        return NewJob(job, self.class_id, run=only_run(job, self.class_id, now))

    async def filled(self, n: int, drain: Callable[[], Awaitable[int]]) -> float:
        """The rate of draining n due one-shots."""
        await self.create(n)
        began = time.perf_counter()
        done = await drain()
        assert done == n, f"{done} of {n} were run"
        return n / (time.perf_counter() - began)

    async def drain(self) -> int:
        """Peek, claim, settle, one after the other, until nothing is due."""
        done, claiming = 0, 0.0
        while peeked := await self._peek(BATCH):
            began = time.perf_counter()
            claimed = await self._claim(peeked)
            claiming += time.perf_counter() - began
            await self._settle(claimed)
            done += len(claimed)
        self.claim_ms = claiming / max(done, 1) * BATCH * 1000
        return done

    async def drain_piped(self) -> int:
        """Settle one batch while the next is claimed, as a worker does."""
        done = 0
        claimed: list[Claimed] = []
        heap: list[Peeked] = []
        while True:
            heap = heap or await self._peek(5 * BATCH)
            if not heap and not claimed:
                return done
            next_batch, heap = heap[:BATCH], heap[BATCH:]
            claimed, _ = await asyncio.gather(self._claim(next_batch), self._settle(claimed))
            done += len(claimed)

    async def _peek(self, limit: int) -> list[Peeked]:
        peeked = await self.engine.running.peek([self.class_id], self._seen, self.now(), limit)
        if peeked:
            self._seen = peeked[-1].due
        return peeked

    async def _claim(self, peeked: list[Peeked]) -> list[Claimed]:
        if not peeked:
            return []
        return await self.engine.running.claim(self.worker_id, [run.run_id for run in peeked], self.now())

    async def _settle(self, claimed: list[Claimed]) -> None:
        if claimed:
            now = self.now()
            await self.engine.running.settle(
                self.worker_id, [attempt.succeeded(run, now, now, None) for run in claimed], now
            )

    async def page_ms(self, deep: int) -> tuple[float, float]:
        """How long one page of the job list takes at its beginning, and `deep` jobs further on."""
        first = await self._pages(None, 50)
        mark = None
        for _ in range(deep // 1_000 - 10):  # not over the end of the list
            page = await self.engine.lists.jobs(JobQuery(uid=self.uid, limit=1_000, after=mark))
            mark = page.next or mark
        return first, await self._pages(mark, 50)

    async def _pages(self, mark: str | None, n: int) -> float:
        began = time.perf_counter()
        for _ in range(n):
            page = await self.engine.lists.jobs(JobQuery(uid=self.uid, limit=PAGE, after=mark))
            assert len(page.items) == PAGE
            mark = page.next
        return (time.perf_counter() - began) / n * SECOND / 1_000
