"""The diagnosis of a run: what blocks it, how many are before it, and the state of its worker."""

from __future__ import annotations

from typing import Any

import pytest

from oncue.domain.ids import RunId
from oncue.domain.instants import HOUR, MINUTE, SECOND
from oncue.domain.lane import Held
from oncue.domain.run import State
from oncue.engines.port import RunDiagnosis
from oncue.testing.conformance.store import LEASE, Store, job_of

LANES: list[dict[str, Any]] = [{"group": "g"}, {"gate": ("c", 1)}]


async def standing(store: Store, run_id: RunId) -> RunDiagnosis:
    found = await store.history.standing(None, run_id)
    assert found is not None
    return found


async def test_a_standing_has_the_run_as_it_is_read(store: Store) -> None:
    await store.recurring(every=MINUTE, payload=b"[1]", max_retries=7)
    await store.plan(ahead=MINUTE)
    store.advance(MINUTE)
    [planned] = await store.claimable()
    ended = await store.one_shot()
    await store.end(ended, State.DEAD)

    for run_id in (planned, ended):
        assert (await standing(store, run_id)).run == await store.run(run_id)
    assert await standing(store, ended) == RunDiagnosis(await store.run(ended))


async def test_another_users_run_stands_nowhere(store: Store) -> None:
    run_id = await store.one_shot()

    assert await store.history.standing(store.stranger, run_id) is None
    assert await store.history.standing(store.uid, RunId(store.new_id())) is None
    assert await store.history.standing(store.uid, run_id) is not None


@pytest.mark.parametrize("lane", LANES)
async def test_whoever_is_let_in_holds_the_others(store: Store, lane: dict[str, Any]) -> None:
    """Admitted and waiting, then running, then between two attempts: no difference to those behind it."""
    first, second, third = await store.one_shots(3, due=-MINUTE, apart=1, **lane)
    await store.one_shot(-HOUR)  # of no lane
    worker = await store.worker()
    bit = Held.LANE if "group" in lane else Held.GATE

    async def check() -> None:
        for place, run_id in enumerate([second, third]):
            found = await standing(store, run_id)
            assert (found.run.held, found.holder, found.place) == (bit, first, place)

    await check()
    claimed = await store.claim_one(worker, first)
    await check()
    await store.fail(worker, claimed)
    await check()


@pytest.mark.parametrize("lane", LANES)
async def test_the_one_that_runs_is_in_the_way_whoever_is_first_in_line(store: Store, lane: dict[str, Any]) -> None:
    worker = await store.worker()
    running = await store.claim_one(worker, await store.one_shot(-SECOND, **lane))
    earlier = await store.one_shot(-MINUTE, **lane)
    later = await store.one_shot(**lane)

    assert [((at := await standing(store, run_id)).holder, at.place) for run_id in (earlier, later)] == [
        (running.run_id, 0),
        (running.run_id, 1),
    ]


@pytest.mark.parametrize("lane", LANES)
async def test_who_is_paused_stands_in_nobodys_way(store: Store, lane: dict[str, Any]) -> None:
    first, second, third, fourth, last = await store.one_shots(5, due=-MINUTE, apart=1, **lane)
    await store.pause(job_of(first))
    await store.pause(job_of(third))

    found = {run_id: await standing(store, run_id) for run_id in (fourth, last)}

    assert [(at.holder, at.place) for at in found.values()] == [(second, 0), (second, 1)]


async def test_a_wide_gate_has_several_holders(store: Store) -> None:
    runs = await store.one_shots(5, due=-MINUTE, apart=1, gate=("c", 3))

    found = await standing(store, runs[4])

    assert (found.holder in runs[:3], found.place) == (True, 1)


async def test_who_waits_for_its_group_is_not_yet_in_line_for_its_gate(store: Store) -> None:
    inside = await store.one_shot(-9 * SECOND, gate=("c", 1))
    head = await store.one_shot(-8 * SECOND, group="g", gate=("c", 1))
    behind = await store.one_shot(-7 * SECOND, group="g", gate=("c", 1))
    last = await store.one_shot(-6 * SECOND, gate=("c", 1))

    found = {run_id: await standing(store, run_id) for run_id in (head, behind, last)}

    assert [(at.holder, at.place) for at in found.values()] == [(inside, 0), (head, 0), (inside, 1)]
    assert found[behind].run.held & Held.LANE


async def test_a_run_that_nothing_holds_has_a_place_among_those_of_its_class(store: Store) -> None:
    runs = await store.one_shots(5, due=-MINUTE, apart=1)
    await store.one_shots(3, due=-HOUR, task="other")
    await store.claim_one(await store.worker(), runs[0])
    await store.one_shots(3, due=-HOUR, group="g")  # two of these are held

    found = [await standing(store, run_id) for run_id in runs[1:]]

    assert [(at.place, at.holder) for at in found] == [(1, None), (2, None), (3, None), (4, None)]


async def test_equal_instants_stand_in_order_of_their_ids(store: Store) -> None:
    runs = sorted(await store.one_shots(4, due=-SECOND))

    assert [(await standing(store, run_id)).place for run_id in runs] == [0, 1, 2, 3]


async def test_a_running_run_stands_as_its_worker_does(store: Store) -> None:
    worker = await store.worker()
    other = await store.worker()
    run = await store.claim_one(worker, await store.one_shot())
    store.advance(SECOND)
    await store.beat(worker)
    beaten_at = store.now
    store.advance(SECOND)
    await store.beat(other)

    assert await standing(store, run.run_id) == RunDiagnosis(
        await store.run(run.run_id), beat_at=beaten_at, lease=LEASE
    )
    await store.fleet.leave(worker)
    assert await standing(store, run.run_id) == RunDiagnosis(await store.run(run.run_id))
