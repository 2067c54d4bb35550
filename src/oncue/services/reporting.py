"""Collect what active attempts report (log, progress, checkpoints) and write it in batches."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from threading import Lock
from uuid import UUID

from oncue.clock import Clock, happens_within
from oncue.context import Created, Done, checked_checkpoint, checked_progress
from oncue.domain.errors import Conflict, OncueError, StorageUnavailable, StoreUnavailable
from oncue.domain.ids import WorkerId
from oncue.domain.instants import SECOND, Duration
from oncue.domain.run import Claimed
from oncue.engines.port import Engine
from oncue.log import log
from oncue.metrics.numbers import SILENT, Numbers
from oncue.metrics.table import RUN_LOG_BYTES, RUN_LOG_CUT
from oncue.services.run_log import MOST_HELD, RunLog
from oncue.services.submitting import Submitting
from oncue.services.task_output import TaskOutput
from oncue.storage.port import Storage

FLUSH_INTERVAL = Duration(SECOND)
IDLE = Duration(5 * SECOND)  # without an active attempt
PATIENCE = Duration(5 * SECOND)  # that the end of an attempt waits for object storage to take its log
UNWRITTEN = "\n… a part of the log or a report could not be stored\n"


class RunReports:
    """The reports of one attempt: its only way to report, wherever it runs and whichever code reports for it.

    Its first three methods may be called from any thread. Invalid: the report cannot be stored.
    """

    __slots__ = (
        "_flushing",
        "_log",
        "_progress",
        "_refused",
        "_reporting",
        "_shown",
        "_stop_requested",
        "ended",
        "noticed",
        "run",
    )

    def __init__(self, run: Claimed, reporting: Reporting) -> None:
        self.run = run
        self.noticed = False  # the task has asked whether to stop, and was told yes
        self.ended = False  # the attempt writes no more
        self._stop_requested = False
        self._refused = False
        self._reporting = reporting
        self._shown = reporting.output.of(run) if reporting.output else None
        self._log: RunLog | None = None  # made when the first text comes: most attempts write none
        self._flushing: asyncio.Lock | None = None
        self._progress: bytes | None = None

    @property
    def cancelled(self) -> bool:
        self.noticed = self._stop_requested
        return self._stop_requested

    def request_stop(self) -> None:
        self._stop_requested = True

    def write(self, text: str) -> None:
        if not text:
            return
        if self._log is None:
            self._log = RunLog(self.run, self._reporting)
        self._log.write(text.encode(errors="backslashreplace").replace(b"\0", rb"\x00"))
        self._reporting.noted(self)
        if self._shown is not None:
            self._shown.write(text)

    def wrote_all(self) -> None:
        """Show the end of what the attempt wrote: nothing else comes from it."""
        if self._shown is not None:
            self._shown.end()

    def progress(self, stored: bytes) -> None:
        self._progress = checked_progress(stored)
        self._reporting.noted(self)

    def save(self, stored: bytes) -> Awaitable[None]:
        return self._reporting.saved(self, checked_checkpoint(stored))

    def submit(self, asked: bytes) -> Awaitable[tuple[UUID, ...]]:
        return self._reporting.submitted(self, asked)

    @property
    def in_storage(self) -> bool:
        """Whether its log goes to object storage by now."""
        return self._log is not None and not self._log.inline

    @property
    def busy(self) -> bool:
        return self._flushing is not None and self._flushing.locked()

    async def flush(self) -> bool:
        """Write what has not been written yet. In an outage it is kept for the next time. False: some of it waits."""
        if self._flushing is None:
            self._flushing = asyncio.Lock()
        async with self._flushing:  # one at a time: each part has the next number
            done = self._log is None or await self._log.store(last=self.ended)
            if self._progress is not None:
                progress, self._progress = self._progress, None
                try:
                    await self._reporting.keep_progress(self.run, progress)
                except (StoreUnavailable, asyncio.CancelledError):
                    self._progress = self._progress or progress
                    raise
            return done

    async def delay(self) -> None:
        """Tell readers of the log that its rest will be stored later. The next flush tells them when it is."""
        if self._log is not None:
            self._reporting.noted(self)
            await self._log.delay()

    def was_refused(self) -> None:
        """Note in the log, for its readers, that a part is missing: the store refused it, and would refuse it again.

        Once: the note may be refused, too.
        """
        if self._log is not None:
            self._log.drop()
            if self._log.delayed:
                self._reporting.noted(self)  # readers must learn that they need not wait any longer
        if not self._refused:
            self._refused = True
            self.write(UNWRITTEN)


class Reporting:
    """Writes the reports of all attempts of a worker once a second."""

    name = "reporting"

    def __init__(
        self,
        engine: Engine,
        storage: Storage,
        clock: Clock,
        worker_id: WorkerId,
        cap: int,
        numbers: Numbers = SILENT,
        submitting: Submitting | None = None,
        output: TaskOutput | None = None,
    ) -> None:
        self.engine = engine
        self.storage = storage
        self.clock = clock
        self.cap = cap
        self._held = 0  # bytes of logs that are not stored yet
        self._counting = Lock()  # threads write, too
        self._numbers = numbers
        self.worker_id = worker_id
        self.submitting = submitting
        self.output = output
        self._loop = asyncio.get_running_loop()
        self._noted: dict[RunReports, None] = {}
        self._later: set[asyncio.Task[None]] = set()
        self.active: Callable[[], int] = lambda: 1  # how many attempts there are

    def of(self, run: Claimed) -> RunReports:
        return RunReports(run, self)

    def __contains__(self, reports: RunReports) -> bool:
        """Whether some of its reports are not written yet, or are being written at this moment."""
        return reports in self._noted or reports.busy

    @property
    def storing(self) -> bool:
        """Whether logs of ended attempts are still on their way to object storage."""
        return bool(self._later) or any(reports.ended and reports.in_storage for reports in self._noted)

    def noted(self, reports: RunReports) -> None:
        self._noted[reports] = None

    async def run_once(self) -> Duration:
        """Write what was noted. Logs that go to object storage are written beside, which may take long."""
        for reports in list(self._noted):
            if not reports.in_storage:
                await self._flush(reports)
            elif not reports.busy:
                self._beside(reports)
        if self.output is not None:
            self.output.tell_cut()
        return FLUSH_INTERVAL if self._noted or self.active() else IDLE

    def _beside(self, reports: RunReports) -> asyncio.Task[None]:
        task = self._loop.create_task(self._flush_safely(reports))
        self._later.add(task)
        task.add_done_callback(self._later.discard)
        return task

    async def _flush_safely(self, reports: RunReports) -> None:
        with suppress(StoreUnavailable):
            await self._flush(reports)

    async def write_last(self, reports: RunReports) -> None:
        """Write the log before an attempt is settled, so that a reader who sees the end can read the log.

        While storage is slow or unavailable, the end does not wait for long: the rest of the log follows, and readers
        are told that it will.
        """
        reports.ended = True
        try:
            if not reports.in_storage:
                await self._flush(reports)
            if reports.in_storage and reports in self:
                task, over = self._beside(reports), asyncio.Event()
                task.add_done_callback(lambda _: over.set())
                await happens_within(self.clock, over, PATIENCE)
            if reports.in_storage and reports in self:
                await reports.delay()
        except StoreUnavailable:
            log.warning("The log of a run was not stored yet", kind="run_log_delayed", run_id=str(reports.run.run_id))

    async def _flush(self, reports: RunReports) -> None:
        """Write reports. Refused ones are logged and dropped: neither their run's end nor other logs wait for them."""
        if reports not in self._noted and not reports.ended:
            return  # another call was faster
        self._noted.pop(reports, None)
        try:
            if not await reports.flush():
                self._noted[reports] = None
        except (StoreUnavailable, asyncio.CancelledError):
            self._noted[reports] = None
            raise
        except StorageUnavailable as away:
            self._noted[reports] = None
            if self.crowded and reports.ended:
                log.error("A part of a log is lost", kind="run_log_lost", run_id=str(reports.run.run_id), why=str(away))
                reports.was_refused()
        except Exception:
            log.exception("The log of a run was refused", kind="run_log_refused", run_id=str(reports.run.run_id))
            reports.was_refused()

    @property
    def crowded(self) -> bool:
        return self._held > MOST_HELD

    def taken(self, text: int) -> None:
        with self._counting:
            self._held += text

    def dropped(self, text: int) -> None:
        with self._counting:
            self._held -= text

    def stored(self, text: int) -> None:
        self.dropped(text)
        self._numbers.add(RUN_LOG_BYTES, n=text)

    def was_cut(self) -> None:
        self._numbers.add(RUN_LOG_CUT)

    async def keep_progress(self, run: Claimed, progress: bytes) -> None:
        await self.engine.running.save(self.worker_id, run, progress=progress)

    def saved(self, reports: RunReports, stored: bytes) -> Awaitable[None]:
        """Save a checkpoint. In the loop this returns an awaitable; in a thread it is saved when this returns."""
        saving = self._save(reports, stored)
        if self._here():
            return self._loop.create_task(saving)
        asyncio.run_coroutine_threadsafe(saving, self._loop).result()
        return Done()

    def submitted(self, reports: RunReports, asked: bytes) -> Awaitable[tuple[UUID, ...]]:
        """Create jobs. In the loop this returns an awaitable; in a thread they are created when this returns."""
        if self.submitting is None:
            raise OncueError("this worker creates no jobs; use a client")
        creating = self.submitting.submit(reports.run, asked)
        if self._here():
            return self._loop.create_task(creating)
        return Created(asyncio.run_coroutine_threadsafe(creating, self._loop).result())

    def _here(self) -> bool:
        """Whether this is the worker's loop."""
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    async def _save(self, reports: RunReports, stored: bytes) -> None:
        if not await self.engine.running.save(self.worker_id, reports.run, checkpoint=stored):
            reports.request_stop()
            raise Conflict("this run now belongs to another worker: this attempt can no longer save anything")
