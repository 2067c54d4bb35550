"""Declare workers without a heartbeat dead and settle their runs: no run stays running for ever."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from oncue.clock import Clock
from oncue.domain import attempt
from oncue.domain.ids import RunId, WorkerId
from oncue.domain.instants import SECOND, Duration, Instant
from oncue.domain.notices import PER_MINUTE
from oncue.domain.run import Claimed, Settlement, State
from oncue.engines.known_defaults import KnownDefaults
from oncue.engines.port import Engine, Hint, Topic, Worker
from oncue.log import log
from oncue.metrics.numbers import SILENT, Numbers
from oncue.metrics.table import REAPED_RUNS, REAPED_WORKERS
from oncue.services.outcome_lines import OutcomeLines
from oncue.services.supervisor import BEATS

BATCH = 500  # runs in one pass
CHECK_INTERVAL = Duration(SECOND)
WATCH_FOR = 2  # heartbeat periods, at least, whatever the store's clock says about a worker not seen before


class Watched(msgspec.Struct, frozen=True):
    """A worker's last heartbeat as we saw it, and since when by the monotonic clock there was no other."""

    beat_at: Instant
    since: Instant


class Reaper:
    """Judges each worker by its own lease and our monotonic clock: no step of the store's clock can make a live worker
    dead, nor keep a dead one alive.
    """

    name = "reaper"

    def __init__(
        self, engine: Engine, clock: Clock, numbers: Numbers = SILENT, defaults: KnownDefaults | None = None
    ) -> None:
        self._engine = engine
        self._defaults = defaults or KnownDefaults(engine.notices, clock, PER_MINUTE)
        self._numbers = numbers
        self._clock = clock
        self._watched: dict[WorkerId, Watched] = {}
        self._looked_at: Instant | None = None  # by the monotonic clock
        self._lines = OutcomeLines()

    async def run_once(self) -> Duration:
        now = self._clock.now()
        await self._expire_workers(now)
        settled = await self._recover_runs(now)
        if settled:  # also when all are dead: a run that waited behind them in a lane may start
            await self._engine.signals.send([Hint(Topic.RUNS)])
        return Duration(0) if settled >= BATCH else CHECK_INTERVAL

    async def _expire_workers(self, now: Instant) -> None:
        """Expire workers without a heartbeat for their lease while we watched, unless one arrives in between."""
        asked_at = self._clock.monotonic()
        known = {worker.worker_id: worker for worker in await self._engine.fleet.workers()}
        self._watch(known.values(), now)
        overdue = {
            worker_id: worker.beat_at
            for worker_id, worker in known.items()
            if asked_at - self._watched[worker_id].since > worker.lease
        }
        for worker_id in await self._engine.fleet.expire_workers(overdue) if overdue else ():
            self._numbers.add(REAPED_WORKERS)
            _report(known[worker_id], asked_at - self._watched[worker_id].since)

    def _watch(self, workers: Iterable[Worker], now: Instant) -> None:
        at = self._clock.monotonic()
        gap = 0 if self._looked_at is None else at - self._looked_at
        self._looked_at = at
        self._watched = {
            one.worker_id: self._seen(one, self._watched.get(one.worker_id), at, gap, now) for one in workers
        }

    def _seen(self, worker: Worker, before: Watched | None, at: Instant, gap: int, now: Instant) -> Watched:
        if before is None:
            # No heartbeat since `beat_at` by the store's clock, which may have been set since: watch it for a while
            # anyway.
            silent_for = min(max(0, now - worker.beat_at), worker.lease - WATCH_FOR * worker.lease // BEATS)
            return Watched(worker.beat_at, Instant(at - silent_for))
        if before.beat_at != worker.beat_at:
            return Watched(worker.beat_at, at)
        if gap > max(worker.lease // 2, 2 * CHECK_INTERVAL):
            # The machine slept or the database was unavailable: the silence may be ours. The worker gets a whole lease
            # again.
            return Watched(worker.beat_at, at)
        return before

    async def _recover_runs(self, now: Instant) -> int:
        """Settle one batch; return its size. Also of workers expired earlier: some left in order, some reapers died."""
        decided: dict[RunId, Settlement] = {}

        def decide(run: Claimed, worker_id: WorkerId, claimed_at: Instant) -> Settlement:
            decided[run.run_id] = self._defaults.told_of(lost(run, worker_id, claimed_at, now))
            return decided[run.run_id]

        await self._defaults.refresh()
        settled = await self._engine.running.recover_runs(BATCH, now, decide)
        self._lines.tell(decided.values(), except_for=settled.lost | settled.cancelled)
        self._numbers.add(REAPED_RUNS, n=len(decided))
        return len(decided)


def lost(
    run: Claimed, worker_id: WorkerId, claimed_at: Instant, now: Instant, why: str = attempt.NO_HEARTBEAT
) -> Settlement:
    """Settle a lost run. Never raises: one bad row must not keep other runs from returning to the queue."""
    try:
        return attempt.lost(run, worker_id, claimed_at, now, why)
    except Exception as wrong:
        return Settlement(
            run=run,
            state=State.DEAD,
            started_at=claimed_at,
            ended_at=now,
            failures=run.failures,
            losses=run.losses + 1,
            error_type="WorkerLost",
            error=f"{why}, and the stored run cannot be read: {wrong}"[: attempt.LONGEST_ERROR],
            attempts=run.attempts,
        )


def _report(worker: Worker, silent_for: int) -> None:
    log.warning(
        "A worker sent no heartbeat and counts as dead; its runs return to the queue",
        kind="worker_lost",
        worker_id=str(worker.worker_id),
        worker=worker.name,
        host=worker.host,
        without_heartbeat_s=silent_for // SECOND,
    )
