"""Group commit: jobs that are created at the same time are stored together in one commit."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TypeAlias

from oncue.api.http.store_watchdog import StoreWatchdog, WatchedCall
from oncue.clock import Clock
from oncue.engines.port import Creation, Engine, NewJob
from oncue.engines.refusals import Refusal, apart
from oncue.metrics.numbers import SILENT, Numbers
from oncue.metrics.table import COMMIT_JOBS

MAX_GROUP = 500  # jobs in one commit

Waiting: TypeAlias = tuple[NewJob, asyncio.Future[Creation]]


class GroupCommit:
    """Collects creates that arrive during a commit for the next commit. A create waits for others only as long as it
    takes to look for requests that have arrived and are not read yet.
    """

    def __init__(self, engine: Engine, clock: Clock, watchdog: StoreWatchdog, numbers: Numbers = SILENT) -> None:
        self._engine = engine
        self._numbers = numbers
        self._watchdog = watchdog
        self._clock = clock
        self._waiting: list[Waiting] = []
        self._since = clock.monotonic()  # when the first of these came
        self._committing: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None  # cached: asking for it takes a system call

    async def store(self, new: NewJob) -> Creation:
        """Store one job and return its answer. StoreUnavailable: it may or may not have been stored."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        answer: asyncio.Future[Creation] = self._loop.create_future()
        if not self._waiting:
            self._since = self._clock.monotonic()
        self._waiting.append((new, answer))
        if self._committing is None:
            self._committing = asyncio.create_task(self._commit())
        return await answer

    async def _commit(self) -> None:
        try:
            while self._waiting:
                await self._gather()
                batch, self._waiting = self._waiting[:MAX_GROUP], self._waiting[MAX_GROUP:]
                batch = [waiting for waiting in batch if not waiting[1].done()]  # not for callers who have given up
                if batch:
                    self._numbers.observe(COMMIT_JOBS, value=len(batch))
                    await self._store(batch, self._clock.monotonic() - self._since)
        finally:
            self._committing = None

    async def _gather(self) -> None:
        """Yield to the event loop as long as each turn brings another create."""
        before = 0
        while before < len(self._waiting) < MAX_GROUP:
            before = len(self._waiting)
            await asyncio.sleep(0)

    async def _store(self, batch: list[Waiting], waited: int) -> None:
        """Store a batch of which the first has `waited`. An outage fails all creates, a refusal only its own."""
        try:
            self._watchdog.refuse_stalled()
            with WatchedCall(self._watchdog, self._watchdog.patience(waited), changes=True):
                async for some, created in apart(batch, self._create):
                    _answer(some, created)
        except BaseException as error:
            for _, answer in batch:
                if not answer.done():
                    answer.set_exception(error)
            if not isinstance(error, Exception):
                raise

    async def _create(self, some: Sequence[Waiting]) -> list[Creation]:
        return await self._engine.jobs.create([new for new, _ in some], self._clock.now())


def _answer(some: Sequence[Waiting], created: list[Creation] | Refusal) -> None:
    if isinstance(created, Refusal):
        [(_, answer)] = some
        if not answer.done():
            answer.set_exception(created.why)
        return
    for (_, answer), creation in zip(some, created, strict=True):
        if not answer.done():
            answer.set_result(creation)
