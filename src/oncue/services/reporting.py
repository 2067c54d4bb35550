"""Collect what active attempts report (log, progress, checkpoints) and write it in batches."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable

import structlog

from oncue.clock import Clock
from oncue.context import Done, checked_checkpoint, checked_progress
from oncue.domain.errors import Conflict, StoreUnavailable
from oncue.domain.ids import WorkerId
from oncue.domain.instants import SECOND, Duration
from oncue.domain.run import Claimed
from oncue.engines.port import Engine

FLUSH_INTERVAL = Duration(SECOND)
PARTS = 1 << 16  # of one attempt's log; the next attempt's parts are numbered after them
UNWRITTEN = "\n… a part of the log or a report could not be stored\n"

log = structlog.get_logger()


class RunReports:
    """The reports of one attempt: its only way to report, wherever it runs and whichever code reports for it.

    Its first three methods may be called from any thread. Invalid: the report cannot be stored.
    """

    __slots__ = (
        "_parts",
        "_progress",
        "_refused",
        "_reporting",
        "_room",
        "_stop_requested",
        "_words",
        "noticed",
        "run",
    )

    def __init__(self, run: Claimed, reporting: Reporting) -> None:
        self.run = run
        self.noticed = False  # the task has asked whether to stop, and was told yes
        self._stop_requested = False
        self._refused = False
        self._reporting = reporting
        self._words: deque[bytes] = deque()
        self._room = reporting.cap - len(reporting.cut)  # the cap includes the note that the log was cut
        self._parts = run.token * PARTS  # of each start, also of one that returned to the queue
        self._progress: bytes | None = None

    @property
    def cancelled(self) -> bool:
        self.noticed = self._stop_requested
        return self._stop_requested

    def request_stop(self) -> None:
        self._stop_requested = True

    def write(self, text: str) -> None:
        if self._room <= 0 or not text:
            return
        said = text[: self._room + 1].encode(errors="backslashreplace").replace(b"\0", rb"\x00")
        self._room -= len(said)
        if self._room <= 0:
            said = said[: self._room or None].decode(errors="ignore").encode() + self._reporting.cut
        self._words.append(said)
        self._reporting.noted(self)

    def progress(self, stored: bytes) -> None:
        self._progress = checked_progress(stored)
        self._reporting.noted(self)

    def save(self, stored: bytes) -> Awaitable[None]:
        return self._reporting.saved(self, checked_checkpoint(stored))

    async def flush(self) -> None:
        """Write what has not been written yet. In an outage it is kept for the next time."""
        if self._words:
            words = [self._words.popleft() for _ in range(len(self._words))]
            try:
                await self._reporting.append(self.run, self._parts, b"".join(words))
            except (StoreUnavailable, asyncio.CancelledError):
                self._words.extendleft(reversed(words))
                raise
            self._parts += 1
        if self._progress is not None:
            progress, self._progress = self._progress, None
            try:
                await self._reporting.keep_progress(self.run, progress)
            except (StoreUnavailable, asyncio.CancelledError):
                self._progress = self._progress or progress
                raise

    def was_refused(self) -> None:
        """Note in the log, for its readers, that a part is missing: the store refused it, and would refuse it again.

        Once: the note may be refused, too.
        """
        if not self._refused:
            self._refused = True
            self._room = max(self._room, len(UNWRITTEN) + 1)
            self.write(UNWRITTEN)


class Reporting:
    """Writes the reports of all attempts of a worker once a second."""

    name = "reporting"

    def __init__(self, engine: Engine, clock: Clock, worker_id: WorkerId, cap: int) -> None:
        self.cap = cap
        self.cut = f"\n… the log was cut off at {cap} bytes\n".encode()
        self._engine = engine
        self._clock = clock
        self._worker_id = worker_id
        self._loop = asyncio.get_running_loop()
        self._noted: dict[RunReports, None] = {}

    def of(self, run: Claimed) -> RunReports:
        return RunReports(run, self)

    def __contains__(self, reports: RunReports) -> bool:
        """Whether some of its reports are not written yet."""
        return reports in self._noted

    def noted(self, reports: RunReports) -> None:
        self._noted[reports] = None

    async def run_once(self) -> Duration:
        for reports in list(self._noted):
            await self._flush(reports)
        return FLUSH_INTERVAL

    async def write_last(self, reports: RunReports) -> None:
        """Write the log before an attempt is settled, so that a reader who sees the end can read the log."""
        try:
            await self._flush(reports)
        except StoreUnavailable:
            log.warning("The log of a run was not stored yet", kind="run_log_delayed", run_id=str(reports.run.run_id))

    async def _flush(self, reports: RunReports) -> None:
        """Write reports. Refused ones are logged and dropped: neither their run's end nor other logs wait for them."""
        if reports not in self._noted:
            return  # another call was faster
        del self._noted[reports]
        try:
            await reports.flush()
        except (StoreUnavailable, asyncio.CancelledError):
            self._noted[reports] = None
            raise
        except Exception:
            log.exception("The log of a run was refused", kind="run_log_refused", run_id=str(reports.run.run_id))
            reports.was_refused()

    async def append(self, run: Claimed, number: int, text: bytes) -> None:
        await self._engine.history.append_log(run.run_id, number, text, self._clock.now())

    async def keep_progress(self, run: Claimed, progress: bytes) -> None:
        await self._engine.running.save(self._worker_id, run, progress=progress)

    def saved(self, reports: RunReports, stored: bytes) -> Awaitable[None]:
        """Save a checkpoint. In the loop this returns an awaitable; in a thread it is saved when this returns."""
        saving = self._save(reports, stored)
        try:
            here = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            here = False
        if here:
            return self._loop.create_task(saving)
        asyncio.run_coroutine_threadsafe(saving, self._loop).result()
        return Done()

    async def _save(self, reports: RunReports, stored: bytes) -> None:
        if not await self._engine.running.save(self._worker_id, reports.run, checkpoint=stored):
            reports.request_stop()
            raise Conflict("this run now belongs to another worker: this attempt can no longer save anything")
