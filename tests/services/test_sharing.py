"""How a worker shares out its places: priorities, sizes, users. On a clock that stands still."""

from collections.abc import Iterator

import pytest
from tests.services.crews import OFFER, Stage, crew_on, work

from oncue.domain.ids import RunId
from oncue.domain.instants import MINUTE, SECOND, Duration
from oncue.domain.placement import Priority, Resources
from oncue.domain.preemption import stint
from oncue.domain.run import State, read_attempts
from oncue.services import lookout
from oncue.services.attempts import Stop
from oncue.services.capture import capture_logging
from oncue.testing.conformance.store import Store

TINY = Duration(1)


@pytest.fixture
def stage() -> Iterator[Stage]:
    undo = capture_logging()
    yield Stage()
    undo()


# ---------------------------------------------------------------------------------------------------- reserved places


async def test_the_last_places_are_kept_for_high_priority(store: Store, stage: Stage) -> None:
    await store.one_shots(12, -SECOND, task="wait")
    crew = await crew_on(store, stage, concurrency=10, reserved_for_high=0.2)
    await work(crew)
    assert len(stage.started) == 8

    high = await store.one_shots(3, priority=Priority.HIGH, task="wait")
    crew.lookout.ask(None)
    store.advance(lookout.SPACING)
    await work(crew)

    assert len(stage.started) == 10
    assert set(stage.started[8:]) < set(high)


# ---------------------------------------------------------------------------------------------------- preemption


async def with_all_places_held(store: Store, stage: Stage, **how: object) -> tuple[object, list[RunId]]:
    low = await store.one_shots(3, -MINUTE, apart=SECOND, task="wait", priority=Priority.LOW, preemptible=True, **how)
    crew = await crew_on(store, stage, concurrency=3)
    await work(crew)
    assert stage.started == low
    return crew, low


async def ask(store: Store, crew: object) -> None:
    crew.lookout.ask(None)
    store.advance(lookout.SPACING)
    await work(crew)


async def test_one_that_may_gives_way_to_high_priority_and_finishes_later(store: Store, stage: Stage) -> None:
    crew, low = await with_all_places_held(store, stage)
    high = await store.one_shot(priority=Priority.HIGH, task="wait")

    await ask(store, crew)
    [gone] = stage.stopped
    assert gone in low
    view = await store.run(gone)
    [note] = read_attempts(view.attempts)
    assert (view.state, view.failures, view.losses, note.outcome) == (State.WAITING, 0, 0, "preempted")
    await ask(store, crew)
    assert stage.started[-1] == high

    stage.go.set()
    for _ in range(4):
        await ask(store, crew)
    assert [await store.state(run_id) for run_id in (*low, high)] == [State.SUCCEEDED] * 4


async def test_nobody_gives_way_to_what_is_not_high(store: Store, stage: Stage) -> None:
    crew, _ = await with_all_places_held(store, stage)
    await store.one_shot(-MINUTE, priority=Priority.NORMAL, task="wait")

    await ask(store, crew)

    assert stage.stopped == []


async def test_one_that_does_not_say_so_never_gives_way(store: Store, stage: Stage) -> None:
    await store.one_shots(3, -MINUTE, task="wait", priority=Priority.LOW)
    crew = await crew_on(store, stage, concurrency=3)
    await work(crew)
    await store.one_shot(priority=Priority.HIGH, task="wait")

    await ask(store, crew)

    assert stage.stopped == []


async def test_whoever_gave_way_has_a_time_of_its_own_before_it_does_again(store: Store, stage: Stage) -> None:
    low = await store.one_shot(-MINUTE, task="wait", priority=Priority.LOW, preemptible=True)
    crew = await crew_on(store, stage, concurrency=1)
    await work(crew)
    first = await store.one_shot(priority=Priority.HIGH, task="noop")
    await ask(store, crew)
    await ask(store, crew)
    await ask(store, crew)
    assert stage.started == [low, first, low]

    await store.one_shot(priority=Priority.HIGH, task="noop")
    await ask(store, crew)
    assert stage.stopped == [low]
    store.advance(stint(1))
    await ask(store, crew)

    assert stage.stopped == [low, low]


async def test_a_thread_is_only_asked_and_keeps_its_place_until_it_ends(store: Store, stage: Stage) -> None:
    run_id = await store.one_shot(-MINUTE, task="heavy", priority=Priority.LOW, preemptible=True)
    crew = await crew_on(store, stage, threads=1)
    await work(crew)
    await store.one_shot(priority=Priority.HIGH, task="heavy")

    await ask(store, crew)

    [going] = crew.attempts
    assert (going.stop, going.reports.cancelled, stage.stopped) == (Stop.PREEMPTED, True, [])
    assert await store.state(run_id) is State.RUNNING


async def test_one_that_was_to_give_way_can_still_be_cancelled_and_time_out(store: Store, stage: Stage) -> None:
    run_id = await store.one_shot(-MINUTE, task="heavy", priority=Priority.LOW, preemptible=True)
    crew = await crew_on(store, stage, threads=1)
    await work(crew)
    crew.attempts.stop(run_id, Stop.PREEMPTED)

    crew.attempts.stop(run_id, Stop.CANCELLED)
    await crew.rest()

    assert stage.stopped == [run_id]


