"""How a worker shares out its places: priorities, sizes, users. On a clock that stands still."""

from collections import Counter
from collections.abc import Iterator

import pytest
from tests.services.worker_loops import OFFER, Stage, StagedCrew, crew_on, drive, let_end, work

from oncue.domain.ids import RunId
from oncue.domain.instants import HOUR, MILLISECOND, MINUTE, SECOND, Duration
from oncue.domain.placement import Priority, Resources
from oncue.domain.preemption import choose_preempted, stint
from oncue.domain.run import State, read_attempts
from oncue.executors.capture import capture_logging
from oncue.services import choosing, prefetch
from oncue.services.attempts import PREEMPTION_TIME, ActiveAttempt, Stop
from oncue.tasks import Isolation
from oncue_conformance.store import Store


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
    crew.prefetch.ask(None)
    store.advance(prefetch.SPACING)
    await work(crew)

    assert len(stage.started) == 10
    assert set(stage.started[8:]) < set(high)


# ---------------------------------------------------------------------------------------------------- preemption


async def with_all_places_held(store: Store, stage: Stage) -> tuple[StagedCrew, list[RunId]]:
    low = await store.one_shots(3, -MINUTE, apart=SECOND, task="wait", priority=Priority.LOW, preemptible=True)
    crew = await crew_on(store, stage, concurrency=3)
    await drive(store, crew, 2 * SECOND)
    assert stage.started == low
    return crew, low


async def ask(store: Store, crew: StagedCrew) -> None:
    crew.prefetch.ask(None)
    store.advance(prefetch.SPACING)
    await work(crew)


async def test_one_that_may_gives_way_to_high_priority_and_finishes_later(store: Store, stage: Stage) -> None:
    crew, low = await with_all_places_held(store, stage)
    high = await store.one_shot(priority=Priority.HIGH, task="wait")

    await drive(store, crew, SECOND)
    [gone] = stage.stopped
    assert gone in low
    assert stage.started[3:] == [high]
    view = await store.run(gone)
    [note] = read_attempts(view.attempts)
    assert (view.state, view.failures, view.losses, note.outcome) == (State.WAITING, 0, 0, "preempted")

    stage.go.set()
    await drive(store, crew, SECOND)
    assert [await store.state(run_id) for run_id in (*low, high)] == [State.SUCCEEDED] * 4


async def test_the_place_is_for_the_one_that_others_gave_way_to(store: Store, stage: Stage) -> None:
    """However long others wait already: they would be asked to give way in their turn."""
    await store.one_shots(6, -HOUR, apart=1, task="wait", priority=Priority.LOW, preemptible=True)
    crew = await crew_on(store, stage, concurrency=3)
    await drive(store, crew, SECOND)
    high = await store.one_shot(priority=Priority.HIGH, task="wait")

    await drive(store, crew, SECOND)

    assert (len(stage.stopped), stage.started[3:]) == (1, [high])


async def test_nobody_gives_way_while_another_worker_has_room(store: Store, stage: Stage) -> None:
    full, _ = await with_all_places_held(store, stage)
    idle = await crew_on(store, stage)
    await drive(store, idle, SECOND)
    high = await store.one_shot(priority=Priority.HIGH, task="wait")
    await ask(store, full)
    await drive(store, idle, SECOND)
    assert stage.started[3:] == [high]

    await drive(store, full, 2 * SECOND)

    assert stage.stopped == []


