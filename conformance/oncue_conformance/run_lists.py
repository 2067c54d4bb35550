"""Reading runs: one in any state, and lists of them.

Finding things by a part of what they are called.
"""

from __future__ import annotations

from uuid import UUID

import pytest

from oncue.domain import change
from oncue.domain.errors import Invalid
from oncue.domain.ids import JobId, RunId
from oncue.domain.instants import HOUR, MINUTE, SECOND, Duration
from oncue.domain.job import decode_spec
from oncue.domain.policy import Overlap
from oncue.domain.run import RunView, State, Trigger
from oncue.engines.port import RunQuery
from oncue_conformance.store import LIVE, Store, ids, job_of, only

ENDS = [State.SUCCEEDED, State.DEAD, State.CANCELLED, State.EXPIRED]


async def one_of_each(store: Store) -> dict[State, RunId]:
    """Create a run in every state, their instants and their ends a second apart."""
    runs = {}
    for state in ENDS:
        runs[state] = await store.one_shot(payload=b"[1]", start_within=MINUTE, task=f"t{state}")
        await store.end(runs[state], state)
        store.advance(SECOND)
    runs[State.RUNNING] = await store.one_shot(payload=b"[1]", queue="slow")
    await store.claim_one(await store.worker(), runs[State.RUNNING])
    store.advance(SECOND)
    runs[State.WAITING] = await store.one_shot(HOUR, payload=b"[1]")
    return runs


async def test_a_run_is_found_in_every_state(store: Store) -> None:
    for state, run_id in (await one_of_each(store)).items():
        view = await store.run(run_id)
        assert (view.run_id, view.job_id, view.state, view.uid) == (run_id, job_of(run_id), state, store.uid)
        assert (view.payload, view.job_version, view.trigger) == (b"[1]", 1, Trigger.SCHEDULE)
        assert view.spec is not None
        spec = decode_spec(view.spec)
        assert (spec.schedule.at, await store.class_of(spec)) == (view.wanted, view.class_id)
        assert (view.ended_at is not None) == state.final


async def test_a_recurring_jobs_run_has_its_definition_too(store: Store) -> None:
    job_id = await store.recurring(every=MINUTE, payload=b"[1]", max_retries=7)
    await store.plan(ahead=MINUTE)
    store.advance(MINUTE)
    [run_id] = await store.claimable()

    for end in (None, State.SUCCEEDED):
        if end is not None:
            await store.end(run_id, end)
        view = await store.run(run_id)
        assert (view.job_id, view.payload) == (job_id, b"[1]")
        assert view.spec is not None
        assert decode_spec(view.spec).max_retries == 7


async def test_live_runs_come_first_then_the_newest_end(store: Store) -> None:
    runs = await one_of_each(store)

    listed = ids(await store.runs())

    assert set(listed[:2]) == {runs[State.WAITING], runs[State.RUNNING]}
    assert listed[2:] == [runs[state] for state in reversed(ENDS)]


@pytest.mark.parametrize("limit", [1, 2, 7, 100])
async def test_pages_cover_all_runs_once(store: Store, limit: int) -> None:
    """Also where many ended in the same instant."""
    worker = await store.worker()
    ended = await store.one_shots(12)
    await store.succeed(worker, *await store.claim(worker, *ended[:8]))
    await store.claim(worker, *ended[8:10])
    job_id = await store.recurring(every=SECOND)
    await store.plan(ahead=5 * SECOND)

    assert sorted(ids(await store.runs(limit=limit))) == sorted(
        [*ended, *(run.run_id for run in (await store.snapshot(job_id)).waiting)]
    )
    for states in (LIVE, frozenset({State.SUCCEEDED}), frozenset({State.WAITING}), frozenset({State.DEAD})):
        found = await store.runs(states=states, limit=limit)
        assert len(found) == len(set(ids(found)))
        assert {run.state for run in found} <= states
    assert len(await store.runs(states=frozenset({State.SUCCEEDED}), limit=limit)) == 8


async def test_no_page_is_longer_than_asked_for(store: Store) -> None:
    await store.one_shots(5)

    page = await store.lists.runs(RunQuery(limit=3))

    assert len(page.items) <= 3
    assert page.next is not None


async def test_lists_come_without_payloads(store: Store) -> None:
    await one_of_each(store)

    assert {run.payload for run in await store.runs()} == {None}


