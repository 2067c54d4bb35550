"""What services count: each number rises with what it says, and with nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.services.test_overlap import going
from tests.services.test_reaper import recover_runs, silent
from tests.services.test_supervisor import EVERY, Workers, workers  # noqa: F401  # a fixture
from tests.services.test_worker import Interrupted
from tests.services.worker_loops import Stage, StagedCrew, crew_on, drive, work

from oncue import Context
from oncue.domain import attempt
from oncue.domain.errors import NotFound, StoreRefused, StoreUnavailable
from oncue.domain.instants import DAY, HOUR, MILLISECOND, MINUTE, SECOND, Duration
from oncue.domain.job import Rate
from oncue.domain.overlap import Overlap as Policy
from oncue.domain.placement import Priority
from oncue.engines.counted import CountedEngine
from oncue.engines.port import Hint, Topic
from oncue.metrics import table
from oncue.metrics.exposed import Exposed
from oncue.metrics.metric import Kind, Labels, Metric, Roles
from oncue.metrics.numbers import Bounds, Numbers
from oncue.metrics.tick import CALM_TICK, LITTLE, TICK, Tick
from oncue.services import prefetch
from oncue.services.attempts import Stop
from oncue.services.channel import Counted, Ready
from oncue.services.loop import Loop
from oncue.services.overlap import Overlap
from oncue.services.rate_limiter import RateLimiter
from oncue.services.reaper import Reaper
from oncue.services.retention import Retention
from oncue.services.run_numbers import outcome_of
from oncue.services.scheduler import HORIZON, Scheduler
from oncue.settings import Settings
from oncue.testing.clock import FakeClock
from oncue_conformance.store import Store

Counts = dict[tuple[Metric, Labels], float]


def numbers_of(*roles: Roles) -> Numbers:
    return Numbers(Bounds(["default"]), *roles)


def counted(numbers: Numbers, *but: Metric) -> Counts:
    """Every count that is not 0; of a histogram, how many values it has."""
    found: Counts = {}
    for one in numbers.series():
        metric = table.BY_NAME[one.name]
        n = sum(one.values[1:]) if metric.kind is Kind.HISTOGRAM else one.values[0]
        if n and metric.kind is not Kind.GAUGE and metric not in but:
            found[metric, one.labels] = n
    return found


def gauges(numbers: Numbers, metric: Metric) -> dict[Labels, float]:
    return {one.labels: one.values[0] for one in numbers.series() if one.name == metric.name}


# ------------------------------------------------------------------------------------------------------------ a worker


class Timeout(Exception):
    """A task's own, called like that of a run that took too long."""


class OddStage(Stage):
    async def fail(self, ctx: Context, how: str = "boom") -> None:
        if how == "timeout":
            raise Timeout
        await super().fail(ctx, how)


class Desk:
    def __init__(self, store: Store, stage: Stage, crew: StagedCrew) -> None:
        self.store = store
        self.stage = stage
        self.crew = crew

    async def settle(self) -> None:
        await self.crew.rest()
        await self.crew.settling.run_once()


async def success(desk: Desk) -> None:
    await desk.store.one_shots(2, task="noop")
    await work(desk.crew)


async def failure_to_be_retried(desk: Desk) -> None:
    await desk.store.one_shot(task="fail", max_retries=1)
    await work(desk.crew)


async def last_failure(desk: Desk) -> None:
    await desk.store.one_shot(task="fail", max_retries=0)
    await work(desk.crew)


async def timeout_of_its_own(desk: Desk) -> None:
    await desk.store.one_shot(task="fail", payload=b'{"how":"timeout"}', max_retries=0)
    await work(desk.crew)


async def cancelled_while_it_failed(desk: Desk) -> None:
    run_id = await desk.store.one_shot(task="fail", max_retries=1)
    await desk.crew.worker.run_once()
    await desk.store.running.cancel(desk.store.uid, run_id, desk.store.now)
    await desk.settle()


async def claim_without_an_answer(desk: Desk) -> None:
    await desk.store.one_shot(task="noop")
    with pytest.MonkeyPatch.context() as patch:
        Interrupted(patch, desk.store.running, "claim", applied=True)
        with pytest.raises(StoreUnavailable):
            await desk.crew.worker.run_once()
    await work(desk.crew)


async def timeout(desk: Desk) -> None:
    await desk.store.one_shot(task="wait", timeout=Duration(SECOND), max_retries=0)
    await work(desk.crew)
    await desk.store.clock.advance(Duration(SECOND))
    await desk.crew.attempts.run_once()
    await desk.settle()


