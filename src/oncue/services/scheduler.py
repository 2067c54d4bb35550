"""Turn occurrences into runs shortly before they are due, and expire runs that are too late.

All schedulers are equal: any number plan at once, and none waits for another. What one leaves undone the next one does.

After an outage there may be half a million runs to create. Each pass creates some, and none takes long: occurrences in
time come first and do not wait for late ones; a pass that the database could not finish is retried with half as many
jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from oncue import logs
from oncue.clock import Clock
from oncue.domain import attempt
from oncue.domain.errors import StoreUnavailable
from oncue.domain.ids import JobId
from oncue.domain.instants import LONG_AGO, MICROSECOND, MILLISECOND, MINUTE, SECOND, Duration, Instant
from oncue.domain.job import Cursor
from oncue.domain.notices import PER_MINUTE, with_notices
from oncue.domain.planning import GRACE, DueJob, Plan, plan
from oncue.domain.run import Claimed, Settlement
from oncue.domain.zones import PACKAGED, Rules
from oncue.engines.hints import SOON
from oncue.engines.known_defaults import KnownDefaults
from oncue.engines.port import Engine, Expired, Hint, Planned, Topic
from oncue.log import log
from oncue.metrics import table
from oncue.metrics.numbers import SILENT, Numbers
from oncue.tracing.port import Tracing

BATCH = 500  # jobs planned, or runs ended, in one pass: a transaction of some dozen milliseconds
DECIDING = Duration(25 * MILLISECOND)  # then a pass stops deciding: other users of the loop or the database wait
LONGEST = Duration(SECOND)
# A run must exist when workers look for it, half a second ahead, though the last pass was up to LONGEST ago. Not
# earlier: runs planned early have to be withdrawn again when their job is edited.
HORIZON = Duration(LONGEST + 500 * MILLISECOND)
OTHERS_AT_IT = Duration(50 * MILLISECOND)  # due, but not given to us: another scheduler is planning it now
PUT_OFF = Duration(MINUTE)


class Batch:
    """How many jobs one call takes: half as many after each failed call, and slowly more again."""

    def __init__(self) -> None:
        self.size = BATCH

    def failed(self) -> None:
        self.size = max(1, self.size // 2)

    def done(self, jobs: int, *, more: bool) -> None:
        """Adapt the size. If `more` jobs were due and did not fit, taking and locking as many again is useless."""
        if more and 0 < jobs < self.size:
            self.size = min(self.size, 2 * jobs)
        else:
            self.size = min(BATCH, self.size + 1 + self.size // 8)


class Scheduler:
    name = "scheduler"

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        rules: Rules = PACKAGED,
        numbers: Numbers = SILENT,
        tracing: Tracing | None = None,
        defaults: KnownDefaults | None = None,
    ) -> None:
        self._engine = engine
        self._defaults = defaults or KnownDefaults(engine.notices, clock, PER_MINUTE)
        self._numbers = numbers
        self._tracing = tracing
        self._clock = clock
        self._in_time = Batch()
        self._late = Batch()
        self._refused: dict[JobId, Exception] = {}  # jobs whose plans the store refused
        self._rules = rules
        self._newer: str | None = None
        self.next_at: Instant | None = None  # the first occurrence that is not planned yet

    async def run_once(self) -> Duration:
        await self._defaults.refresh()
        now = self._clock.now()
        planned = await self._plan_all(now)
        self.next_at = planned.next_at
        self._say_whose_zones(planned.newer_rules)
        if planned.first_due is not None and planned.first_due <= self._clock.now() + SOON:
            await self._engine.signals.send([Hint(Topic.RUNS, due=planned.first_due)])
        expired = await self._engine.planning.expire(BATCH, now, lambda run: self._expired(run, now))
        self._numbers.add(table.EXPIRED, n=len(expired))
        if expired:  # runs that waited behind them in a lane may start
            _tell_expired(expired, now)
            await self._engine.signals.send([Hint(Topic.RUNS)])
        return Duration(0) if len(expired) == BATCH else _until_next(planned, now)

    def _expired(self, run: Claimed, now: Instant) -> Settlement:
        return self._defaults.told_of(attempt.expired(run, now))

    async def _plan_all(self, now: Instant) -> Planned:
        """Plan occurrences in time, and then late ones, each as many as fit into one transaction."""
        on_time = Instant(now - GRACE)
        planned = await self._plan(self._in_time, on_time, Instant(now + HORIZON), now)
        if planned.next_at is None or planned.next_at >= on_time:
            return planned
        return _both(planned, await self._plan(self._late, LONG_AGO, Instant(on_time - MICROSECOND), now))

    async def _plan(self, batch: Batch, since: Instant, until: Instant, now: Instant) -> Planned:
        """Plan the jobs whose next instant is between these, each up to the horizon."""
        unplannable: dict[JobId, Exception] = {}
        decided: set[JobId] = set()
        decide = self._decide(now, decided, unplannable)
        span = None if self._tracing is None else self._tracing.plan(now)
        if span is not None:
            decide = span.watched(decide)
        try:
            planned = await self._engine.planning.plan(
                until, batch.size, now, decide, since=since, rules=self._rules.version
            )
        except StoreUnavailable:
            batch.failed()
            raise
        except Exception as refused:
            return self._take_fewer(batch, decided, refused)
        if span is not None:
            span.end(planned.jobs, planned.runs)
        batch.done(planned.jobs, more=planned.next_at is not None and since <= planned.next_at <= until)
        for job_id in decided & self._refused.keys():
            del self._refused[job_id]
        for job_id, wrong in unplannable.items():
            log.error(
                "A job cannot be planned; planning is retried in a minute, and no occurrence is skipped",
                kind="job_put_off",
                job_id=str(job_id),
                exc_info=wrong,
            )
        return self._counted(replace(planned, put_off=planned.put_off + len(unplannable)))

    def _counted(self, planned: Planned) -> Planned:
        self._numbers.add(table.PLANNED, n=planned.runs)
        self._numbers.add(table.PLANNED_LATE, n=planned.late)
        self._numbers.add(table.PUT_OFF, n=planned.put_off)
        return planned

    def _decide(
        self, now: Instant, decided: set[JobId], unplannable: dict[JobId, Exception]
    ) -> Callable[[DueJob], Plan | None]:
        began: Instant | None = None

        def decide(job: DueJob) -> Plan | None:
            """Never raises: one bad definition must not keep other jobs from being planned."""
            nonlocal began
            if began is None:
                began = self._clock.monotonic()
            elif self._clock.monotonic() - began > DECIDING:
                return None
            decided.add(job.job_id)
            try:
                if refused := self._refused.get(job.job_id):
                    raise refused
                decision = plan(job, now, Instant(now + HORIZON), self._rules)
                return with_notices(decision, now, self._defaults.of(job.uid), self._defaults.rate)
            except Exception as wrong:
                unplannable[job.job_id] = wrong
                return _put_off(job, now, self._rules)

        return decide

    def _take_fewer(self, batch: Batch, decided: set[JobId], refused: Exception) -> Planned:
        """Halve the batch, because the store refuses one of these jobs; a job refused alone is postponed."""
        if len(decided) <= 1 and decided <= self._refused.keys():
            raise refused  # the cause is not what was planned
        batch.size = max(1, len(decided) // 2)
        if len(decided) == 1:
            self._refused = dict.fromkeys(decided, refused)
        return Planned(jobs=len(decided), runs=0, first_due=None, next_at=Instant(0), newer_rules=self._newer)

    def _say_whose_zones(self, newer: str | None) -> None:
        """Log it once, when it changes."""
        if newer == self._newer:
            return
        self._newer = newer
        if newer is None:
            log.info("This scheduler plans jobs with a time zone again", kind="zone_rules", rules=self._rules.version)
        else:
            log.warning(
                "Another scheduler has newer time-zone rules and plans the jobs with a time zone. To plan them here, "
                "update tzdata and restart",
                kind="zone_rules",
                rules=self._rules.version,
                newer=newer,
            )


def _both(one: Planned, other: Planned) -> Planned:
    dues = [due for due in (one.first_due, other.first_due) if due is not None]
    return Planned(
        one.jobs + other.jobs,
        one.runs + other.runs,
        min(dues, default=None),
        other.next_at,
        other.newer_rules,
        one.late + other.late,
        one.put_off + other.put_off,
    )


def _put_off(job: DueJob, now: Instant, rules: Rules) -> Plan:
    """Plan nothing and skip nothing: the floor stays, and catch-up handles what is late by then."""
    return Plan(job, (), Cursor(Instant(now + PUT_OFF), job.cursor.floor, job.cursor.planned, rules.version))


def _tell_expired(expired: Sequence[Expired], now: Instant) -> None:
    for one in expired:
        if not logs.bursts.full("run_expired", one.task):
            about = {"run_id": str(one.run_id), "job_id": str(one.job_id), "task": one.task}
            seconds = round((now - one.wanted) / SECOND)
            log.warning("A run expired: it had not started in time", kind="run_expired", seconds=seconds, **about)


def _until_next(planned: Planned, now: Instant) -> Duration:
    if planned.jobs >= BATCH:  # there may be more, due or with other time-zone rules
        return Duration(0)
    if planned.next_at is None:
        return LONGEST
    wait = planned.next_at - HORIZON - now
    if wait <= 0:  # more than a batch, or more of one job than a step; or another scheduler is planning it
        return Duration(0) if planned.jobs else OTHERS_AT_IT
    return Duration(min(wait, LONGEST))
