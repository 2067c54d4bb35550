"""Declares silent workers dead and settles what they left: nothing stays running for ever."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import structlog

from oncue.clock import Clock
from oncue.domain import attempt
from oncue.domain.ids import RunId, WorkerId
from oncue.domain.instants import SECOND, Duration, Instant
from oncue.domain.run import Claimed, Settlement, State
from oncue.engines.port import Engine, Hint, Topic, Worker

BATCH = 500
OFTEN = Duration(SECOND)

log = structlog.get_logger()


class Reaper:
    name = "reaper"

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._looked_at: Instant | None = None
        self._judge_from = Instant(0)  # by the monotonic count

    async def run_once(self) -> Duration:
        now = self._clock.now()
        await self._bury(now)
        settled = await self._reap(now)
        if settled:  # also when all are dead: whoever waited behind them in a lane may start
            await self._engine.signals.send([Hint(Topic.RUNS)])
        return Duration(0) if settled >= BATCH else OFTEN

    async def _bury(self, now: Instant) -> None:
        known = {worker.worker_id: worker for worker in await self._engine.fleet.workers()}
        if known and self._may_judge([worker.lease for worker in known.values()], now):
            for worker_id in await self._engine.fleet.bury(now):
                _report(worker_id, known, now)

    def _may_judge(self, leases: Sequence[Duration], now: Instant) -> bool:
        """Not after a gap: the clock jumped, the machine slept or the store was away, and the silence may be our own.

        Everybody first gets a whole lease to beat again.
        """
        gap = 0 if self._looked_at is None else now - self._looked_at
        self._looked_at = now
        if gap > min(leases) // 2:
            self._judge_from = Instant(self._clock.monotonic() + max(leases))
        return self._clock.monotonic() >= self._judge_from

    async def _reap(self, now: Instant) -> int:
        """One batch; how many there were. Not only of workers just buried: some said goodbye, some reapers died."""
        decided: set[RunId] = set()

        def decide(run: Claimed, worker_id: WorkerId, claimed_at: Instant) -> Settlement:
            decided.add(run.run_id)
            return lost(run, worker_id, claimed_at, now)

        await self._engine.running.reap(BATCH, now, decide)
        return len(decided)


def lost(run: Claimed, worker_id: WorkerId, claimed_at: Instant, now: Instant) -> Settlement:
    """Never raises: one bad row must not keep its neighbours from coming back."""
    try:
        return attempt.lost(run, worker_id, claimed_at, now)
    except Exception as wrong:
        return Settlement(
            run=run,
            state=State.DEAD,
            started_at=claimed_at,
            ended_at=now,
            failures=run.failures,
            losses=run.losses + 1,
            error_type="WorkerLost",
            error=f"{attempt.FELL_SILENT}, and what is stored of it cannot be read: {wrong}"[: attempt.LONGEST_ERROR],
            attempts=run.attempts,
        )


def _report(worker_id: WorkerId, known: Mapping[WorkerId, Worker], now: Instant) -> None:
    worker = known.get(worker_id)
    log.warning(
        "a worker fell silent and is declared dead; its runs come back",
        worker_id=str(worker_id),
        worker=None if worker is None else worker.name,
        host=None if worker is None else worker.host,
        silent_for_s=None if worker is None else (now - worker.beat_at) // SECOND,
    )
