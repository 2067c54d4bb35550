"""What a user leaves running that cannot be stopped counts against that user, and takes no place from others."""

import asyncio
import threading
from collections.abc import Iterator

import pytest
from tests.services.worker_loops import Stage, StagedCrew, crew_on, drive, work

from oncue.context import Context
from oncue.domain.ids import RunId, UserNumber
from oncue.domain.instants import MILLISECOND, SECOND, Duration
from oncue.domain.placement import Priority, Resources
from oncue.executors.capture import capture_logging
from oncue.executors.threads import ThreadExecutor
from oncue.services.capacity import Capacity
from oncue.services.execution import Execution
from oncue.tasks import Isolation, Task
from oncue.testing.conformance.store import Store

THREAD, LOOP = Isolation.THREAD, Isolation.LOOP
ADA, BOB = UserNumber(1), UserNumber(2)
ONE = Resources()
NORMAL = Priority.NORMAL


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
    threads = ThreadExecutor(3, 1_000)
    execution = Execution(stage.tasks, {THREAD: threads}, threads, Duration(SECOND))
    monkeypatch.setattr(crew.attempts, "_execution", execution)
    await store.one_shot(task="stubborn", timeout=Duration(SECOND), max_retries=0)
    await crew.worker.run_once()
    assert await asyncio.to_thread(begun.acquire, timeout=10)

    await store.clock.advance(Duration(SECOND + MILLISECOND))
    await crew.attempts.run_once()
    async with asyncio.timeout(60):
        while len(crew.attempts):
            await asyncio.sleep(0)
    assert crew.attempts.capacity.left == {(THREAD, store.uid): 1}

    go.set()
    async with asyncio.timeout(60):
        while crew.attempts.left_behind:
            await asyncio.sleep(0.001)
    await work(crew)
    await threads.close()