# ---------------------------------------------------------------------------------------------------- sizes


async def test_what_does_not_fit_waits_and_what_fits_goes_ahead(store: Store, stage: Stage) -> None:
    half = Resources(cpu_milli=2_000)
    first, second = await store.one_shots(2, -2 * SECOND, task="wait", resources=Resources(cpu_milli=3_000), apart=1)
    small = await store.one_shot(-SECOND, task="wait", resources=Resources(cpu_milli=1_000))
    crew = await crew_on(store, stage, concurrency=10)
    assert OFFER.resources.cpu_milli == 2 * half.cpu_milli

    await work(crew)
    assert stage.started == [first, small]
    stage.go.set()
    await crew.rest()
    await work(crew, passes=2)

    assert stage.started == [first, small, second]


async def test_what_it_held_is_free_again_however_it_ends(store: Store, stage: Stage) -> None:
    big = {"resources": Resources(cpu_milli=4_000, memory_mb=4_000, slots=3), "max_retries": 0}
    for task in ("noop", "fail", "wait"):
        run_id = await store.one_shot(-SECOND, task=task, **big)
        crew = await crew_on(store, stage)
        await work(crew)
        crew.attempts.stop(run_id, Stop.CANCELLED)
        await crew.rest()
        await crew.settling.run_once()
        assert not crew.busy
        assert crew.attempts.capacity.fits(stage.tasks.get("noop").takes, Resources(4_000, 4_000, 3), Priority.NORMAL)


async def test_a_big_run_is_not_starved_by_small_ones(store: Store, stage: Stage) -> None:
    """Small ones come without end; after a while room is kept until the big one fits."""
    crew = await crew_on(store, stage, concurrency=10)
    small = Resources(cpu_milli=2_000)
    await store.one_shots(2, -SECOND, task="wait", resources=small)
    await work(crew)
    big = await store.one_shot(0, task="wait", resources=Resources(cpu_milli=4_000))
    store.advance(lookout.KEEP_AFTER + SECOND)
    later = await store.one_shots(2, 0, task="wait", resources=small)
    for going in list(crew.attempts)[:1]:  # half of the room is free: enough for a small one only
        crew.attempts.stop(going.run.run_id, Stop.CANCELLED)
    await crew.rest()
    crew.lookout.ask(None)
    await work(crew, passes=2)
    assert not set(later) & set(stage.started)
    unasking = await store.one_shot(0, task="noop")  # asks for none of what is kept
    await ask(store, crew)
    assert unasking in stage.started

    for going in list(crew.attempts):
        crew.attempts.stop(going.run.run_id, Stop.CANCELLED)
    await crew.rest()
    await work(crew, passes=2)

    assert big in stage.started


async def test_room_is_not_kept_for_a_big_run_that_is_gone(store: Store, stage: Stage) -> None:
    crew = await crew_on(store, stage, concurrency=10)
    await store.one_shot(-SECOND, task="wait", resources=Resources(cpu_milli=2_000))
    await work(crew)
    big = await store.one_shot(0, task="wait", resources=Resources(cpu_milli=4_000))
    await ask(store, crew)
    await store.running.cancel(None, big, store.now)
    store.advance(lookout.KEEP_AFTER + SECOND)
    small = await store.one_shot(0, task="wait", resources=Resources(cpu_milli=1_000))

    await ask(store, crew)

    assert small in stage.started


# ---------------------------------------------------------------------------------------------------- users


async def test_when_work_is_late_users_take_turns(store: Store, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """One has far more than a look reads; the other's few runs are not behind all of it."""
    monkeypatch.setattr(lookout, "LIMIT", 8)
    monkeypatch.setattr(lookout, "ENOUGH", 4)
    await store.one_shots(40, -MINUTE, apart=1)
    crew = await crew_on(store, stage, concurrency=2)
    await work(crew)
    others = await store.one_shots(3, -2 * SECOND, apart=1, uid=store.stranger)

    for _ in range(4):
        await ask(store, crew)

    assert set(others) < set(stage.started)
    assert len(stage.started) < 16


async def test_one_user_leaves_some_places_to_others_who_wait(store: Store, stage: Stage) -> None:
    await store.one_shots(20, -MINUTE, apart=1, task="wait")
    others = await store.one_shots(4, -SECOND, apart=1, task="wait", uid=store.stranger)
    crew = await crew_on(store, stage, concurrency=10)

    for _ in range(3):
        await ask(store, crew)

    assert len(stage.started) == 10
    assert len(set(stage.started) & set(others)) >= 2


async def test_alone_a_user_gets_everything(store: Store, stage: Stage) -> None:
    await store.one_shots(20, -MINUTE, apart=1, task="wait")
    crew = await crew_on(store, stage, concurrency=10)

    for _ in range(3):
        await ask(store, crew)

    assert len(stage.started) == 10