async def test_of_several_full_workers_one_makes_room(store: Store, stage: Stage) -> None:
    await store.one_shots(6, -MINUTE, apart=SECOND, task="wait", priority=Priority.LOW, preemptible=True)
    crews = [await crew_on(store, stage, concurrency=3) for _ in range(2)]
    for place, crew in enumerate(crews):
        crew.prefetch.peers.place, crew.prefetch.peers.count = place, 2
        await drive(store, crew, SECOND)
    await store.one_shot(priority=Priority.HIGH, task="wait")

    for _ in range(20):
        for crew in crews:
            await drive(store, crew, prefetch.PREEMPT_DELAY // 4)

    assert (len(stage.started), len(stage.stopped)) == (7, 1)


async def test_nobody_gives_way_to_what_is_not_high(store: Store, stage: Stage) -> None:
    crew, _ = await with_all_places_held(store, stage)
    await store.one_shot(-MINUTE, priority=Priority.NORMAL, task="wait")

    await drive(store, crew, MINUTE)

    assert stage.stopped == []


async def test_one_that_does_not_say_so_never_gives_way(store: Store, stage: Stage) -> None:
    await store.one_shots(3, -MINUTE, task="wait", priority=Priority.LOW)
    crew = await crew_on(store, stage, concurrency=3)
    await drive(store, crew, SECOND)
    await store.one_shot(priority=Priority.HIGH, task="wait")

    await drive(store, crew, MINUTE)

    assert stage.stopped == []


@pytest.mark.parametrize(
    ("short", "held", "chosen"),
    [
        (Resources(slots=1), [(Resources(), True), (Resources(), True)], [0]),
        (Resources(slots=1), [(Resources(), False)], None),
        (Resources(slots=3), [(Resources(), True), (Resources(), True)], None),
        (Resources(4_000, slots=0), [(Resources(), True), (Resources(4_000), False)], [1]),
        (Resources(4_000, slots=0), [(Resources(1_000), True), (Resources(4_000), True)], [1]),
        (Resources(memory_mb=10, slots=0), [(Resources(4_000), True), (Resources(memory_mb=10), True)], [1]),
        (Resources(2_000, slots=1), [(Resources(1_000), True), (Resources(1_000), False)], [0, 1]),
    ],
)
def test_who_gives_way_gives_what_is_short_and_no_more(
    short: Resources, held: list[tuple[Resources, bool]], chosen: list[int] | None
) -> None:
    assert choose_preempted(short, held) == chosen


async def test_nobody_gives_way_for_nothing(store: Store, stage: Stage) -> None:
    """What the high one needs is held by one that does not give way."""
    await store.one_shot(-MINUTE, task="wait", resources=Resources(cpu_milli=4_000))
    await store.one_shots(2, -MINUTE, task="wait", priority=Priority.LOW, preemptible=True)
    crew = await crew_on(store, stage, concurrency=10)
    await drive(store, crew, SECOND)
    await store.one_shot(priority=Priority.HIGH, task="wait", resources=Resources(cpu_milli=1_000))

    await drive(store, crew, MINUTE)

    assert (len(stage.started), stage.stopped) == (3, [])


async def test_what_a_big_high_run_needs_is_kept_for_it_while_others_give_way(store: Store, stage: Stage) -> None:
    crew, low = await with_all_places_held(store, stage)
    high = await store.one_shot(priority=Priority.HIGH, task="wait", resources=Resources(slots=3))

    await drive(store, crew, SECOND)

    assert sorted(stage.stopped) == sorted(low)
    assert stage.started[3:] == [high]


async def test_whoever_gave_way_has_a_time_of_its_own_before_it_does_again(store: Store, stage: Stage) -> None:
    low = await store.one_shot(-MINUTE, task="wait", priority=Priority.LOW, preemptible=True)
    crew = await crew_on(store, stage, concurrency=1)
    await drive(store, crew, SECOND)
    first = await store.one_shot(priority=Priority.HIGH, task="noop")
    await drive(store, crew, 2 * SECOND)
    assert stage.started == [low, first, low]

    await store.one_shot(priority=Priority.HIGH, task="noop")
    await drive(store, crew, stint(1) - 3 * SECOND)
    assert stage.stopped == [low]
    await drive(store, crew, 5 * SECOND)

    assert stage.stopped == [low, low]


async def test_a_thread_is_only_asked_and_keeps_its_place_until_it_ends(store: Store, stage: Stage) -> None:
    run_id = await store.one_shot(-MINUTE, task="heavy", priority=Priority.LOW, preemptible=True)
    crew = await crew_on(store, stage, threads=1)
    await drive(store, crew, SECOND)
    await store.one_shot(priority=Priority.HIGH, task="heavy")

    await drive(store, crew, SECOND)

    [going] = crew.attempts
    assert (going.stop, going.reports.cancelled, stage.stopped) == (Stop.PREEMPTED, True, [])
    assert await store.state(run_id) is State.RUNNING


async def test_a_thread_that_was_asked_has_its_time_before_another_is(store: Store, stage: Stage) -> None:
    await store.one_shots(5, -MINUTE, task="heavy", priority=Priority.LOW, preemptible=True)
    crew = await crew_on(store, stage, threads=5)
    await drive(store, crew, SECOND)
    await store.one_shot(priority=Priority.HIGH, task="heavy")

    await drive(store, crew, PREEMPTION_TIME)

    assert sum(going.stop is Stop.PREEMPTED for going in crew.attempts) == 1


@pytest.mark.parametrize("why", [Stop.PREEMPTED, Stop.DRAINING])
async def test_half_of_the_work_is_no_success(store: Store, stage: Stage, why: Stop) -> None:
    """A thread that saw that it should stop, and returned what it had."""
    stage.go.set()
    run_id = await store.one_shot(-SECOND, task="heavy", preemptible=True)
    crew = await crew_on(store, stage)
    run = (await store.claim(crew.worker_id, run_id))[0]
    crew.attempts.start([run])
    [going] = crew.attempts
    going.begun = True
    crew.attempts.stop(run_id, why)
    assert going.reports.cancelled  # as the task would ask
    await crew.rest()
    await crew.settling.run_once()

    assert await store.state(run_id) is State.WAITING


async def test_one_told_to_stop_before_its_first_step_is_handed_back(store: Store, stage: Stage) -> None:
    run_id = await store.one_shot(-SECOND, task="wait", preemptible=True)
    crew = await crew_on(store, stage)
    [run] = await store.claim(crew.worker_id, run_id)

    crew.attempts.start([run])
    crew.attempts.stop(run_id, Stop.PREEMPTED)
    await crew.rest()
    await crew.settling.run_once()

    assert (len(crew.attempts), stage.started, await store.state(run_id)) == (0, [], State.WAITING)
    assert crew.attempts.capacity.how_many(Isolation.LOOP, Resources(), Priority.NORMAL) == 3


async def test_what_stops_already_is_not_disturbed_by_a_second_reason(store: Store, stage: Stage) -> None:
    run_id = await store.one_shot(-SECOND, task="stubborn", preemptible=True)
    crew = await crew_on(store, stage)
    await work(crew)
    crew.attempts.stop(run_id, Stop.PREEMPTED)
    await crew.rest()
    [going] = crew.attempts
    assert going.task is not None

    crew.attempts.stop(run_id, Stop.DRAINING)

    assert going.task.cancelling() == 1
    stage.go.set()
    await crew.rest()


async def test_one_that_was_to_give_way_can_still_be_cancelled_and_time_out(store: Store, stage: Stage) -> None:
    run_id = await store.one_shot(-MINUTE, task="heavy", priority=Priority.LOW, preemptible=True)
    crew = await crew_on(store, stage, threads=1)
    await work(crew)
    crew.attempts.stop(run_id, Stop.PREEMPTED)

    crew.attempts.stop(run_id, Stop.CANCELLED)
    await crew.rest()

    assert stage.stopped == [run_id]


async def test_what_there_is_no_room_for_after_all_is_handed_back(store: Store, stage: Stage) -> None:
    """The answer to its claim was lost, and its place is another's by now."""
    runs = await store.one_shots(2, -SECOND, task="wait")
    crew = await crew_on(store, stage, concurrency=1)
    for run in await store.claim(crew.worker_id, *runs):
        crew.attempts.start([run])
    await crew.rest()
    await crew.settling.run_once()

    assert len(crew.attempts) == 1
    assert sorted([await store.state(run_id) for run_id in runs]) == [State.WAITING, State.RUNNING]


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
    store.advance(choosing.KEEP_AFTER[Priority.NORMAL] + SECOND)
    later = await store.one_shots(2, 0, task="wait", resources=small)
    for going in list(crew.attempts)[:1]:  # half of the room is free: enough for a small one only
        crew.attempts.stop(going.run.run_id, Stop.CANCELLED)
    await crew.rest()
    crew.prefetch.ask(None)
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
    store.advance(choosing.KEEP_AFTER[Priority.NORMAL] + SECOND)
    small = await store.one_shot(0, task="wait", resources=Resources(cpu_milli=1_000))

    await ask(store, crew)

    assert small in stage.started


async def test_a_big_run_is_not_starved_by_turns(store: Store, stage: Stage) -> None:
    for uid in (store.uid, store.stranger):
        await store.one_shots(60, -MINUTE, apart=1, task="wait", uid=uid)
    crew = await crew_on(store, stage, concurrency=2)
    await drive(store, crew, SECOND)
    big = await store.one_shot(-3 * MINUTE, task="wait", resources=Resources(slots=2), uid=store.stranger)
    crew.prefetch.ask(None)
    await drive(store, crew, SECOND)

    await one_after_another(store, crew, 2)

    assert big in stage.started


@pytest.mark.parametrize("priority", [Priority.NORMAL, Priority.HIGH])
async def test_a_big_run_is_not_starved_by_small_ones_of_its_own_priority(
    store: Store, stage: Stage, priority: Priority
) -> None:
    await store.one_shots(60, -MINUTE, apart=1, task="wait", priority=priority)
    crew = await crew_on(store, stage, concurrency=2)
    await drive(store, crew, SECOND)
    big = await store.one_shot(-3 * MINUTE, task="wait", resources=Resources(slots=2), priority=priority)
    crew.prefetch.ask(None)
    await drive(store, crew, SECOND)

    await one_after_another(store, crew, 2)

    assert big in stage.started


async def test_not_all_workers_keep_room_for_one_big_run(store: Store, stage: Stage) -> None:
    crews = [await crew_on(store, stage, concurrency=4) for _ in range(3)]
    for place, crew in enumerate(crews):
        crew.prefetch.peers.place, crew.prefetch.peers.count = place, 3
        await store.one_shot(-SECOND, task="wait")
        await drive(store, crew, prefetch.SWEEP)
    await store.one_shot(-4 * SECOND, task="wait", resources=Resources(slots=4))
    await store.one_shots(12, task="wait")

    for crew in crews:
        await drive(store, crew, SECOND // 2)

    assert sorted(len(crew.attempts) for crew in crews) == [1, 4, 4]


async def test_what_asks_for_all_places_gets_those_kept_for_high_priority_too(store: Store, stage: Stage) -> None:
    big = await store.one_shot(-SECOND, task="wait", resources=Resources(slots=10))
    crew = await crew_on(store, stage, concurrency=10, reserved_for_high=0.2)

    await drive(store, crew, SECOND)

    assert stage.started == [big]


async def test_what_asks_for_more_places_than_there_are_is_in_nobodys_way(store: Store, stage: Stage) -> None:
    await store.one_shot(-MINUTE, task="heavy", resources=Resources(slots=3))
    plain = await store.one_shots(2, -SECOND, task="heavy")
    crew = await crew_on(store, stage, threads=2)

    await drive(store, crew, 5 * SECOND)

    assert sorted(stage.started) == sorted(plain)


# ---------------------------------------------------------------------------------------------------- users


async def test_when_work_is_late_users_take_turns(store: Store, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """One has far more than a look reads; the other's few runs are not behind all of it."""
    monkeypatch.setattr(prefetch, "LIMIT", 8)
    monkeypatch.setattr(choosing, "ENOUGH_DUE", 4)
    await store.one_shots(400, -MINUTE, apart=1)
    crew = await crew_on(store, stage, concurrency=2)
    await work(crew)
    others = await store.one_shots(3, -2 * SECOND, apart=1, uid=store.stranger)
    crew.prefetch.ask(None)

    while not set(others) <= set(stage.started):
        await drive(store, crew, MILLISECOND)

    assert len(stage.started) < 200


async def one_after_another(store: Store, crew: StagedCrew, n: int) -> list[ActiveAttempt]:
    """So many places come free, always that of the one that runs longest: who gets them."""
    started: list[ActiveAttempt] = []
    for _ in range(n):
        await let_end(crew, min(crew.attempts, key=lambda going: going.started_at).run.run_id)
        before = {going.run.run_id for going in crew.attempts}
        await drive(store, crew, SECOND // 2)
        started += [going for going in crew.attempts if going.run.run_id not in before]
    return started


async def test_places_that_come_free_one_by_one_go_to_everybody(store: Store, stage: Stage) -> None:
    for uid in (store.uid, store.stranger):
        await store.one_shots(30, -MINUTE, apart=1, task="wait", uid=uid)
    crew = await crew_on(store, stage, concurrency=1)
    await drive(store, crew, SECOND)

    users = Counter(going.run.uid for going in await one_after_another(store, crew, 12))

    assert min(users[store.uid], users[store.stranger]) >= 3


async def test_turns_alternate_with_rank(store: Store, stage: Stage) -> None:
    """Two users have much of low priority that is late: what is high or normal is not behind all of it."""
    for uid in (store.uid, store.stranger):
        await store.one_shots(30, -2 * MINUTE, apart=1, task="wait", priority=Priority.LOW, uid=uid)
    crew = await crew_on(store, stage, concurrency=4)
    await drive(store, crew, SECOND)
    await store.one_shots(2, task="wait", priority=Priority.HIGH)
    await store.one_shots(2, task="wait", priority=Priority.NORMAL)

    order = [going.spec.priority for going in await one_after_another(store, crew, 10)]

    assert (order.count(Priority.HIGH), order.count(Priority.NORMAL)) == (2, 2)
    assert order[:4].count(Priority.HIGH) == 2


async def test_places_that_one_user_may_not_have_go_to_others(store: Store, stage: Stage) -> None:
    await store.one_shots(40, -MINUTE, apart=1, task="wait")
    crew = await crew_on(store, stage, concurrency=10)
    await drive(store, crew, SECOND)
    await store.one_shots(20, -30 * SECOND, apart=1, task="wait", uid=store.stranger)
    for going in list(crew.attempts)[:5]:
        await let_end(crew, going.run.run_id)

    await drive(store, crew, SECOND)

    users = Counter(going.run.uid for going in crew.attempts)
    assert users[store.uid] + users[store.stranger] == 10
    assert users[store.stranger] >= 2


async def test_a_user_whose_oldest_runs_may_not_start_does_not_keep_others_waiting(store: Store, stage: Stage) -> None:
    """They are held by a group, as by a pause that follows run by run: then the search for turns finds only others."""
    await store.one_shots(1_002, -2 * MINUTE, apart=1, task="wait", group="one after the other")
    await store.one_shots(40, -MINUTE, apart=1, task="wait")
    crew = await crew_on(store, stage, concurrency=10)
    await drive(store, crew, SECOND)
    waits = await store.one_shot(-30 * SECOND, task="wait", uid=store.stranger)
    await let_end(crew, list(crew.attempts)[-1].run.run_id)

    await drive(store, crew, SECOND)

    assert waits in stage.started


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


# ---------------------------------------------------------------------------------------------------- paused queues


async def test_what_is_in_a_paused_queue_is_in_nobodys_way(store: Store, stage: Stage) -> None:
    """Neither its number, nor its size, nor whose it is."""
    crew = await crew_on(store, stage, concurrency=10)
    await store.one_shots(300, -MINUTE, task="noop", queue="slow", uid=store.stranger)
    await store.one_shot(-MINUTE, task="wait", queue="slow", resources=Resources(slots=10))
    await store.fleet.pause_queue("slow", store.now)
    others = await store.one_shots(12, -SECOND, task="wait")

    await drive(store, crew, 5 * SECOND)

    assert len(crew.attempts) == 10
    assert set(stage.started) < set(others)


async def test_when_a_queue_is_resumed_its_runs_start(store: Store, stage: Stage) -> None:
    crew = await crew_on(store, stage, concurrency=10)
    run_id = await store.one_shot(-MINUTE, task="noop", queue="slow")
    await store.fleet.pause_queue("slow", store.now)
    await drive(store, crew, 2 * SECOND)
    assert stage.started == []

    await store.fleet.resume_queue("slow", store.now)
    crew.prefetch.ask(None)  # as the hint would
    await drive(store, crew, SECOND // 10)

    assert stage.started == [run_id]


async def test_a_worker_whose_turn_it_is_not_rests_meanwhile(store: Store, stage: Stage) -> None:
    """Another one is to make room for the high run first: until then there is nothing to do."""
    crew, _ = await with_all_places_held(store, stage)
    high = await store.one_shot(priority=Priority.HIGH, task="wait")
    crew.prefetch.peers.count = 4
    crew.prefetch.peers.place = (3 - high.int) % 4  # it is the last of four
    crew.prefetch.ask(None)
    passes = 0
    until = store.now + 3 * prefetch.PREEMPT_DELAY
    while store.now < until:
        passes += 1
        await store.clock.advance(Duration(max(await crew.worker.run_once(), MILLISECOND)))
        await crew.rest()

    assert passes < 15
    assert stage.stopped == []
