"""What a bulk does with each object, once however often it is tried. Each act answers None, or why it did nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from uuid import UUID

from oncue.clock import Clock
from oncue.domain import change
from oncue.domain.change import JobChange
from oncue.domain.errors import Conflict, OncueError, StoreUnavailable
from oncue.domain.ids import JobId, RunId, UserNumber, derived_id
from oncue.domain.instants import Instant
from oncue.domain.job import JobStatus, Snapshot
from oncue.domain.rerun import again
from oncue.domain.run import NewRun, RunView, State, Status
from oncue.engines.bulk_values import Action, Bulk, Kind
from oncue.engines.hints import after_stopping
from oncue.engines.port import Engine, Hint, Topic
from oncue.log import log

TRIES = 5  # of a job that keeps changing
GONE = "not found"
CHANGING = "it kept changing; retry"
FAILED = "it could not be processed; the server's log says why"


Follow = Callable[[Bulk, RunView, RunId], Awaitable[NewRun]]


class BulkActs:
    """The acts of one pass. `hints` are to be sent after it. `follow` builds a run with a patched payload."""

    def __init__(self, engine: Engine, clock: Clock, bulk: Bulk, follow: Follow) -> None:
        self._engine = engine
        self._clock = clock
        self._bulk = bulk
        self._follow = follow
        self.hints: dict[Hint, None] = {}

    async def on(self, one: UUID) -> str | None:
        """Act on one object. StoreUnavailable: it may or may not have happened; trying again does no harm."""
        try:
            return await self._on(one)
        except StoreUnavailable:
            raise
        except OncueError as refused:
            return str(refused) or type(refused).__name__
        except Exception:
            log.exception("A bulk could not act on an object", kind="bulk_failed", object_id=str(one))
            return FAILED

    async def _on(self, one: UUID) -> str | None:
        match self._bulk.order.of, self._bulk.order.action:
            case Kind.JOBS, Action.CANCEL:
                return await self._cancel_job(JobId(one))
            case Kind.JOBS, Action.RUN:
                return await self._run_job(JobId(one))
            case Kind.JOBS, Action.PAUSE:
                return await self._change(JobId(one), _pause)
            case Kind.JOBS, _:
                return await self._change(JobId(one), self._resume)
            case _, Action.CANCEL:
                return await self._cancel_run(RunId(one))
            case _, Action.DISCARD:
                return await self._discard(RunId(one))
            case _, _:
                return await self._run_again(RunId(one))

    async def _change(self, job_id: JobId, decide: Callable[[Snapshot, Instant], JobChange | None]) -> str | None:
        for _ in range(TRIES):
            snap, now = await self._engine.jobs.read(self._bulk.sees, job_id), self._clock.now()
            if snap is None:
                return GONE
            decided = decide(snap, now)
            if decided is None or await self._engine.jobs.apply(decided, now, self._bulk.order.quota):
                self._changed(snap.job.uid, Hint(Topic.RUNS), Hint(Topic.JOBS))
                return None
        return CHANGING

    def _resume(self, snap: Snapshot, now: Instant) -> JobChange | None:
        decided = change.resume(snap, self._bulk.order.missed, now)
        return decided if snap.job.status is JobStatus.PAUSED else None

    async def _run_job(self, job_id: JobId) -> str | None:
        run_id = RunId(derived_id(self._bulk.bulk_id, job_id, self._bulk.created_at))
        try:
            return await self._change(job_id, lambda snap, now: change.run_now(snap, run_id, now))
        except Conflict:  # the run may be there, from a pass that was cut off
            if await self._engine.history.run(self._bulk.sees, run_id) is None:
                raise
            return None

    async def _cancel_job(self, job_id: JobId) -> str | None:
        snap = await self._engine.jobs.read(self._bulk.sees, job_id)
        stopped = await self._engine.jobs.cancel(self._bulk.sees, job_id, self._clock.now())
        if snap is None or stopped is None:
            return GONE
        self._changed(snap.job.uid, *after_stopping(stopped))
        return None

    async def _cancel_run(self, run_id: RunId) -> str | None:
        run = await self._engine.history.run(self._bulk.sees, run_id)
        stopped = await self._engine.running.cancel(self._bulk.sees, run_id, self._clock.now())
        if run is None or stopped is None:
            return GONE
        if stopped.final is not None and stopped.final is not State.CANCELLED:
            return f"it has ended: {Status[stopped.final.name]}"
        self._changed(run.uid, *after_stopping(stopped), jobs=False)
        return None

    async def _discard(self, run_id: RunId) -> str | None:
        """A letter that is gone is what was asked for."""
        run = await self._engine.history.run(self._bulk.sees, run_id)
        if run is None:
            return GONE
        await self._engine.history.discard(self._bulk.sees, [run_id])
        self._changed(run.uid, jobs=False)
        return None

    async def _run_again(self, run_id: RunId) -> str | None:
        run, now = await self._engine.history.run(self._bulk.sees, run_id), self._clock.now()
        if run is None:
            return GONE
        if not run.state.final or run.ended_at is None:
            return "it is still active"
        if run.state is not State.DEAD and self._bulk.order.of is Kind.LETTERS:
            return "it is not a dead letter"
        new_id, letters = RunId(derived_id(self._bulk.bulk_id, run_id, run.ended_at)), self._bulk.order.letters
        if letters is None or letters.patch is None:
            new = again(run, new_id, now)
        elif await self._is_there(new_id):
            return None  # from a pass that was cut off; by now the patch may be refused
        else:
            new = await self._follow(self._bulk, run, new_id)
        quota = self._bulk.order.quota
        if run.state is not State.DEAD:
            await self._engine.history.rerun([new], now, quota)
        elif not await self._engine.history.requeue([new], now, quota) and not await self._is_there(new.run_id):
            return "it was run again or discarded before"
        self._changed(run.uid, Hint(Topic.RUNS), jobs=False)
        return None

    async def _is_there(self, run_id: RunId) -> bool:
        return await self._engine.history.run(self._bulk.sees, run_id) is not None

    def _changed(self, uid: UserNumber, *hints: Hint, jobs: bool = True) -> None:
        told = Hint(Topic.CHANGED, target=f"{uid} jobs" if jobs else str(uid))
        self.hints |= dict.fromkeys((*hints, told))


def _pause(snap: Snapshot, now: Instant) -> JobChange | None:
    return None if snap.job.status is JobStatus.PAUSED else change.pause(snap, now)
