"""The worker and its crew on a clock that stands still: what is claimed, started, stopped and written down."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from tests.services.worker_loops import Stage, crew_on, drive, final, work

from oncue import Context
from oncue.domain.errors import StoreUnavailable
from oncue.domain.ids import RunId
from oncue.domain.instants import DAY, MILLISECOND, MINUTE, SECOND, Duration, Instant
from oncue.domain.placement import Priority
from oncue.domain.policy import Retry
from oncue.domain.run import Claimed, RunView, State, read_attempts
from oncue.engines.counted import CountedEngine
from oncue.engines.hints import SOON
from oncue.engines.port import Hint, Topic
from oncue.executors.capture import capture_logging
from oncue.metrics import table
from oncue.metrics.metric import Roles
from oncue.metrics.numbers import Numbers
from oncue.services import choosing, prefetch, settling
from oncue.services.attempts import Stop
from oncue.services.cancel_inbox import POLL_INTERVAL
from oncue.services.loop import LONGEST_WAIT
from oncue_conformance.store import Store


@pytest.fixture
def stage() -> Iterator[Stage]:
    undo = capture_logging()
    yield Stage()
    undo()


# ------------------------------------------------------------------------------------------------------ on its instant


async def test_a_run_starts_on_its_instant_and_not_before(store: Store, stage: Stage) -> None:
    run_id = await store.one_shot(400 * MILLISECOND)
    crew = await crew_on(store, stage)

    wait = await crew.worker.run_once()
    assert (stage.started, wait) == ([], 400 * MILLISECOND)
    store.advance(400 * MILLISECOND - 1)
    assert await crew.worker.run_once() == 1
    assert stage.started == []
    store.advance(1)
    await work(crew)

    assert stage.started == [run_id]
    view = await store.run(run_id)
    assert (view.state, view.result, view.started_at) == (State.SUCCEEDED, b"1", store.now)


async def test_without_a_hint_a_run_that_is_due_later_than_soon_starts_on_its_instant(
    store: Store, stage: Stage
) -> None:
    """Whenever it is created: the sweep that reads it may have been just before."""
    crew = await crew_on(store, stage)
    run_ids = list[RunId]()
    for _ in range(12):
        await drive(store, crew, 90 * MILLISECOND)
        run_ids.append(await store.one_shot(SOON + 1))
    await drive(store, crew, 2 * SECOND)

    for run_id in run_ids:
        view = await store.run(run_id)
        assert view.started_at == view.due


async def test_a_worker_without_work_asks_twice_a_second_and_what_it_holds_every_five_seconds(
    store: Store, stage: Stage
) -> None:
    await store.one_shot(-SECOND)  # else there is no class to look for
    numbers = Numbers(None, Roles.WORKER)
    plain, store.engine = store.engine, CountedEngine(store.engine, numbers, store.clock)
    crew = await crew_on(store, stage)
    await drive(store, crew, 2 * SECOND)
    store.engine = plain
    asked = how_often(numbers)
    await drive(store, crew, 10 * SECOND)

    assert how_often(numbers) - asked == {"peek": 10, "classes": 10, "holdings": 2}


async def test_workers_without_work_that_take_the_same_share_the_sweeps_and_miss_nothing(
    store: Store, stage: Stage
) -> None:
    """Each sweeps every five seconds, one of them every half a second: without any hint, one finds what is due."""
    await store.one_shot(-SECOND, task="noop")
    numbers = Numbers(None, Roles.WORKER)
    store.engine = CountedEngine(store.engine, numbers, store.clock)
    crews = [await crew_on(store, stage) for _ in range(10)]
    for place, crew in enumerate(crews):
        crew.prefetch.peers.alike_before, crew.prefetch.peers.alike = place, 10

    async def together(length: int) -> None:
        end = store.now + length
        while store.now < end:
            for crew in crews:
                await crew.worker.run_once()
                await crew.rest()
                await crew.settling.run_once()
            await store.clock.advance(Duration(10 * MILLISECOND))

    await together(6 * SECOND)
    asked = how_often(numbers)
    await together(20 * SECOND)
    assert (how_often(numbers) - asked)["peek"] == 40
    missed, later = await store.one_shot(), await store.one_shot(SOON + 1)
    await together(2 * SECOND)

    late, on_time = await store.run(missed), await store.run(later)
    assert late.started_at is not None
    assert late.started_at - late.due <= 520 * MILLISECOND
    assert on_time.started_at is not None
    assert on_time.started_at - on_time.due <= 10 * MILLISECOND


async def test_a_hint_ends_the_calm_of_a_worker_that_shares_the_sweeps(store: Store, stage: Stage) -> None:
    await store.one_shot(-SECOND)
    numbers = Numbers(None, Roles.WORKER)
    store.engine = CountedEngine(store.engine, numbers, store.clock)
    crew = await crew_on(store, stage)
    crew.prefetch.peers.alike = 10
    await drive(store, crew, 15 * SECOND - store.now % (5 * SECOND) + MILLISECOND)  # it has just had its turn
    asked = how_often(numbers)
    await store.one_shot(-SECOND)  # of which there is no hint
    crew.prefetch.ask(Instant(store.now + DAY), crew.prefetch.classes)

    await drive(store, crew, SECOND + 10 * MILLISECOND)

    assert (how_often(numbers) - asked)["claim"] == 1


def how_often(numbers: Numbers) -> Counter[str]:
    """How often each verb of the store was called."""
    calls = [one for one in numbers.series() if one.name == table.STORE_CALLS.name]
    return Counter({one.labels[0]: int(sum(one.values[1:])) for one in calls})


async def test_the_start_that_is_told_while_it_runs_is_the_one_that_is_told_when_it_has_ended(store: Store) -> None:
    seen: list[Instant | None] = []

    class Slow(Stage):
        async def noop(self, ctx: Context) -> int:
            store.advance(3 * MILLISECOND)
            seen.append((await store.run(RunId(ctx.run_id))).started_at)
            return await super().noop(ctx)

    run_ids = await store.one_shots(2, -SECOND)
    crew = await crew_on(store, Slow())

    await work(crew)

    assert [(await store.run(run_id)).started_at for run_id in run_ids] == seen


async def test_what_is_due_is_started_in_order_as_far_as_there_is_room(store: Store, stage: Stage) -> None:
    first, second, third, fourth = await store.one_shots(4, -10 * SECOND, apart=SECOND, task="wait")
    crew = await crew_on(store, stage, concurrency=3)

    await work(crew)
    assert stage.started == [first, second, third]
    stage.go.set()
    await crew.rest()
    await work(crew, passes=2)

    assert stage.started == [first, second, third, fourth]


async def test_a_high_run_overtakes_those_that_wait_for_room(store: Store, stage: Stage) -> None:
    low = await store.one_shot(-SECOND, priority=Priority.LOW)
    normal = await store.one_shot(-SECOND, priority=Priority.NORMAL)
    late_but_high = await store.one_shot(0, priority=Priority.HIGH)
    crew = await crew_on(store, stage, concurrency=1)

    await work(crew, passes=3)

    assert stage.started == [late_but_high, normal, low]


async def test_those_of_one_claim_start_by_priority(
    store: Store, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    low = await store.one_shot(-SECOND, priority=Priority.LOW)
    high = await store.one_shot(0, priority=Priority.HIGH)
    claim = store.running.claim

    async def unsorted(*given: Any) -> list[Claimed]:  # as PostgreSQL may return them
        return sorted(await claim(*given), key=lambda run: run.due)

    monkeypatch.setattr(store.engine.running, "claim", unsorted)
    await work(await crew_on(store, stage))

    assert stage.started == [high, low]


async def test_what_a_claim_does_not_return_is_not_started(store: Store, stage: Stage) -> None:
    run_id = await store.one_shot(100 * MILLISECOND)
    crew = await crew_on(store, stage)
    await crew.worker.run_once()
    await store.running.cancel(store.uid, run_id, store.now)

    store.advance(SECOND)
    await work(crew)

    assert stage.started == []


async def test_a_hint_makes_it_look_at_once(store: Store, stage: Stage) -> None:
    crew = await crew_on(store, stage)
    await work(crew)
    store.advance(prefetch.SPACING)
    run_id = await store.one_shot()

    crew.concerns[Topic.RUNS](Hint(Topic.RUNS, due=store.now))
    await work(crew)

    assert stage.started == [run_id]


async def test_without_hints_a_run_is_found_within_a_second_of_being_due(store: Store, stage: Stage) -> None:
    crew = await crew_on(store, stage)
    await work(crew)
    run_id = await store.one_shot(10 * MILLISECOND)  # inside the stretch that was read already

    for _ in range(5):
        store.advance(250 * MILLISECOND)
        await work(crew)

    assert stage.started == [run_id]


async def test_a_run_moved_to_sooner_starts_at_its_new_instant(store: Store, stage: Stage) -> None:
    run_id = await store.one_shot(400 * MILLISECOND)
    crew = await crew_on(store, stage)
    await work(crew)
    store.advance(prefetch.SPACING)
    await store.edit(run_id, schedule=(await store.new_one_shot(100 * MILLISECOND)).job.spec.schedule)
    crew.concerns[Topic.RUNS](Hint(Topic.RUNS, due=store.at(100 * MILLISECOND)))
    await work(crew)

    store.advance(100 * MILLISECOND)
    await work(crew)

    assert stage.started == [run_id]


async def test_a_backlog_of_one_kind_does_not_keep_the_other_from_being_seen(
    store: Store, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choosing, "ENOUGH_DUE", 2)
    await store.one_shots(6, -MINUTE, task="heavy")
    crew = await crew_on(store, stage, threads=1)
    await work(crew)
    run_id = await store.one_shot(10 * MILLISECOND)

    for _ in range(5):
        store.advance(250 * MILLISECOND)
        await work(crew)

    assert run_id in stage.started
    assert len(stage.started) == 2


async def test_a_backlog_larger_than_one_look_is_read_on(
    store: Store, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without waiting for the next sweep, and also when they are all due at one instant."""
    monkeypatch.setattr(prefetch, "LIMIT", 3)
    monkeypatch.setattr(choosing, "ENOUGH_DUE", 2)
    runs = [*await store.one_shots(5, -MINUTE), *await store.one_shots(5, -SECOND, apart=MILLISECOND)]
    crew = await crew_on(store, stage, concurrency=2)

    for _ in range(12):
        store.advance(prefetch.SPACING)
        await work(crew)

    assert sorted(stage.started[:5]) == sorted(runs[:5])
    assert stage.started[5:] == runs[5:]