async def cancel(desk: Desk) -> None:
    run_id = await desk.store.one_shot(task="wait")
    await work(desk.crew)
    await desk.store.running.cancel(desk.store.uid, run_id, desk.store.now)
    desk.crew.mailbox.hint()
    await desk.crew.mailbox.run_once()
    await desk.settle()


async def drain(desk: Desk) -> None:
    run_id = await desk.store.one_shot(task="wait")
    await work(desk.crew)
    desk.crew.attempts.stop(run_id, Stop.DRAINING)
    await desk.settle()


async def too_late(desk: Desk) -> None:
    await desk.store.one_shot(task="wait")
    await work(desk.crew)
    await desk.store.lose(desk.crew.worker_id)
    await desk.store.recover_runs()
    desk.stage.go.set()
    await desk.settle()


async def missed(desk: Desk) -> None:
    run_id = await desk.store.one_shot(100 * MILLISECOND)
    await desk.crew.worker.run_once()
    await desk.store.running.cancel(desk.store.uid, run_id, desk.store.now)
    desk.store.advance(200 * MILLISECOND)
    await work(desk.crew)


async def without_its_task(desk: Desk) -> None:
    """A run that cannot start has ended, and not started."""
    await desk.store.one_shot(task="noop")
    desk.stage.tasks.get = lambda name: None  # type: ignore[method-assign]  # gone between look and start
    await work(desk.crew)


STORIES: dict[Callable[[Desk], Awaitable[None]], dict[tuple[Any, ...], int]] = {
    success: {
        (table.CLAIMED,): 2,
        (table.START_LAG, "default", "normal"): 2,
        (table.RUN_SECONDS, "noop", "succeeded"): 2,
        (table.SETTLED, "final"): 2,
    },
    failure_to_be_retried: {
        (table.CLAIMED,): 1,
        (table.START_LAG, "default", "normal"): 1,
        (table.RUN_SECONDS, "fail", "failed"): 1,
        (table.SETTLED, "again"): 1,
    },
    last_failure: {
        (table.CLAIMED,): 1,
        (table.START_LAG, "default", "normal"): 1,
        (table.RUN_SECONDS, "fail", "failed"): 1,
        (table.SETTLED, "final"): 1,
    },
    timeout: {
        (table.CLAIMED,): 1,
        (table.START_LAG, "default", "normal"): 1,
        (table.RUN_SECONDS, "wait", "timed_out"): 1,
        (table.SETTLED, "final"): 1,
    },
    cancel: {
        (table.CLAIMED,): 1,
        (table.START_LAG, "default", "normal"): 1,
        (table.RUN_SECONDS, "wait", "cancelled"): 1,
        (table.SETTLED, "final"): 1,
    },
    drain: {
        (table.CLAIMED,): 1,
        (table.START_LAG, "default", "normal"): 1,
        (table.SETTLED, "handed_back"): 1,
    },
    too_late: {
        (table.CLAIMED,): 1,
        (table.START_LAG, "default", "normal"): 1,
        (table.RUN_SECONDS, "wait", "succeeded"): 1,
        (table.RESULTS_REFUSED,): 1,
    },
    missed: {(table.CLAIM_MISSED,): 1},
    timeout_of_its_own: {
        (table.CLAIMED,): 1,
        (table.START_LAG, "default", "normal"): 1,
        (table.RUN_SECONDS, "fail", "failed"): 1,
        (table.SETTLED, "final"): 1,
    },
    cancelled_while_it_failed: {
        (table.CLAIMED,): 1,
        (table.START_LAG, "default", "normal"): 1,
        (table.RUN_SECONDS, "fail", "failed"): 1,
        (table.SETTLED, "final"): 1,
    },
    claim_without_an_answer: {
        (table.CLAIMED,): 1,
        (table.START_LAG, "default", "normal"): 1,
        (table.RUN_SECONDS, "noop", "succeeded"): 1,
        (table.SETTLED, "final"): 1,
    },
    without_its_task: {
        (table.CLAIMED,): 1,
        (table.RUN_SECONDS, "noop", "failed"): 1,
        (table.SETTLED, "final"): 1,
    },
}


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
async def test_what_a_worker_counts(store: Store, story: Callable[[Desk], Awaitable[None]]) -> None:
    numbers, stage = numbers_of(Roles.WORKER), OddStage()
    desk = Desk(store, stage, await crew_on(store, stage, numbers=numbers))

    await story(desk)

    expected = {(metric, labels): n for (metric, *given), n in STORIES[story].items() for labels in [tuple(given)]}
    assert counted(numbers, table.FOUND, table.RUN_LOG_BYTES) == expected


