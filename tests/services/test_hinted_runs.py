"""Runs that a hint names: claimed without a look, never started without a claim, and passed on by whoever is full."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from tests.services.worker_loops import Stage, StagedCrew, crew_on, work

from oncue.domain.ids import RunId
from oncue.domain.instants import MILLISECOND, MINUTE, SECOND, Duration
from oncue.domain.placement import Priority
from oncue.domain.policy import Retry
from oncue.domain.run import Peeked
from oncue.engines.hints import MOST_NAMED, hint_due
from oncue.engines.port import Hint, Topic
from oncue.executors.capture import capture_logging
from oncue.services import choosing, prefetch
from oncue_conformance.store import Store


@pytest.fixture
def stage() -> Iterator[Stage]:
    undo = capture_logging()
    yield Stage()
    undo()


@pytest.fixture
def calls(store: Store, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each of these verbs was called."""
    counted = Counter[str]()
    for part, name in (("running", "peek"), ("running", "claim"), ("jobs", "classes"), ("fleet", "paused_queues")):
        whole = getattr(store.engine, part)
        monkeypatch.setattr(whole, name, _counting(getattr(whole, name), counted, name))
    return counted


def _counting(verb: Any, counted: Counter[str], name: str) -> Any:
    async def counting(*args: Any, **named: Any) -> Any:
        counted[name] += 1
        return await verb(*args, **named)

    return counting