async def test_a_backlog_that_appears_behind_the_window_is_read_on(
    store: Store, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One look where the hint points is not enough for them all, and the next sweep is a second away."""
    monkeypatch.setattr(prefetch, "LIMIT", 3)
    monkeypatch.setattr(choosing, "ENOUGH_DUE", 2)
    first = await store.one_shot()  # of the same class, of which everything up to now has been read then
    crew = await crew_on(store, stage, concurrency=2)
    await work(crew)
    store.advance(prefetch.SPACING)
    runs = await store.one_shots(10, -100 * MILLISECOND, apart=MILLISECOND)
    crew.concerns[Topic.RUNS](Hint(Topic.RUNS, due=store.at(-100 * MILLISECOND)))

    for _ in range(12):
        await work(crew)
        store.advance(prefetch.SPACING)

    assert stage.started == [first, *runs]


async def test_only_tasks_this_worker_has_are_taken(store: Store, stage: Stage) -> None:
    await store.one_shot(task="unknown")
    mine = await store.one_shot(task="noop")
    crew = await crew_on(store, stage)

    await work(crew)

    assert stage.started == [mine]


# ----------------------------------------------------------------------------------------------- what attempts come to


@pytest.mark.parametrize(
    ("how", "state", "error_type", "wait"),
    [
        ("boom", State.WAITING, "RuntimeError", 2 * SECOND),
        ("never again", State.DEAD, "NoRetry", None),
        ("later", State.WAITING, "RetryAfter", 40 * SECOND),
        ("some day", State.WAITING, "RetryAfter", 2 * SECOND),
        ("itself", State.WAITING, "CancelledError", 2 * SECOND),
    ],
)
async def test_failures(store: Store, stage: Stage, how: str, state: State, error_type: str, wait: int | None) -> None:
    run_id = await store.one_shot(task="fail", payload=b'{"how":"%s"}' % how.encode(), retry=Retry(jitter=0))
    crew = await crew_on(store, stage)

    await work(crew)

    view = await store.run(run_id)
    [attempt] = read_attempts(view.attempts)
    assert (view.state, view.failures, attempt.error_type, attempt.outcome) == (state, 1, error_type, "failed")
    if wait is not None:
        assert view.due == store.now + wait


async def test_a_payload_that_does_not_fit_is_dead_at_once(store: Store, stage: Stage) -> None:
    run_id = await store.one_shot(task="fail", payload=b'{"how": 7}')
    crew = await crew_on(store, stage)

    await work(crew)

    view = await store.run(run_id)
    assert (view.state, view.error_type) == (State.DEAD, "BadPayload")
    assert "how" in (view.error or "")


async def test_a_run_that_cannot_be_started_is_dead_and_says_why(store: Store, stage: Stage) -> None:
    run_id = await store.one_shot()
    crew = await crew_on(store, stage)
    stage.tasks.get = lambda name: None  # type: ignore[method-assign]  # the task is gone between look and start

    await work(crew)

    view = await store.run(run_id)
    assert (view.state, view.error_type) == (State.DEAD, "LookupError")
    assert "could not start: this worker has no task 'noop'" in (view.error or "")
    assert [one.outcome for one in read_attempts(view.attempts)] == ["failed"]


async def test_a_failed_run_is_tried_until_it_is_dead(store: Store, stage: Stage, hints: list[Hint]) -> None:
    run_id = await store.one_shot(task="fail", max_retries=2)
    crew = await crew_on(store, stage)

    view = await final(store, crew, run_id)

    assert (view.state, len(stage.started), len(read_attempts(view.attempts))) == (State.DEAD, 3, 3)
    assert "max_retries is 2" in (view.error or "")
    assert {hint.topic for hint in hints} == {Topic.CHANGED}  # it is retried after seconds: workers find it by then
    assert Hint(Topic.CHANGED, target=str(store.uid)) in hints


async def test_what_takes_longer_than_its_timeout_is_stopped(store: Store, stage: Stage) -> None:
    run_id = await store.one_shot(task="wait", timeout=Duration(30 * SECOND), max_retries=0)
    crew = await crew_on(store, stage)
    await work(crew)

    await store.clock.advance(Duration(30 * SECOND - 1))
    await crew.attempts.run_once()
    assert stage.stopped == []
    await store.clock.advance(Duration(1))
    await crew.attempts.run_once()
    await crew.rest()
    await crew.settling.run_once()

    view = await store.run(run_id)
    [attempt] = read_attempts(view.attempts)
    assert (view.state, stage.stopped) == (State.DEAD, [run_id])
    assert (attempt.outcome, attempt.error_type) == ("timed_out", "Timeout")


async def test_what_does_not_stop_is_left_behind_and_its_result_refused(store: Store, stage: Stage) -> None:
    run_id = await store.one_shot(task="stubborn", timeout=Duration(SECOND), max_retries=0)
    crew = await crew_on(store, stage, kill_grace=Duration(SECOND))
    await work(crew)
    await store.clock.advance(SECOND)
    await crew.attempts.run_once()
    await crew.rest()
    await store.clock.advance(Duration(2 * SECOND))
    await crew.attempts.run_once()
    await crew.settling.run_once()
    assert (crew.attempts.left_behind, await store.state(run_id)) == (1, State.DEAD)

    stage.go.set()
    async with asyncio.timeout(60):
        while crew.attempts.left_behind:
            await asyncio.sleep(0)
    await work(crew)

    view = await store.run(run_id)
    assert (crew.attempts.left_behind, view.state, view.result) == (0, State.DEAD, None)


async def test_one_left_behind_does_not_end_a_later_attempt_of_the_same_run(store: Store, stage: Stage) -> None:
    run_id = await store.one_shot(task="stubborn", timeout=Duration(SECOND), retry=Retry(jitter=0))
    crew = await crew_on(store, stage, kill_grace=Duration(SECOND))
    await work(crew)
    await store.clock.advance(SECOND)
    await crew.attempts.run_once()
    await crew.rest()
    await store.clock.advance(Duration(2 * SECOND))
    await crew.attempts.run_once()
    await crew.settling.run_once()
    await store.clock.advance(Duration(5 * SECOND))
    await crew.worker.run_once()
    [second] = crew.attempts
    assert (crew.attempts.left_behind, second.run.attempt) == (1, 2)

    async with asyncio.timeout(60):
        while len(stage.started) < 2:
            await asyncio.sleep(0)
        stage.go.set()
        while crew.attempts.left_behind or len(crew.attempts):
            await asyncio.sleep(0)
    await crew.settling.run_once()

    view = await store.run(run_id)
    assert (view.state, view.result) == (State.SUCCEEDED, b'"at last"')


async def test_one_that_has_ended_and_writes_its_last_words_is_not_forgotten(
    store: Store, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Handed back by somebody else it would run again, though it is done."""
    run_id = await store.one_shot(task="talk", max_retries=0)
    crew = await crew_on(store, stage)
    append, go = store.history.append_log, asyncio.Event()

    async def slowly(*args: Any) -> None:
        await go.wait()
        await append(*args)

    monkeypatch.setattr(store.history, "append_log", slowly)
    await crew.worker.run_once()
    [going] = crew.attempts
    async with asyncio.timeout(60):
        while going.task is not None:
            await asyncio.sleep(0)
    assert crew.attempts.forget() == []
    go.set()
    await crew.rest()
    await crew.settling.run_once()

    assert await store.state(run_id) is State.DEAD


async def test_mail_stops_a_run(store: Store, stage: Stage) -> None:
    run_id = await store.one_shot(task="wait")
    crew = await crew_on(store, stage)
    await work(crew)
    answer = await store.running.cancel(store.uid, run_id, store.now)
    assert answer is not None
    assert answer.told == ((run_id, crew.worker_id),)

    crew.mailbox.hint()
    await crew.mailbox.run_once()
    await crew.rest()
    await crew.settling.run_once()

    view = await store.run(run_id)
    assert (view.state, stage.stopped, view.failures) == (State.CANCELLED, [run_id], 0)


async def test_who_has_just_begun_is_asked_for_cancel_requests_after_a_while_or_with_a_hint(
    store: Store, stage: Stage
) -> None:
    """Most runs have ended by then. A hint may come before the answer to the claim, and counts all the same."""
    numbers = Numbers(None, Roles.WORKER)
    store.engine = CountedEngine(store.engine, numbers, store.clock)
    crew = await crew_on(store, stage)
    assert await crew.mailbox.run_once() == LONGEST_WAIT

    async def another() -> int:
        """Begin a run after the one before has ended; return how often was asked so far."""
        stage.go.set()
        await crew.rest()
        stage.go.clear()
        await store.one_shot(task="wait")
        store.advance(2 * SECOND)
        await work(crew)
        assert await crew.mailbox.run_once() == POLL_INTERVAL
        return how_often(numbers)["cancel_requests"]

    assert [await another() for _ in range(3)] == [0, 0, 0]
    await store.clock.advance(POLL_INTERVAL)
    assert (await crew.mailbox.run_once(), how_often(numbers)["cancel_requests"]) == (POLL_INTERVAL, 1)
    crew.mailbox.hint()
    assert await another() == 2


async def test_a_run_that_ended_before_it_could_be_stopped_is_cancelled_all_the_same(
    store: Store, stage: Stage
) -> None:
    """Whoever was told `cancelling` is not surprised by a success, whatever the race."""
    run_id = await store.one_shot(task="wait")
    crew = await crew_on(store, stage)
    await work(crew)
    await store.running.cancel(store.uid, run_id, store.now)
    stage.go.set()
    await crew.rest()

    await crew.settling.run_once()

    assert await store.state(run_id) is State.CANCELLED


# --------------------------------------------------------------------------------------------------------- handed back


async def test_what_is_stopped_to_drain_is_handed_back_unspent(store: Store, stage: Stage) -> None:
    run_id = await store.one_shot(task="wait")
    crew = await crew_on(store, stage)
    await work(crew)

    crew.attempts.stop(run_id, Stop.DRAINING)
    await crew.rest()
    await crew.settling.run_once()

    view = await store.run(run_id)
    assert (view.state, view.failures, view.losses, view.attempts) == (State.WAITING, 0, 0, None)
    assert not crew.busy


async def test_a_thread_is_asked_to_stop_and_not_handed_back_while_it_may_run(store: Store, stage: Stage) -> None:
    """It cannot be stopped: handed back at once, the run would go on twice at the same time."""
    run_id = await store.one_shot(task="heavy")
    crew = await crew_on(store, stage)
    await work(crew)
    [going] = crew.attempts

    crew.attempts.stop(run_id, Stop.DRAINING)
    await crew.settling.run_once()
    assert (going.reports.cancelled, stage.stopped, await store.state(run_id)) == (True, [], State.RUNNING)
    assert crew.attempts.forget() == [going.run]


async def test_a_thread_that_ends_when_asked_to_stop_has_its_result_kept(store: Store, stage: Stage) -> None:
    run_id = await store.one_shot(task="heavy")
    crew = await crew_on(store, stage)
    await work(crew)

    crew.attempts.stop(run_id, Stop.DRAINING)
    stage.go.set()
    await crew.rest()
    await crew.settling.run_once()

    assert (await store.state(run_id), crew.busy) == (State.SUCCEEDED, False)


async def test_a_draining_worker_takes_nothing_new(store: Store, stage: Stage) -> None:
    await store.one_shot()
    crew = await crew_on(store, stage)
    crew.worker.draining = True

    await work(crew)

    assert (stage.started, crew.busy) == ([], False)


async def test_a_claim_that_returns_while_draining_is_handed_back(
    store: Store, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await store.one_shot()
    crew = await crew_on(store, stage)
    claim = store.running.claim

    async def slow(*args: Any) -> list[Claimed]:
        claimed = await claim(*args)
        assert crew.busy  # nobody may leave now
        crew.worker.draining = True
        return claimed

    monkeypatch.setattr(store.running, "claim", slow)
    await work(crew)

    view = await store.run(run_id)
    assert (stage.started, view.state, view.losses) == ([], State.WAITING, 0)


# -------------------------------------------------------------------------------------------------------- lost answers


class Interrupted:
    """An engine verb whose request or answer is lost, once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, place: object, verb: str, *, applied: bool) -> None:
        self._verb = getattr(place, verb)
        self._applied = applied
        self._left = 1
        monkeypatch.setattr(place, verb, self)

    async def __call__(self, *args: Any) -> Any:
        if not self._left:
            return await self._verb(*args)
        self._left -= 1
        if self._applied:
            await self._verb(*args)
        raise StoreUnavailable("lost")


@pytest.mark.parametrize("applied", [False, True])
async def test_a_claim_whose_answer_is_lost_is_found_again_and_started_once(
    store: Store, stage: Stage, monkeypatch: pytest.MonkeyPatch, applied: bool
) -> None:
    run_id = await store.one_shot()
    crew = await crew_on(store, stage)
    Interrupted(monkeypatch, store.running, "claim", applied=applied)
    with pytest.raises(StoreUnavailable):
        await crew.worker.run_once()
    assert crew.busy

    await final(store, crew, run_id)

    assert stage.started == [run_id]


async def test_a_claim_that_comes_true_only_later_is_not_forgotten(
    store: Store, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store may still be at it when the caller has given up: the run would be ours, unknown to us, for ever."""
    run_id = await store.one_shot()
    crew = await crew_on(store, stage)
    claim = store.running.claim
    Interrupted(monkeypatch, store.running, "claim", applied=False)
    with pytest.raises(StoreUnavailable):
        await crew.worker.run_once()
    await crew.holdings.run_once()  # too early: nothing to be found yet

    await claim(crew.worker_id, [run_id], store.now)
    await store.clock.advance(SECOND)
    await work(crew)

    assert stage.started == [run_id]


@pytest.mark.parametrize("applied", [False, True])
async def test_a_settlement_whose_answer_is_lost_is_written_once(
    store: Store, stage: Stage, monkeypatch: pytest.MonkeyPatch, applied: bool
) -> None:
    run_id = await store.one_shot()
    crew = await crew_on(store, stage)
    Interrupted(monkeypatch, store.running, "settle", applied=applied)
    with pytest.raises(StoreUnavailable):
        await work(crew)
    assert crew.busy

    await work(crew)

    assert (await store.state(run_id), stage.started, crew.busy) == (State.SUCCEEDED, [run_id], False)
    await store.check_counts()


async def test_a_worker_that_slept_through_its_claim_asks_before_it_starts(
    store: Store, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await store.one_shot()
    crew = await crew_on(store, stage)
    claim = store.running.claim

    async def while_we_slept(*args: Any) -> list[Claimed]:
        claimed = await claim(*args)
        await store.clock.advance(Duration(20 * SECOND))
        assert await store.expire_workers(crew.worker_id) == [crew.worker_id]
        await store.recover_runs()
        return claimed

    monkeypatch.setattr(store.running, "claim", while_we_slept)
    await work(crew)

    view = await store.run(run_id)
    assert (stage.started, view.losses) == ([], 1)


async def test_a_late_result_is_refused(store: Store, stage: Stage, logged: list[Any]) -> None:
    run_id = await store.one_shot(task="wait")
    crew = await crew_on(store, stage)
    await work(crew)
    await store.lose(crew.worker_id)
    await store.recover_runs()

    stage.go.set()
    await crew.rest()
    await crew.settling.run_once()

    view = await store.run(run_id)
    assert (view.state, view.losses) == (State.WAITING, 1)
    assert [line["runs"] for line in logged if line["kind"] == "result_refused"] == [1]


# --------------------------------------------------------------------------------------------------------------- lanes


async def test_the_next_of_a_group_starts_when_the_one_before_is_settled(store: Store, stage: Stage) -> None:
    runs = await store.one_shots(3, -MINUTE, apart=SECOND, group="g")
    crew = await crew_on(store, stage)

    for number in range(1, 4):
        await work(crew)
        assert stage.started == runs[:number]
        store.advance(settling.LINGER + prefetch.SPACING)


# ------------------------------------------------------------------------------------------------------------- reports


async def test_logs_progress_and_checkpoints(store: Store, stage: Stage) -> None:
    run_id = await store.one_shot(task="talk", retry=Retry(jitter=0))
    crew = await crew_on(store, stage)

    view: RunView = await final(store, crew, run_id)

    assert view.result == b'{"seen":1}'
    said = (await store.log(run_id)).decode()
    assert said.count("INFO word 0") == 2
    assert "RuntimeError: try me again" in said


async def test_what_a_run_says_is_cut_off_at_the_cap(store: Store, stage: Stage) -> None:
    run_id = await store.one_shot(task="talk", payload=b'{"words": 500}', retry=Retry(jitter=0), max_retries=0)
    crew = await crew_on(store, stage, max_log_bytes=1_000)

    await final(store, crew, run_id)

    said = (await store.log(run_id)).decode()
    assert "longer than 1000 bytes" in said
    assert "word 499\n" in said  # the end is kept


async def test_a_log_that_could_not_be_written_is_written_later(
    store: Store, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await store.one_shot(task="talk", max_retries=0)
    crew = await crew_on(store, stage)
    Interrupted(monkeypatch, store.history, "append_log", applied=False)
    await final(store, crew, run_id)
    assert await store.log(run_id) == b""

    await crew.reporting.run_once()

    assert b"word 0" in await store.log(run_id)


async def test_a_checkpoint_of_a_run_that_is_anothers_is_refused(store: Store, stage: Stage) -> None:
    """The task learns that nothing it does is kept any more."""
    run_id = await store.one_shot()
    crew = await crew_on(store, stage)
    run: Claimed = await store.claim_one(crew.worker_id, run_id)
    reports = crew.reporting.of(run)
    await store.lose(crew.worker_id)
    await store.recover_runs()

    with pytest.raises(Exception, match="belongs to another worker"):
        await asyncio.ensure_future(reports.save(b"1"))
    assert reports.cancelled