async def test_runs_are_filtered(store: Store) -> None:
    runs = await one_of_each(store)
    theirs = await store.one_shot(uid=store.stranger, task="tother")
    dead = await store.run(runs[State.DEAD])

    async def found(**query: object) -> set[RunId]:
        return set(ids(await store.runs(**query)))

    assert await found(uid=store.stranger) == {theirs}
    assert await found(uid=store.uid) == set(runs.values())
    assert await found(job_id=job_of(runs[State.DEAD])) == {runs[State.DEAD]}
    assert await found(states=frozenset({State.DEAD, State.RUNNING})) == {runs[State.DEAD], runs[State.RUNNING]}
    assert await found(task=f"t{State.CANCELLED}") == {runs[State.CANCELLED]}
    assert await found(queue="slow") == {runs[State.RUNNING]}
    assert await found(queue="no such queue") == await found(task="no such task") == set()
    assert await found(wanted_from=dead.wanted - 1, wanted_until=dead.wanted + 1) == {runs[State.DEAD]}
    assert await found(wanted_from=store.at(MINUTE)) == {runs[State.WAITING]}
    assert await found(uid=store.stranger, states=frozenset({State.DEAD})) == set()


@pytest.mark.parametrize("limit", [1, 100])
async def test_runs_are_found_by_what_happened_to_them(store: Store, limit: int) -> None:
    """By who ran them, what created them, how they failed, and when they ended: from one instant up to another."""
    runs, first, second = await one_of_each(store), await store.worker(), await store.worker()
    retrying, running = await store.one_shots(2, task="t")
    await store.fail(first, await store.claim_one(first, retrying))
    await store.claim_one(second, running)
    job_id = await store.recurring(every=HOUR)
    by_hand = change.run_now(await store.snapshot(job_id), RunId(store.new_id()), store.now)
    assert await store.jobs.apply(by_hand, store.now)
    dead, cancelled = await store.run(runs[State.DEAD]), await store.run(runs[State.CANCELLED])
    assert dead.ended_at is not None
    assert dead.worker_id is not None

    async def found(**query: object) -> set[RunId]:
        return set(ids(await store.runs(uid=store.uid, limit=limit, **query)))

    assert await found(worker_id=second) == {running}
    assert await found(worker_id=dead.worker_id) == {dead.run_id}
    assert await found(error_type="Boom") == {retrying, dead.run_id}
    assert await found(error_type="Boom", states=frozenset({State.DEAD})) == {dead.run_id}
    assert await found(error_type="no such error") == set()
    assert await found(triggers=frozenset({Trigger.RUN_NOW, Trigger.BACKFILL})) == {by_hand.add[0].run_id}
    assert await found(ended_from=dead.ended_at, ended_until=dead.ended_at + 1) == {dead.run_id}
    assert await found(ended_until=dead.ended_at) == {runs[State.SUCCEEDED]}
    assert await found(ended_from=cancelled.ended_at) == {runs[State.CANCELLED], runs[State.EXPIRED]}
    assert await found(ended_from=store.now) == set()
    assert await found(job_id=job_of(dead.run_id), ended_from=dead.ended_at) == {dead.run_id}
    assert await found(job_id=job_of(dead.run_id), ended_until=dead.ended_at) == set()


async def test_all_runs_of_a_job_are_listed(store: Store) -> None:
    job_id = await store.recurring(every=MINUTE, overlap=Overlap.ALLOW)
    other = await store.recurring(every=MINUTE)
    worker = await store.worker()
    await store.plan(ahead=4 * MINUTE)
    store.advance(2 * MINUTE)
    done = [run for run in await store.claim_due(worker) if run.job_id == job_id]
    await store.succeed(worker, *done)

    found = await store.runs(job_id=job_id, limit=2)

    assert [run.state for run in found] == [State.WAITING] * 2 + [State.SUCCEEDED] * 2
    assert {run.job_id for run in found} == {job_id}
    assert len(await store.runs(job_id=other)) == 4


@pytest.mark.parametrize("mark", ["nonsense", "AAAA", "gA", "%00", "ä"])
async def test_a_mark_that_is_not_ours_is_refused(store: Store, mark: str) -> None:
    with pytest.raises(Invalid):
        await store.lists.runs(RunQuery(after=mark))


async def test_a_page_goes_on_where_it_stopped_though_runs_end_meanwhile(store: Store) -> None:
    """No run that had ended before is skipped."""
    worker = await store.worker()
    ended = await store.one_shots(6)
    for run_id in ended:
        await store.succeed(worker, await store.claim_one(worker, run_id))
        store.advance(SECOND)
    going = await store.claim_one(worker, await store.one_shot())

    seen: list[RunView] = []
    page = await store.lists.runs(RunQuery(limit=3))
    await store.succeed(worker, going)
    seen += page.items
    while page.next is not None:
        page = await store.lists.runs(RunQuery(limit=3, after=page.next))
        seen += page.items

    assert set(ended) <= set(ids(seen))
    assert only([run for run in seen if run.run_id == going.run_id and run.state is State.RUNNING])


# ------------------------------------------------------------------------------------------ finding by a part of a name

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
