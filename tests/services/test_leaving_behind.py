"""What a user leaves running that cannot be stopped counts against that user, and takes no place from others."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests.services.worker_loops import Stage, StagedCrew, crew_on, drive, work

from oncue.context import Context
from oncue.domain.attempt import LEFT_BEHIND
from oncue.domain.ids import RunId, UserNumber
from oncue.domain.instants import MILLISECOND, SECOND, Duration
from oncue.domain.placement import Priority, Resources
from oncue.domain.policy import OnLeftBehind
from oncue.domain.run import RunView, Settlement, State, read_attempts
from oncue.executors.capture import capture_logging
from oncue.executors.threads import ThreadExecutor
from oncue.services.capacity import Capacity
from oncue.services.execution import Execution
from oncue.tasks import Isolation, Task
from oncue_conformance.store import Store

THREAD, LOOP = Isolation.THREAD, Isolation.LOOP
ADA, BOB = UserNumber(1), UserNumber(2)
ONE = Resources()
NORMAL = Priority.NORMAL
TOO_LONG = f"the attempt exceeded its timeout of 1s; {LEFT_BEHIND}"


@pytest.fixture
def stage() -> Iterator[Stage]:
    undo = capture_logging()
    stage = Stage()
    yield stage
    stage.go.set()  # or what does not stop would keep the loop from closing
    undo()


# ------------------------------------------------------------------------------------------------------------- counting


def room(places: int = 10, most_left: int = 4) -> Capacity:
    return Capacity({THREAD: places, LOOP: places}, Resources(), most_left=most_left)


def leave(capacity: Capacity, uid: UserNumber, times: int) -> None:
    for _ in range(times):
        capacity.take(THREAD, ONE, uid)
        capacity.release(THREAD, ONE, uid)
        capacity.leave(THREAD, uid)


def test_who_has_left_too_much_gets_no_more_of_that_kind_until_some_has_ended() -> None:
    capacity = room()
    leave(capacity, ADA, 4)
    assert not capacity.is_barred(THREAD, ADA)
    leave(capacity, ADA, 1)

    assert capacity.is_barred(THREAD, ADA)
    assert not capacity.is_barred(LOOP, ADA)
    assert not capacity.is_barred(THREAD, BOB)
    capacity.left_ended(THREAD, ADA)
    assert not capacity.is_barred(THREAD, ADA)


def test_what_is_left_takes_no_place_until_as_much_is_left_as_there_are_places() -> None:
    capacity = room(places=3)
    leave(capacity, ADA, 3)
    assert capacity.how_many(THREAD, ONE, NORMAL) == 3
    leave(capacity, ADA, 2)
    assert capacity.how_many(THREAD, ONE, NORMAL) == 1

    for _ in range(5):
        capacity.left_ended(THREAD, ADA)
    assert capacity.how_many(THREAD, ONE, NORMAL) == 3
    assert capacity.left == {}
    assert not capacity.wary


def test_what_is_left_counts_when_users_share_while_others_wait() -> None:
    capacity = room(most_left=100)
    leave(capacity, ADA, 7)
    assert not capacity.has_enough(THREAD, ADA)
    capacity.take(THREAD, ONE, ADA)

    assert capacity.has_enough(THREAD, ADA)
    assert not capacity.has_enough(THREAD, BOB)


def test_who_is_known_for_it_runs_little_and_wears_nobody_out() -> None:
    capacity = room()
    capacity.known_for_it = frozenset({(THREAD, ADA)})
    capacity.take(THREAD, ONE, ADA)
    assert not capacity.is_barred(THREAD, ADA)
    leave(capacity, ADA, 1)

    assert capacity.is_barred(THREAD, ADA)
    assert not capacity.is_barred(LOOP, ADA)
    leave(capacity, ADA, 4)
    assert not capacity.worn
    leave(capacity, BOB, 5)
    assert capacity.worn
    assert set(capacity.worn_by) == {(THREAD, ADA), (THREAD, BOB)}


def test_so_much_that_places_are_taken_wears_out_whoever_left_it() -> None:
    capacity = room(places=3)
    capacity.known_for_it = frozenset({(THREAD, ADA)})
    leave(capacity, ADA, 3)
    assert not capacity.worn
    leave(capacity, ADA, 1)
    assert capacity.worn


# ------------------------------------------------------------------------------------------------------------- a worker


async def left_by(store: Store, stage: Stage, crew: StagedCrew, count: int) -> None:
    await store.one_shots(count, task="stubborn", timeout=Duration(SECOND), max_retries=0)
    await drive(store, crew, 2 * SECOND)
    await drive(store, crew, 3 * SECOND)
    assert crew.attempts.left_behind == count


@pytest.mark.parametrize("priority", [Priority.NORMAL, Priority.HIGH])
async def test_others_of_the_same_class_go_past_those_of_who_is_barred(
    store: Store, stage: Stage, priority: Priority
) -> None:
    crew = await crew_on(store, stage, concurrency=10, max_abandoned_threads=2)
    await left_by(store, stage, crew, 3)
    before = len(stage.started)

    mine = await store.one_shots(5, task="noop", priority=priority)
    others = await store.one_shots(5, apart=1, task="noop", priority=priority, uid=store.stranger)
    await drive(store, crew, SECOND // 2)
    assert stage.started[before:] == others

    stage.go.set()
    async with asyncio.timeout(60):
        while crew.attempts.left_behind:
            await asyncio.sleep(0)
    await drive(store, crew, 2 * SECOND)
    assert set(stage.started[before:]) == {*others, *mine}


async def test_nobody_gives_way_to_one_who_is_barred(store: Store, stage: Stage) -> None:
    crew = await crew_on(store, stage, concurrency=4, max_abandoned_threads=2)
    await left_by(store, stage, crew, 3)
    stage.go.clear()
    low = await store.one_shots(4, task="wait", priority=Priority.LOW, preemptible=True, uid=store.stranger)
    await drive(store, crew, 2 * SECOND)
    assert set(low) <= set(stage.started)

    await store.one_shots(2, task="wait", priority=Priority.HIGH)
    await drive(store, crew, 3 * SECOND)
    assert stage.stopped == []


async def test_a_thread_counts_against_its_user_until_it_ends(
    store: Store, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = threading.Event()
    begun = threading.Semaphore(0)

    def stuck(ctx: Context) -> None:
        stage.started.append(RunId(ctx.run_id))
        begun.release()
        assert go.wait(20)

    stage.tasks = type(stage.tasks)()
    stage.tasks.add(Task("stubborn", stuck, isolation=THREAD, defaults={}, roles=()))
    crew = await crew_on(store, stage, threads=3)
    threads = ThreadExecutor(1_000)
    execution = Execution(stage.tasks, {THREAD: threads}, threads, Duration(SECOND))
    monkeypatch.setattr(crew.attempts, "_execution", execution)
    run_id = await store.one_shot(task="stubborn", timeout=Duration(SECOND), max_retries=0)
    await crew.worker.run_once()
    assert await asyncio.to_thread(begun.acquire, timeout=10)

    await store.clock.advance(Duration(SECOND + MILLISECOND))
    await crew.attempts.run_once()
    await asyncio.sleep(0.01)
    assert (len(crew.attempts), crew.attempts.left_behind, await store.state(run_id)) == (1, 0, State.RUNNING)

    await store.clock.advance(Duration(2 * SECOND))
    await crew.attempts.run_once()
    await crew.settling.run_once()
    assert (len(crew.attempts), crew.attempts.capacity.left) == (0, {(THREAD, store.uid): 1})
    assert outcomes(await store.run(run_id)) == [("timed_out", TOO_LONG)]

    go.set()
    async with asyncio.timeout(60):
        while crew.attempts.left_behind:
            await asyncio.sleep(0.001)
    await work(crew)
    await threads.close()


# ---------------------------------------------------------------------------------------------- what must run alone

BOTH = pytest.mark.parametrize("rule", [{"group": "g"}, {"gate": ("k", 1)}], ids=["group", "key"])


def outcomes(view: RunView) -> list[tuple[str, str | None]]:
    return [(attempt.outcome, attempt.error) for attempt in read_attempts(view.attempts)]


async def told_to_stop(store: Store, stage: Stage, **how: Any) -> tuple[StagedCrew, RunId, RunId]:
    """A run whose time is over, and its grace; and the next one of its group or its key."""
    crew = await crew_on(store, stage)
    how = {"timeout": Duration(SECOND), "max_retries": 0, **how}
    first = await store.one_shot(task="stubborn", **how)
    second = await store.one_shot(SECOND // 10, task="noop", **how)
    await drive(store, crew, 2 * SECOND)
    await drive(store, crew, 3 * SECOND)
    crew.prefetch.look_afresh()
    await drive(store, crew, SECOND)
    return crew, first, second


@BOTH
async def test_what_must_run_alone_waits_until_the_one_before_has_ended(
    store: Store, stage: Stage, rule: dict[str, Any]
) -> None:
    crew, first, second = await told_to_stop(store, stage, **rule)
    assert (await store.state(first), stage.started) == (State.RUNNING, [first])
    assert (len(crew.attempts), crew.attempts.left_behind, crew.busy) == (0, 1, False)

    stage.go.set()
    async with asyncio.timeout(60):
        while crew.attempts.left_behind:
            await asyncio.sleep(0)
    await crew.settling.run_once()
    await drive(store, crew, SECOND)

    assert outcomes(await store.run(first)) == [("timed_out", TOO_LONG)]
    assert (await store.state(first), stage.started) == (State.DEAD, [first, second])
    assert crew.attempts.capacity.used[LOOP] == 0


@BOTH
async def test_a_job_may_say_that_others_do_not_wait_for_a_function_that_does_not_stop(
    store: Store, stage: Stage, rule: dict[str, Any]
) -> None:
    crew, first, second = await told_to_stop(store, stage, **rule, on_left_behind=OnLeftBehind.RELEASE)

    assert (await store.state(first), stage.started, crew.attempts.left_behind) == (State.DEAD, [first, second], 1)


async def test_the_end_of_a_cancelled_one_says_that_it_did_not_stop(store: Store, stage: Stage) -> None:
    crew = await crew_on(store, stage)
    run_id = await store.one_shot(task="stubborn", group="g")
    await work(crew)
    await store.engine.running.cancel(store.uid, run_id, store.now)
    crew.mailbox.hint()
    await crew.mailbox.run_once()
    await drive(store, crew, 3 * SECOND)
    assert (await store.state(run_id), crew.attempts.left_behind) == (State.RUNNING, 1)

    stage.go.set()
    async with asyncio.timeout(60):
        while crew.attempts.left_behind:
            await asyncio.sleep(0)
    await crew.settling.run_once()
    view = await store.run(run_id)
    assert (view.state, outcomes(view)) == (State.CANCELLED, [("cancelled", LEFT_BEHIND)])


async def test_of_those_that_wait_a_worker_that_ends_leaves_the_outcomes(store: Store, stage: Stage) -> None:
    """Its process is about to end, and they with it: they are no losses, and are not started again."""
    crew, first, _ = await told_to_stop(store, stage, group="g")

    [end] = crew.attempts.forget()

    assert isinstance(end, Settlement)
    assert (end.run.run_id, end.state, end.failures, end.losses) == (first, State.DEAD, 1, 0)
    assert await store.state(first) is State.RUNNING
