"""Finding things by a part of what they are called."""

from __future__ import annotations

from uuid import UUID

from oncue.domain.ids import JobId, RunId
from oncue.domain.instants import HOUR, MINUTE, SECOND, Duration
from oncue.domain.run import State
from oncue.testing.conformance.run_lists import one_of_each
from oncue.testing.conformance.store import Store, job_of

FIRST, LAST = UUID(int=0), UUID(int=2**128 - 1)


async def test_the_end_of_an_id_finds_jobs_and_runs_in_every_state(store: Store) -> None:
    job_id = await store.recurring(every=MINUTE)
    cancelled = await store.recurring(every=HOUR)
    await store.jobs.cancel(None, cancelled, store.now)
    everything = [*(await one_of_each(store)).values(), job_id, cancelled]
    await store.plan(ahead=MINUTE)
    planned = (await store.snapshot(job_id)).waiting[0]
    theirs = await store.one_shot(uid=store.stranger)

    for one in (*everything, planned.run_id):
        for digits in (one.hex[-6:], one.hex[-7:], one.hex):
            assert await store.search.endings(store.uid, digits, 5) == [one]
            assert await store.search.endings(None, digits, 5) == [one]
    assert await store.search.endings(store.uid, theirs.hex[-8:], 5) == []
    assert await store.search.endings(None, theirs.hex[-8:], 5) == [theirs]


async def test_the_beginning_of_ids_is_a_range_of_them(store: Store) -> None:
    runs = list((await one_of_each(store)).values())
    job_id = await store.recurring(every=MINUTE)
    await store.plan(ahead=3 * MINUTE)
    planned = [run.run_id for run in (await store.snapshot(job_id)).waiting]
    theirs = await store.one_shot(uid=store.stranger)

    newest_first = sorted([*runs, job_id, *planned], reverse=True)
    assert await store.search.ids(store.uid, FIRST, LAST, 100) == newest_first
    assert set(await store.search.ids(None, FIRST, LAST, 100)) == {*newest_first, theirs}
    assert await store.search.ids(store.uid, runs[0], runs[0], 5) == [runs[0]]
    assert await store.search.ids(store.uid, theirs, theirs, 5) == []
    few = await store.search.ids(store.uid, FIRST, LAST, 2)
    assert few == sorted([*sorted([*runs, job_id])[-2:], *sorted(planned)[-2:]], reverse=True)


async def test_keys_are_found_by_their_beginning(store: Store) -> None:
    for key in ("a", "a-b", "ab", "aB", "b"):
        await store.recurring(key=key, name=key)
    await store.recurring(uid=store.stranger, key="ac")

    found = await store.search.keys(store.uid, "a", 10)

    assert [key for key, _ in found] == ["a", "a-b", "aB", "ab"]
    assert [await store.keyed(key) for key, _ in found] == [job_id for _, job_id in found]
    assert [key for key, _ in await store.search.keys(None, "a", 10)] == ["a", "a-b", "aB", "ab", "ac"]
    assert [key for key, _ in await store.search.keys(store.uid, "a", 2)] == ["a", "a-b"]
    assert await store.search.keys(store.uid, "A", 2) == []


async def test_tags_are_found_by_their_beginning_each_once(store: Store) -> None:
    for tags in (("a-b", "ab"), ("ab", "aB"), ("ab", "b", "a")):
        await store.recurring(tags=tags)
        await store.one_shot(HOUR, tags=tags)
    await store.recurring(uid=store.stranger, tags=("ac", "ab"))

    assert await store.search.tags(store.uid, "a", 10) == ["a", "a-b", "aB", "ab"]
    assert await store.search.tags(None, "a", 10) == ["a", "a-b", "aB", "ab", "ac"]
    assert await store.search.tags(store.uid, "a", 2) == ["a", "a-b"]
    assert await store.search.tags(store.stranger, "b", 2) == []


async def test_jobs_and_runs_are_read_by_their_ids(store: Store) -> None:
    runs = await one_of_each(store)
    job_id = await store.recurring(every=MINUTE, payload=b"[1]", name="n")
    theirs = await store.one_shot(uid=store.stranger)
    asked = [RunId(one) for one in (*runs.values(), job_id, theirs, store.new_id())]

    found = await store.search.runs_by_id(store.uid, asked)
    jobs = await store.search.jobs_by_id(store.uid, [JobId(one) for one in asked])

    assert {run_id: run.state for run_id, run in found.items()} == {one: state for state, one in runs.items()}
    assert {(run.payload, run.spec) for run in found.values()} == {(None, None)}
    assert set(jobs) == {*map(job_of, runs.values()), job_id}
    for one, row in jobs.items():
        assert row.job == (await store.snapshot(one)).job
    assert set(await store.search.runs_by_id(None, asked)) == {*runs.values(), theirs}
    assert set(await store.search.jobs_by_id(None, [job_of(theirs)])) == {theirs}
    assert (await store.search.jobs_by_id(None, []), await store.search.runs_by_id(None, [])) == ({}, {})


async def test_the_newest_are_searched_in_all_of_history(store: Store) -> None:
    """Also where it is in many pieces."""
    ended = []
    for _ in range(3):
        run_id = await store.one_shot()
        await store.end(run_id, State.SUCCEEDED)
        ended.append(run_id)
        store.advance(30 * HOUR)
        await store.maintenance.maintain(store.now, Duration(1000 * HOUR))
    store.advance(SECOND)

    for run_id in ended:
        assert await store.search.endings(store.uid, run_id.hex[-8:], 5) == [run_id]
