"""Turns occurrences into runs shortly before they are due, and ends runs that came too late.

No scheduler is special: any number plan at once, and none waits for another. What one leaves undone the next one does.
"""

from __future__ import annotations

import structlog

from oncue.clock import Clock
from oncue.domain.ids import JobId
from oncue.domain.instants import MILLISECOND, MINUTE, SECOND, Duration, Instant
from oncue.domain.job import Cursor
from oncue.domain.planning import DueJob, Plan, plan
from oncue.domain.zones import PACKAGED, Rules
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

    def __init__(self, engine: Engine, clock: Clock, rules: Rules = PACKAGED) -> None:
        self._engine = engine
        self._clock = clock
        self._rules = rules
        self._newer: str | None = None

    async def run_once(self) -> Duration:
        now = self._clock.now()
        planned = await self._plan(now)
        self._say_whose_zones(planned.newer_rules)
        if planned.first_due is not None:
            await self._engine.signals.send([Hint(Topic.RUNS, due=planned.first_due)])
        expired = await self._engine.planning.expire(BATCH, now)
        if expired:  # whoever waited behind them in a lane may start
            await self._engine.signals.send([Hint(Topic.RUNS)])
        return Duration(0) if expired == BATCH else _until_next(planned, now)

    async def _plan(self, now: Instant) -> Planned:
        until = Instant(now + HORIZON)
        unplannable: dict[JobId, Exception] = {}

        def decide(job: DueJob) -> Plan:
            """Never raises: one bad definition must not keep its neighbours from being planned."""
            try:
                return plan(job, now, until, self._rules)
            except Exception as wrong:
                unplannable[job.job_id] = wrong
                return _put_off(job, now, self._rules)

        planned = await self._engine.planning.plan(until, BATCH, now, decide, self._rules.version)
        for job_id, wrong in unplannable.items():
            log.error(
                "this job cannot be planned; it is put off by a minute, and nothing of it is passed over",
                job_id=str(job_id),
                exc_info=wrong,
            )
        return planned

    def _say_whose_zones(self, newer: str | None) -> None:
        """Once, when it changes."""
        if newer == self._newer:
            return
        self._newer = newer
        if newer is None:
            log.info("jobs with a time zone are planned here again", rules=self._rules.version)
        else:
            log.warning(
                "another scheduler has newer time-zone rules: jobs with a time zone are left to such ones until none"
                " has planned for a minute; to plan them here, update tzdata and restart",
                rules=self._rules.version,
                newer=newer,
            )


def _put_off(job: DueJob, now: Instant, rules: Rules) -> Plan:
    """Nothing planned, nothing passed over: the floor stays, and what is late by then is caught up with."""
    return Plan(job, (), Cursor(Instant(now + PUT_OFF), job.cursor.floor, job.cursor.planned, rules.version))


def _until_next(planned: Planned, now: Instant) -> Duration:
    if planned.jobs >= BATCH:  # there may be more, due or with other time-zone rules
        return Duration(0)
    if planned.next_at is None:
        return LONGEST
    wait = planned.next_at - HORIZON - now
    if wait <= 0:  # there were more than a batch, or more of one job than a step; or somebody else is at it
        return Duration(0) if planned.jobs else OTHERS_AT_IT
    return Duration(min(wait, LONGEST))