async def test_a_lost_attempt_is_neither_a_success_nor_a_failure(store: Store) -> None:
    worker = await store.worker()
    run = await store.claim_one(worker, await store.one_shot())

    assert outcome_of(attempt.lost(run, worker, store.now, store.now)) == "other"


async def test_a_lag_counts_from_when_the_run_could_start(store: Store) -> None:
    """Of two in a lane, the second is due as long, but could start only when the first had ended."""
    numbers, stage = numbers_of(Roles.WORKER), Stage()
    await store.one_shots(2, -HOUR, task="wait", group="one after the other")
    crew = await crew_on(store, stage, numbers=numbers)
    await work(crew)
    store.advance(SECOND)
    stage.go.set()
    await crew.rest()
    await crew.settling.run_once()
    store.advance(3 * SECOND)
    await work(crew)

    [lags] = [one.values for one in numbers.series() if one.name == table.START_LAG.name]
    assert lags[0] == HOUR + 3 * SECOND
    assert sum(lags[1:]) == 2


async def test_whoever_gave_way_is_counted(store: Store) -> None:
    numbers, stage = numbers_of(Roles.WORKER), Stage()
    await store.one_shots(3, -MINUTE, apart=SECOND, task="wait", priority=Priority.LOW, preemptible=True)
    crew = await crew_on(store, stage, numbers=numbers)
    await drive(store, crew, 2 * SECOND)
    await store.one_shot(priority=Priority.HIGH, task="wait")

    await drive(store, crew, SECOND)

    found = counted(numbers)
    assert (found[table.PREEMPTED, ()], found[table.SETTLED, ("handed_back",)]) == (1, 1)


async def test_how_a_run_was_found(store: Store) -> None:
    numbers, stage = numbers_of(Roles.WORKER), Stage()
    await store.one_shot(-SECOND)  # before the worker came
    crew = await crew_on(store, stage, numbers=numbers)
    await work(crew)
    assert counted(numbers)[table.FOUND, ("sweep",)] == 1

    store.advance(prefetch.SPACING)
    await store.one_shot()
    crew.concerns[Topic.RUNS](Hint(Topic.RUNS, due=store.now))
    await work(crew)
    assert counted(numbers)[table.FOUND, ("hint",)] == 1

    await store.one_shot(2 * SECOND)
    await drive(store, crew, 3 * SECOND)
    assert counted(numbers)[table.FOUND, ("window",)] == 1


async def test_what_a_worker_has_and_what_of_it_is_taken(store: Store) -> None:
    numbers, stage = numbers_of(Roles.WORKER), Stage()
    await store.one_shots(2, task="wait")
    crew = await crew_on(store, stage, numbers=numbers, concurrency=3)
    await work(crew)

    assert gauges(numbers, table.PLACES) == {("loop",): 3, ("thread",): 1, ("process",): 1}
    assert gauges(numbers, table.PLACES_USED) == {("loop",): 2, ("thread",): 0, ("process",): 0}
    assert gauges(numbers, table.SETTLE_PENDING) == {(): 0}
    stage.go.set()
    await crew.rest()
    assert gauges(numbers, table.PLACES_USED)["loop",] == 0
    assert gauges(numbers, table.SETTLE_PENDING) == {(): 2}


async def test_no_label_has_anything_of_a_user_in_it(store: Store) -> None:
    """But the names of tasks and of the worker's queues, which are known from code and configuration."""
    exposed, stage = Exposed(store.clock, Roles.WORKER, queues=["default", "slow"]), Stage()
    job = {"name": "PLANTED name", "tags": ("PLANTED-tag",), "key": "PLANTED-key", "group": "PLANTED group"}
    await store.one_shot(task="fail", payload=b'{"how":"PLANTED payload"}', max_retries=0, **job)
    await store.one_shot(task="talk", queue="slow", max_retries=0)
    engine = CountedEngine(store.engine, exposed.numbers, store.clock)
    store.engine = engine
    crew = await crew_on(store, stage, numbers=exposed.numbers)
    await work(crew)
    await crew.reporting.run_once()

    told = exposed.text().decode()

    assert 'oncue_run_seconds_count{task="fail",outcome="failed"} 1' in told.splitlines()
    assert "PLANTED" not in told
    assert str(crew.worker_id) not in told
    assert not [run for run in await store.runs() if str(run.run_id) in told or str(run.job_id) in told]


# --------------------------------------------------------------------------------------------------------- a scheduler