@pytest.fixture
def passed_on(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[Hint]:
    """What was passed on, in order."""
    found: list[Hint] = []

    async def pass_on(hint: Hint, by: object) -> None:
        found.append(hint)

    monkeypatch.setattr(store.engine.signals, "pass_on", pass_on)
    return found


async def named(store: Store, *run_ids: RunId) -> Hint:
    """The hint that whoever made these runs would send."""
    found = {run.run_id: run for run in await store.running.peek(range(1, 50), store.at(-MINUTE), store.at(MINUTE), 99)}
    [hint] = hint_due([found[run_id] for run_id in run_ids], store.now)
    return hint


async def settled(store: Store, stage: Stage, **settings: Any) -> StagedCrew:
    """A crew that knows the classes there are and has nothing to read for a while."""
    first = await store.one_shot()
    crew = await crew_on(store, stage, **settings)
    await work(crew)
    assert stage.started == [first]
    stage.started.clear()
    store.advance(prefetch.SPACING)
    return crew


async def test_a_named_run_is_claimed_without_a_look(store: Store, stage: Stage, calls: Counter[str]) -> None:
    crew = await settled(store, stage)
    run_id = await store.one_shot()
    hint = await named(store, run_id)
    calls.clear()

    crew.concerns[Topic.RUNS](hint)
    await work(crew)

    assert stage.started == [run_id]
    assert calls == {"claim": 1}


async def test_a_named_run_of_a_class_of_which_enough_is_known_causes_a_look(
    store: Store, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches a run that waits for the sweep because another user's backlog fills the worker's memory."""
    crew = await settled(store, stage)
    hint = await named(store, await store.one_shot())
    monkeypatch.setattr(choosing, "ENOUGH_DUE", 0)
    assert crew.prefetch._asked > store.now

    crew.concerns[Topic.RUNS](hint)

    assert crew.prefetch._asked < store.now


async def test_a_stale_hint_costs_a_claim_and_starts_nothing(store: Store, stage: Stage, calls: Counter[str]) -> None:
    crew = await settled(store, stage)
    run_id = await store.one_shot()
    hint = await named(store, run_id)
    await store.running.cancel(store.uid, run_id, store.now)
    calls.clear()

    for _ in range(2):  # also doubled
        crew.concerns[Topic.RUNS](hint)
    await work(crew)

    assert stage.started == []
    assert calls == {"claim": 1}


async def test_a_run_that_is_named_ahead_starts_on_its_instant(store: Store, stage: Stage) -> None:
    crew = await settled(store, stage)
    run_id = await store.one_shot(200 * MILLISECOND)

    crew.concerns[Topic.RUNS](await named(store, run_id))
    await work(crew)
    assert stage.started == []
    store.advance(200 * MILLISECOND)
    await work(crew)

    assert stage.started == [run_id]


async def test_a_named_run_of_a_new_class_starts_at_once(store: Store, stage: Stage) -> None:
    """Catches classes that only the sweep reads, up to a second later."""
    crew = await settled(store, stage)
    run_id = await store.one_shot(priority=Priority.HIGH)

    crew.concerns[Topic.RUNS](await named(store, run_id))
    await work(crew)

    assert stage.started == [run_id]


async def test_what_another_worker_can_run_is_passed_over(store: Store, stage: Stage, calls: Counter[str]) -> None:
    other = await store.one_shot(task="unknown")
    crew = await settled(store, stage)
    hint = await named(store, other)
    calls.clear()

    crew.concerns[Topic.RUNS](hint)
    await work(crew)

    assert calls == {}


async def test_a_hint_that_contradicts_what_was_read_is_checked(store: Store, stage: Stage) -> None:
    """Catches a late hint of an earlier due time that makes a worker forget when the run is due now."""
    crew = await settled(store, stage)
    run_id = await store.one_shot(300 * MILLISECOND)
    hint = await named(store, run_id)
    crew.concerns[Topic.RUNS](hint)
    await work(crew)
    [told] = hint.runs

    crew.concerns[Topic.RUNS](Hint(Topic.RUNS, store.now, runs=(Peeked(run_id, store.now, told.class_id, told.uid),)))
    store.advance(prefetch.SPACING)
    await work(crew)
    assert stage.started == []
    store.advance(300 * MILLISECOND - prefetch.SPACING)
    await work(crew)

    assert stage.started == [run_id]


async def test_more_than_a_few_runs_are_not_named(store: Store) -> None:
    some = [Peeked(run_id, store.now, 1, store.uid) for run_id in await store.one_shots(MOST_NAMED + 1)]

    assert hint_due(some[1:], store.now) == [Hint(Topic.RUNS, store.now, runs=tuple(some[1:]))]
    assert hint_due(some, store.now) == [Hint(Topic.RUNS, store.now, classes=(1,))]
    assert hint_due(some, store.at(-2 * SECOND)) == []  # workers read it in time


async def test_a_retry_within_a_second_is_named(store: Store, stage: Stage, hints: list[Hint]) -> None:
    run_id = await store.one_shot(task="fail", max_retries=2, retry=Retry(Duration(300 * MILLISECOND), jitter=0))
    crew = await crew_on(store, stage)

    await work(crew)

    [hint] = [hint for hint in hints if hint.topic is Topic.RUNS]
    assert [run.run_id for run in hint.runs] == [run_id]
    assert hint.runs[0].due == (await store.run(run_id)).due


# ----------------------------------------------------------------------------------------------------------- passing on


async def full_crew(store: Store, stage: Stage) -> StagedCrew:
    crew = await settled(store, stage, concurrency=1)
    crew.prefetch.peers.count = 2
    await store.one_shot(task="wait")
    store.advance(SECOND)
    await work(crew)
    assert len(stage.waiting) == 1
    return crew


async def test_a_full_worker_passes_on_what_it_cannot_start(store: Store, stage: Stage, passed_on: list[Hint]) -> None:
    """Catches a run that waits for the next sweep of another worker, because the few that know it have no room."""
    crew = await full_crew(store, stage)
    run_ids = await store.one_shots(2)
    hint = await named(store, *run_ids)

    crew.concerns[Topic.RUNS](hint)
    assert await crew.worker.run_once() <= prefetch.PASS_ON_DELAY
    assert passed_on == []
    assert crew.prefetch.full(crew.attempts.capacity) == [hint.runs[0].class_id]
    store.advance(prefetch.PASS_ON_DELAY)
    await crew.worker.run_once()
    assert passed_on == [hint]
    for _ in range(10):
        store.advance(prefetch.PASS_ON_PAUSE)
        await crew.worker.run_once()

    assert passed_on == [hint]  # each run only once: else full workers would pass it around for ever


async def test_runs_are_passed_on_ten_times_a_second_at_most(store: Store, stage: Stage, passed_on: list[Hint]) -> None:
    crew = await full_crew(store, stage)
    for _ in range(20):
        crew.concerns[Topic.RUNS](await named(store, await store.one_shot()))
        store.advance(25 * MILLISECOND)
        await crew.worker.run_once()
    store.advance(100 * MILLISECOND)
    await crew.worker.run_once()

    assert sum(len(hint.runs) for hint in passed_on) == 20
    assert 4 <= len(passed_on) <= 7


async def test_the_only_worker_keeps_its_runs(store: Store, stage: Stage, passed_on: list[Hint]) -> None:
    crew = await full_crew(store, stage)
    crew.prefetch.peers.count = 1
    crew.concerns[Topic.RUNS](await named(store, await store.one_shot()))
    for _ in range(3):
        store.advance(prefetch.PASS_ON_PAUSE)
        await crew.worker.run_once()

    assert passed_on == []
