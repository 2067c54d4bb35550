"""The reaper buries silent workers and settles what they held; one bad row keeps nobody from coming back."""

import asyncio
from typing import Any

import msgspec
import pytest

from oncue.domain.errors import StoreUnavailable
from oncue.domain.ids import RunId, WorkerId
from oncue.domain.instants import HOUR, SECOND, Duration
from oncue.domain.policy import OnLost
from oncue.domain.run import State
from oncue.engines.port import Count, Hint, Topic
from oncue.services import reaper
from oncue.services.reaper import Reaper
from oncue.services.supervisor import BEATS
from oncue.testing.conformance import Store
from oncue_conformance.store import LEASE, ids


async def silent(store: Store, *run_ids: RunId) -> WorkerId:
    """A worker that claimed these and was not heard of for longer than its lease; nobody has noticed yet."""
    worker = await store.worker(name="silent-one")
    assert sorted(ids(await store.claim(worker, *run_ids))) == sorted(run_ids)
    store.advance(LEASE + 1)
    return worker


async def recover_runs(store: Store, one: Reaper | None = None) -> Duration:
    """A reaper that was started long after, and has watched for two beats since."""
    one = one or Reaper(store.engine, store.clock)
    await one.run_once()
    await store.clock.advance(Duration(2 * LEASE // BEATS + 1))
    return await one.run_once()


async def test_a_worker_without_heartbeats_run_comes_back_and_workers_are_told(store: Store, hints: list[Hint]) -> None:
    run_id = await store.one_shot(max_retries=0)
    await silent(store, run_id)

    assert await recover_runs(store) == SECOND

    assert await store.claimable() == [run_id]
    assert (await store.run(run_id)).losses == 1
    assert hints == [Hint(Topic.RUNS)]


async def test_nothing_is_touched_before_the_lease_has_ended(store: Store, hints: list[Hint]) -> None:
    run_id = await store.one_shot()
    worker = await store.worker()
    await store.claim_one(worker, run_id)
    one = Reaper(store.engine, store.clock)

    for _ in range(15):
        await one.run_once()
        await store.clock.advance(SECOND)
    await one.run_once()
    assert (await store.state(run_id), await living(store), hints) == (State.RUNNING, {worker}, [])

    await store.clock.advance(Duration(1))
    await one.run_once()
    assert (await store.state(run_id), await living(store)) == (State.WAITING, set())


async def test_whoever_was_silent_before_the_reaper_came_is_found_when_its_lease_is_over(store: Store) -> None:
    """Everything was killed and started again: the beats of the former life count from when they were."""
    await store.worker()
    await store.clock.advance(Duration(7 * SECOND))

    one = Reaper(store.engine, store.clock)
    for _ in range(9):
        await one.run_once()
        assert len(await living(store)) == 1
        await store.clock.advance(SECOND)

    await one.run_once()
    assert await living(store) == set()


async def test_a_reaper_that_comes_after_the_clock_was_set_forward_buries_nobody_who_beats(store: Store) -> None:
    alive, dead = await store.worker(), await store.worker()
    store.clock.jump(HOUR)

    one = Reaper(store.engine, store.clock)
    for _ in range(8):
        await one.run_once()
        await store.clock.advance(SECOND)
        await store.beat(alive)
    assert await living(store) == {alive}
    assert dead != alive


@pytest.mark.parametrize("others", [1, 2, 15, 3600])
async def test_a_short_lease_keeps_nobody_from_being_found(store: Store, others: int) -> None:
    """Each by its own lease, the shortest as well as those beside it."""
    one = Reaper(store.engine, store.clock)
    short, long = await store.worker(Duration(SECOND)), await store.worker(Duration(others * SECOND))
    await one.run_once()

    for _ in range(2):
        await store.clock.advance(SECOND)
        await store.beat(long)
        await one.run_once()
    assert await living(store) == {long}
    assert short != long
    for _ in range(others + 1 if others < 60 else 20):
        await store.clock.advance(SECOND)
        await one.run_once()
    assert await living(store) == (set() if others < 60 else {long})


@pytest.mark.parametrize("step", [-HOUR, -10 * SECOND, 10 * SECOND, HOUR])
async def test_the_dead_are_found_as_soon_and_the_living_live_however_the_clock_is_set(store: Store, step: int) -> None:
    alive, dead = await store.worker(), await store.worker()
    one = Reaper(store.engine, store.clock)
    await one.run_once()
    store.clock.jump(step)

    for passed in range(1, 17):
        await store.clock.advance(SECOND)
        if passed % 3 == 0:
            await store.beat(alive)
        await one.run_once()
        assert await living(store) == ({alive, dead} if passed <= 15 else {alive})


async def test_a_beat_after_the_look_saves_its_worker(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = await silent(store)
    expire_workers = store.fleet.expire_workers

    async def just_in_time(silent: Any) -> Any:
        await store.beat(worker)
        return await expire_workers(silent)

    monkeypatch.setattr(store.fleet, "expire_workers", just_in_time)
    await recover_runs(store)

    assert await living(store) == {worker}


async def test_each_buried_worker_is_named(store: Store, logged: list[Any]) -> None:
    worker = await silent(store)
    alive = await store.worker()

    await recover_runs(store)

    [line] = logged
    assert (line["log_level"], line["worker_id"], line["worker"], line["host"], line["without_heartbeat_s"]) == (
        "warning",
        str(worker),
        "silent-one",
        "host",
        15,
    )
    assert await living(store) == {alive}


async def test_what_a_worker_left_behind_when_it_said_goodbye_comes_back(store: Store) -> None:
    run_id = await store.one_shot()
    worker = await store.worker()
    await store.claim_one(worker, run_id)
    await store.fleet.leave(worker)

    await recover_runs(store)

    assert await store.claimable() == [run_id]


async def test_a_run_that_must_not_start_twice_is_dead(store: Store) -> None:
    run_id = await store.one_shot(on_lost=OnLost.DEAD)
    await silent(store, run_id)

    await recover_runs(store)

    assert await store.state(run_id) is State.DEAD


async def test_three_losses_are_the_end(store: Store) -> None:
    run_id = await store.one_shot(max_retries=99)
    states = []
    for _ in range(3):
        await silent(store, run_id)
        await recover_runs(store)
        states.append(await store.state(run_id))

    assert states == [State.WAITING, State.WAITING, State.DEAD]
    assert "3 workers were lost" in ((await store.run(run_id)).error or "")


async def test_whoever_waits_behind_a_dead_run_is_told(store: Store, hints: list[Hint]) -> None:
    first, second = await store.one_shots(2, apart=1, group="g", on_lost=OnLost.DEAD)
    store.advance(1)
    await silent(store, first)

    await recover_runs(store)

    assert await store.claimable() == [second]
    assert hints == [Hint(Topic.RUNS)]


async def test_it_works_in_batches_and_comes_back_at_once_for_the_rest(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reaper, "BATCH", 2)
    runs = await store.one_shots(5)
    await silent(store, *runs)
    one = Reaper(store.engine, store.clock)

    assert [await recover_runs(store, one), await one.run_once(), await one.run_once()] == [0, 0, SECOND]
    assert set(await store.claimable()) == set(runs)


@pytest.mark.parametrize("spec", [b'{"task": "noop", "on_lost": "maybe", "name": "n"}', b'"name": \xff'])
async def test_a_run_whose_definition_cannot_be_read_is_dead_and_its_neighbours_come_back(
    store: Store, spec: bytes
) -> None:
    """A newer oncue may have stored it; here one bad row would stop every reaper for good."""
    new, fine = await store.new_one_shot(), await store.one_shot()
    assert new.run is not None
    bad = new.run.run_id
    await store.create(msgspec.structs.replace(new, run=msgspec.structs.replace(new.run, spec=spec)))
    await silent(store, bad, fine)

    await recover_runs(store)

    assert (await store.state(bad), await store.state(fine)) == (State.DEAD, State.WAITING)
    assert "the definition cannot be read" in ((await store.run(bad)).error or "")


async def test_a_run_that_cannot_be_decided_on_is_dead_with_the_reason(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, fine = await store.one_shots(2)
    lost = reaper.attempt.lost

    def fails(run: Any, *rest: Any) -> Any:
        if run.run_id == bad:
            raise ZeroDivisionError("of all things")
        return lost(run, *rest)

    monkeypatch.setattr(reaper.attempt, "lost", fails)
    await silent(store, bad, fine)

    await recover_runs(store)

    dead = await store.run(bad)
    assert (dead.state, dead.losses, dead.error_type) == (State.DEAD, 1, "WorkerLost")
    assert "of all things" in (dead.error or "")
    assert await store.claimable() == [fine]


async def test_after_a_gap_everybody_gets_a_lease_of_its_own_to_beat_again(store: Store) -> None:
    """Else the first pass would bury every worker there is, and all their runs would start a second time."""
    short = Duration(2 * SECOND)
    alive, dead, soon_dead = await store.worker(), await store.worker(), await store.worker(short)
    one = Reaper(store.engine, store.clock)
    await one.run_once()
    await store.clock.advance(HOUR)

    await one.run_once()
    assert await living(store) == {alive, dead, soon_dead}

    for passed in range(1, 17):
        await store.clock.advance(SECOND)
        await store.beat(alive)
        await one.run_once()
        assert await living(store) == {alive, *({dead} if passed <= 15 else ()), *({soon_dead} if passed <= 2 else ())}


async def test_a_short_gap_delays_nothing(store: Store) -> None:
    """The store was away for a while, not longer than beats may be late anyway."""
    await store.worker()
    one = Reaper(store.engine, store.clock)
    await one.run_once()
    for gap in (LEASE // 2, LEASE // 2, 1):
        await store.clock.advance(Duration(gap))
        await one.run_once()

    assert await living(store) == set()


async def living(store: Store) -> set[WorkerId]:
    return {worker.worker_id for worker in await store.fleet.workers()}


async def test_reapers_at_once_count_each_loss_once(store: Store) -> None:
    other = await store.second()
    runs = await store.one_shots(60)
    await silent(store, *runs)

    reapers = [Reaper(one.engine, store.clock) for one in (store, other, store, other)]
    await asyncio.gather(*(reaper.run_once() for reaper in reapers))
    await store.clock.advance(Duration(2 * LEASE // BEATS + 1))
    await asyncio.gather(*(reaper.run_once() for reaper in reapers))
    await recover_runs(store)

    assert [(await store.run(run_id)).losses for run_id in runs] == [1] * 60
    assert (await store.counts())[Count.LOST] == 60


async def test_a_lost_answer_counts_no_loss_twice(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = await store.one_shot()
    worker = await silent(store, run_id)
    one, real = Reaper(store.engine, store.clock), store.running.recover_runs

    async def applied_but_unanswered(*asked: Any) -> Any:
        await real(*asked)
        raise StoreUnavailable("the answer was lost")

    await store.expire_workers(worker)
    monkeypatch.setattr(store.running, "recover_runs", applied_but_unanswered)
    with pytest.raises(StoreUnavailable):
        await one.run_once()
    monkeypatch.setattr(store.running, "recover_runs", real)
    await one.run_once()

    assert (await store.run(run_id)).losses == 1