async def test_what_is_planned_late_and_put_off(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = numbers_of(Roles.SCHEDULER)
    one = Scheduler(store.engine, store.clock, numbers=numbers)
    job_id = await store.recurring(every=MINUTE)
    store.advance(MINUTE - HORIZON)
    await one.run_once()
    assert counted(numbers) == {(table.PLANNED, ()): 1}

    store.advance(MINUTE + SECOND + HORIZON)
    await one.run_once()
    assert counted(numbers) == {(table.PLANNED, ()): 2, (table.PLANNED_LATE, ()): 1}

    monkeypatch.setattr("oncue.services.scheduler.plan", lambda *_: 1 / 0)
    store.advance(MINUTE)
    await one.run_once()
    assert counted(numbers)[table.PUT_OFF, ()] == 1
    assert await store.snapshot(job_id)


async def test_what_expires(store: Store) -> None:
    numbers = numbers_of(Roles.SCHEDULER)
    await store.one_shots(3, start_within=Duration(MINUTE))
    store.advance(HOUR)

    await Scheduler(store.engine, store.clock, numbers=numbers).run_once()

    assert counted(numbers) == {(table.EXPIRED, ()): 3}


async def test_what_is_withdrawn(store: Store) -> None:
    numbers = numbers_of(Roles.SCHEDULER)
    await going(store, Policy.SKIP)
    store.advance(HORIZON)

    await Overlap(store.engine, store.clock, numbers).run_once()

    assert counted(numbers) == {(table.WITHDRAWN, ()): 1}


async def test_starts_that_are_granted(store: Store) -> None:
    numbers = numbers_of(Roles.SCHEDULER)
    await store.one_shots(3, rate=Rate(2, Duration(HOUR), "r"))

    await RateLimiter(store.engine, store.clock, numbers).run_once()

    assert counted(numbers) == {(table.GRANTED, ()): 2}


async def test_the_dead_and_what_they_left(store: Store) -> None:
    numbers = numbers_of(Roles.SCHEDULER)
    await silent(store, *await store.one_shots(2))

    await recover_runs(store, Reaper(store.engine, store.clock, numbers))

    assert counted(numbers) == {(table.REAPED_WORKERS, ()): 1, (table.REAPED_RUNS, ()): 2}


async def test_partitions_that_are_dropped(store: Store) -> None:
    numbers = numbers_of(Roles.SCHEDULER)
    retention = Retention(store.engine, store.clock, Settings(retention=Duration(2 * DAY)), numbers)
    await retention.run_once()
    for _ in range(5):
        await store.clock.advance(DAY)
        await retention.run_once()

    assert counted(numbers)[table.PIECES_DROPPED, ()] >= 2


# ------------------------------------------------------------------------------------------------------- every process


class Fickle:
    name = "fickle"

    def __init__(self, *says: Exception | None) -> None:
        self._says = list(says)

    async def run_once(self) -> Duration:
        said = self._says.pop(0)
        if said is not None:
            raise said
        return Duration(0)


async def test_passes_by_how_they_went() -> None:
    numbers, clock = numbers_of(), FakeClock()
    loop = Loop(Fickle(None, StoreUnavailable("away"), ValueError("a bug"), None), clock, numbers)
    assert loop.ok_at is None
    await loop._pass()
    first = loop.ok_at
    await clock.advance(SECOND)
    for _ in range(2):
        await loop._pass()
    assert loop.ok_at == first == clock.monotonic() - SECOND
    await loop._pass()

    assert counted(numbers) == {
        (table.PASSES, ("fickle", "ok")): 2,
        (table.PASSES, ("fickle", "away")): 1,
        (table.PASSES, ("fickle", "failed")): 1,
    }
    assert gauges(numbers, table.LAST_OK) == {("fickle",): clock.now() / SECOND}


async def test_a_tick_says_how_late_it_comes() -> None:
    numbers, clock = numbers_of(), FakeClock()
    tick = Tick(clock, numbers)
    for late in (0, 30 * MILLISECOND, 0):
        await clock.advance(Duration(tick() + late))
    tick()

    [delays] = [one.values for one in numbers.series()]
    assert (delays[0], sum(delays[1:])) == (30 * MILLISECOND, 3)


def test_the_tick_is_slower_while_little_happens() -> None:
    numbers = numbers_of()
    tick, calls = Tick(FakeClock(), numbers), numbers.sink(table.STORE_CALLS, "claim")

    assert tick() == CALM_TICK
    for _ in range(LITTLE + 1):
        calls.append(1)
    assert tick() == TICK
    assert tick() == CALM_TICK
    assert tick(busy=True) == TICK


async def test_calls_to_the_store_are_timed_and_their_failures_counted(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = numbers_of()
    answers = (NotFound(), asyncio.CancelledError())  # which are no failures of the store
    for error in (StoreUnavailable("away"), StoreRefused("NUL"), RuntimeError("a bug"), *answers):

        async def fails(*_: object, error: BaseException = error) -> None:
            await store.clock.advance(Duration(SECOND))
            raise error

        monkeypatch.setattr(store.engine.fleet, "workers", fails)
        with pytest.raises(type(error)):
            await CountedEngine(store.engine, numbers, store.clock).fleet.workers()
    engine = CountedEngine(store.engine, numbers, store.clock)
    assert await engine.fleet.tasks() == await store.engine.fleet.tasks()

    assert counted(numbers) == {
        (table.STORE_CALLS, ("workers",)): 5,
        (table.STORE_CALLS, ("tasks",)): 1,
        (table.STORE_ERRORS, ("workers", "away")): 1,
        (table.STORE_ERRORS, ("workers", "refused")): 1,
        (table.STORE_ERRORS, ("workers", "other")): 1,
    }
    assert {one.labels: one.values[0] for one in numbers.series() if one.name == table.STORE_CALLS.name} == {
        ("workers",): 5 * SECOND,
        ("tasks",): 0,
    }


async def test_hints_are_counted_and_what_an_engine_lost_stays_counted_when_it_is_closed(store: Store) -> None:
    numbers = numbers_of()
    engine = CountedEngine(store.engine, numbers, store.clock)
    await engine.signals.send([Hint(Topic.RUNS), Hint(Topic.JOBS)])
    async for _ in engine.signals.listen():
        break
    engine.state = lambda: type(store.engine.state())(hints_failed=3)  # type: ignore[method-assign]
    before = counted(numbers, table.STORE_CALLS)

    engine._close = _nothing  # the store closes it itself
    await engine.close()

    assert before[table.HINTS, ("runs", "sent")] == before[table.HINTS, ("jobs", "sent")] == 1
    assert before[table.HINTS, ("all", "failed")] == 3
    assert counted(numbers, table.STORE_CALLS) == before


async def _nothing() -> None: ...


# -------------------------------------------------------------------------------------------------------- a supervisor


async def test_a_supervisor_tells_of_its_worker_and_why_another_took_its_place(workers: Workers) -> None:  # noqa: F811
    exposed, supervisor = workers.supervisor._exposed, workers.supervisor
    first = await workers.some(1)
    assert (gauges(exposed.numbers, table.WORKER_UP), gauges(exposed.numbers, table.BEAT_AGE)) == ({(): 0}, {})
    assert supervisor.unready() == "No worker is registered."

    numbers = numbers_of()
    numbers.add(table.CLAIMED, n=7)
    numbers.read(table.PLACES_USED, lambda: {("loop",): 1})
    await workers.says(first, Ready(()))
    await workers.says(first, Counted(tuple(numbers.series())))
    assert supervisor.unready() is None
    await workers.clock.advance(Duration(EVERY))
    assert gauges(exposed.numbers, table.WORKER_UP) == {(): 1}

    await workers.ends(first)
    second = await workers.some(2)
    await workers.says(second, Ready(()))
    await workers.says(second, Counted(tuple(numbers.series())))
    told = exposed.text().decode().splitlines()
    assert "oncue_claimed_total 14" in told
    assert 'oncue_places_used{kind="loop"} 1' in told  # of the second alone
    assert counted(exposed.numbers) == {(table.RESTARTS, ("exit",)): 1}

    await workers.worn(second)
    third = await workers.some(3)
    await workers.says(third, Ready(()))
    assert counted(exposed.numbers) == {(table.RESTARTS, ("exit",)): 1, (table.RESTARTS, ("asked",)): 1}

    workers.fleet.how = "has buried it"
    await workers.clock.advance(Duration(EVERY))
    workers.fleet.how = "well"
    await workers.some(4)
    assert counted(exposed.numbers)[table.RESTARTS, ("buried",)] == 1


async def test_a_supervisor_without_a_heartbeat_or_told_to_stop_is_not_ready(workers: Workers) -> None:  # noqa: F811
    first = await workers.some(1)
    await workers.says(first, Ready(()))
    first.beaten_at -= 16 * SECOND
    assert workers.supervisor.unready() is not None
    assert "heartbeat" in (workers.supervisor.unready() or "")
    first.beaten_at += 16 * SECOND

    workers.supervisor.stop()

    assert workers.supervisor.unready() == "The worker is draining."
    await workers.ends(first)
