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
from oncue.testing.conformance import Store
from oncue.testing.conformance.store import LEASE, ids


async def silent(store: Store, *run_ids: RunId) -> WorkerId:
    """A worker that claimed these and was not heard of for longer than its lease; nobody has noticed yet."""
    worker = await store.worker(name="silent-one")
    assert sorted(ids(await store.claim(worker, *run_ids))) == sorted(run_ids)
    store.advance(LEASE + 1)
    return worker


async def test_a_silent_workers_run_comes_back_and_workers_are_told(store: Store, hints: list[Hint]) -> None:
    run_id = await store.one_shot(max_retries=0)
    await silent(store, run_id)

    assert await Reaper(store.engine, store.clock).run_once() == SECOND

    assert await store.claimable() == [run_id]
    assert (await store.run(run_id)).losses == 1
    assert hints == [Hint(Topic.RUNS)]


async def test_nothing_is_touched_before_the_lease_has_ended(store: Store, hints: list[Hint]) -> None:
    run_id = await store.one_shot()
    worker = await silent(store, run_id)
    store.advance(-1)

    await Reaper(store.engine, store.clock).run_once()

    assert await store.state(run_id) is State.RUNNING
    assert await living(store) == {worker}
    assert hints == []


async def test_each_buried_worker_is_named(store: Store, logged: list[Any]) -> None:
    worker = await silent(store)
    alive = await store.worker()

    await Reaper(store.engine, store.clock).run_once()

    [line] = logged
    assert (line["log_level"], line["worker_id"], line["worker"], line["host"], line["silent_for_s"]) == (
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

    await Reaper(store.engine, store.clock).run_once()

    assert await store.claimable() == [run_id]


async def test_a_run_that_must_not_start_twice_is_dead(store: Store) -> None:
    run_id = await store.one_shot(on_lost=OnLost.DEAD)
    await silent(store, run_id)

    await Reaper(store.engine, store.clock).run_once()

    assert await store.state(run_id) is State.DEAD


async def test_three_losses_are_the_end(store: Store) -> None:
    run_id = await store.one_shot(max_retries=99)
    states = []
    for _ in range(3):
        await silent(store, run_id)
        await Reaper(store.engine, store.clock).run_once()
        states.append(await store.state(run_id))

    assert states == [State.WAITING, State.WAITING, State.DEAD]
    assert "3 workers were lost" in ((await store.run(run_id)).error or "")


async def test_whoever_waits_behind_a_dead_run_is_told(store: Store, hints: list[Hint]) -> None:
    first, second = await store.one_shots(2, apart=1, group="g", on_lost=OnLost.DEAD)
    store.advance(1)
    await silent(store, first)

    await Reaper(store.engine, store.clock).run_once()

    assert await store.claimable() == [second]
    assert hints == [Hint(Topic.RUNS)]


async def test_it_works_in_batches_and_comes_back_at_once_for_the_rest(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reaper, "BATCH", 2)
    runs = await store.one_shots(5)
    await silent(store, *runs)
    one = Reaper(store.engine, store.clock)

    assert [await one.run_once() for _ in range(3)] == [0, 0, SECOND]
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

    await Reaper(store.engine, store.clock).run_once()

    assert (await store.state(bad), await store.state(fine)) == (State.DEAD, State.WAITING)
    assert "its definition cannot be read" in ((await store.run(bad)).error or "")


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

    await Reaper(store.engine, store.clock).run_once()

    dead = await store.run(bad)
    assert (dead.state, dead.losses, dead.error_type) == (State.DEAD, 1, "WorkerLost")
    assert "of all things" in (dead.error or "")
    assert await store.claimable() == [fine]


@pytest.mark.parametrize("how", ["the clock is set forward", "the machine sleeps"])
async def test_after_a_gap_everybody_gets_a_lease_to_beat_again(store: Store, how: str) -> None:
    """Else the first pass would bury every worker there is, and all their runs would start a second time."""
    alive, dead = await store.worker(), await store.worker()
    one = Reaper(store.engine, store.clock)
    await one.run_once()
    if how == "the machine sleeps":
        await store.clock.advance(HOUR)
    else:
        store.clock.jump(HOUR)

    await one.run_once()
    assert await living(store) == {alive, dead}

    for _ in range(14):
        await store.clock.advance(SECOND)
        await store.beat(alive)
        await one.run_once()
    assert await living(store) == {alive, dead}
    await store.clock.advance(SECOND)
    await one.run_once()
    assert await living(store) == {alive}


async def test_a_short_gap_delays_nothing(store: Store) -> None:
    """The store was away for a while, not longer than beats may be late anyway."""
    await store.worker()
    one = Reaper(store.engine, store.clock)
    await one.run_once()
    for gap in (LEASE // 2, LEASE // 2, 2):
        await store.clock.advance(Duration(gap))
        await one.run_once()

    assert await living(store) == set()


async def living(store: Store) -> set[WorkerId]:
    return {worker.worker_id for worker in await store.fleet.workers()}


async def test_reapers_at_once_count_each_loss_once(store: Store) -> None:
    other = await store.second()
    runs = await store.one_shots(60)
    await silent(store, *runs)

    await asyncio.gather(*(Reaper(one.engine, store.clock).run_once() for one in (store, other, store, other)))
    await Reaper(store.engine, store.clock).run_once()

    assert [(await store.run(run_id)).losses for run_id in runs] == [1] * 60
    assert (await store.counts())[Count.LOST] == 60


async def test_a_lost_answer_counts_no_loss_twice(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = await store.one_shot()
    await silent(store, run_id)
    one, reap = Reaper(store.engine, store.clock), store.running.reap

    async def applied_but_unanswered(*asked: Any) -> Any:
        await reap(*asked)
        raise StoreUnavailable("the answer was lost")

    monkeypatch.setattr(store.running, "reap", applied_but_unanswered)
    with pytest.raises(StoreUnavailable):
        await one.run_once()
    monkeypatch.setattr(store.running, "reap", reap)
    await one.run_once()

    assert (await store.run(run_id)).losses == 1
