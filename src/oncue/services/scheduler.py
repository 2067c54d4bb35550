"""Turns occurrences into runs shortly before they are due, and ends runs that came too late.

No scheduler is special: any number plan at once, and none waits for another. What one leaves undone the next one does.
"""

from __future__ import annotations

import structlog

from oncue.clock import Clock
from oncue.domain.errors import StoreUnavailable
from oncue.domain.ids import JobId
from oncue.domain.instants import MILLISECOND, MINUTE, SECOND, Duration, Instant
from oncue.domain.job import Cursor
from oncue.domain.planning import DueJob, Plan, plan
from oncue.engines.port import Engine, Hint, Planned, Topic

BATCH = 500  # jobs planned, or runs ended, in one pass: a transaction of some dozen milliseconds
LONGEST = Duration(SECOND)
# A run must be there when workers look for it, half a second ahead, though the last pass was up to LONGEST ago.
# Not more: what is planned early has to be withdrawn again when its job is edited.
HORIZON = Duration(LONGEST + 500 * MILLISECOND)
OTHERS_AT_IT = Duration(50 * MILLISECOND)  # due, but not given to us: another scheduler plans it this moment
PUT_OFF = Duration(MINUTE)

log = structlog.get_logger()


class Scheduler:
    name = "scheduler"

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._batch = BATCH
        self._refused: dict[JobId, Exception] = {}  # jobs of which the store would not have what was planned

    async def run_once(self) -> Duration:
        now = self._clock.now()
        planned = await self._plan(now)
        if planned.first_due is not None:
            await self._engine.signals.send([Hint(Topic.RUNS, due=planned.first_due)])
        expired = await self._engine.planning.expire(BATCH, now)
        if expired:  # whoever waited behind them in a lane may start
            await self._engine.signals.send([Hint(Topic.RUNS)])
        return Duration(0) if expired == BATCH else _until_next(planned, now)

    async def _plan(self, now: Instant) -> Planned:
        until = Instant(now + HORIZON)
        unplannable: dict[JobId, Exception] = {}
        decided: set[JobId] = set()

        def decide(job: DueJob) -> Plan:
            """Never raises: one bad definition must not keep its neighbours from being planned."""
            decided.add(job.job_id)
            try:
                if refused := self._refused.get(job.job_id):
                    raise refused
                return plan(job, now, until)
            except Exception as wrong:
                unplannable[job.job_id] = wrong
                return _put_off(job, now)

        try:
            planned = await self._engine.planning.plan(until, self._batch, now, decide)
        except StoreUnavailable:
            raise
        except Exception as refused:
            return self._take_fewer(decided, refused)
        self._batch = BATCH
        for job_id in decided & self._refused.keys():
            del self._refused[job_id]
        for job_id, wrong in unplannable.items():
            log.error(
                "this job cannot be planned; it is put off by a minute, and nothing of it is passed over",
                job_id=str(job_id),
                exc_info=wrong,
            )
        return planned

    def _take_fewer(self, decided: set[JobId], refused: Exception) -> Planned:
        """Of these one is refused: half of them the next time, and so on; the one that is left alone is put off."""
        if len(decided) <= 1 and decided <= self._refused.keys():
            raise refused  # it is not about what was planned
        self._batch = max(1, len(decided) // 2)
        if len(decided) == 1:
            self._refused = dict.fromkeys(decided, refused)
        return Planned(jobs=len(decided), runs=0, first_due=None, next_at=Instant(0))


def _put_off(job: DueJob, now: Instant) -> Plan:
    """Nothing planned, nothing passed over: the floor stays, and what is late by then is caught up with."""
    return Plan(job, (), Cursor(Instant(now + PUT_OFF), job.cursor.floor, job.cursor.planned))


def _until_next(planned: Planned, now: Instant) -> Duration:
    if planned.next_at is None:
        return LONGEST
    wait = planned.next_at - HORIZON - now
    if wait <= 0:  # there were more than a batch, or more of one job than a step; or somebody else is at it
        return Duration(0) if planned.jobs else OTHERS_AT_IT
    return Duration(min(wait, LONGEST))
