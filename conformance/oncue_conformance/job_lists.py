"""Lists of jobs: recurring ones and one-shots together, filtered, page by page.

What administrators list: the jobs and runs of all users, page after page, in one order.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from oncue.domain.errors import Invalid
from oncue.domain.ids import JobId, UserNumber
from oncue.domain.instants import HOUR, MILLISECOND, MINUTE, SECOND, Instant
from oncue.domain.job import JobStatus
from oncue.domain.run import State
from oncue.engines.port import JobQuery, JobRow, Page, RunQuery
from oncue_conformance.store import Store, everything, job_of, only

ACTIVE, FINISHED = frozenset({JobStatus.ACTIVE}), frozenset({JobStatus.FINISHED})


async def listed(store: Store, **query: Any) -> list[JobRow]:
    return await everything(lambda after: store.lists.jobs(JobQuery(after=after, **query)))


async def found(store: Store, **query: Any) -> set[JobId]:
    rows = await listed(store, **query)
    assert len(rows) == len({row.job.job_id for row in rows})
    return {row.job.job_id for row in rows}


async def test_jobs_are_listed_as_they_are_with_their_next_run(store: Store) -> None:
    recurring = await store.new_recurring(every=MINUTE, payload=b"[1]", name="n", tags=("t",))
    one_shot = await store.new_one_shot(HOUR, name="n", tags=("t",))
    await store.create(recurring, one_shot)

    rows = {row.job.job_id: row for row in await listed(store)}

    assert set(rows) == {recurring.job.job_id, one_shot.job.job_id}
    for new, next_at in ((recurring, store.at(MINUTE)), (one_shot, store.at(HOUR))):
        row = rows[new.job.job_id]
        assert row.next_at == next_at
        assert (row.job.spec, row.job.uid, row.job.status) == (new.job.spec, store.uid, JobStatus.ACTIVE)
        assert (row.job.created_at, row.job.updated_at, row.job.version) == (store.now, store.now, 1)


async def test_the_newest_come_first(store: Store) -> None:
    created = []
    for i in range(12):
        created.append(await (store.recurring() if i % 3 else store.one_shot(HOUR)))
        store.advance(MILLISECOND)

    assert [row.job.job_id for row in await listed(store, limit=5)] == created[::-1]


@pytest.mark.parametrize("limit", [1, 4, 100])
@pytest.mark.parametrize(
    "query", [{}, {"name": "n"}, {"tag": "t"}, {"task": "noop"}, {"queue": "default"}, {"statuses": ACTIVE}]
)
async def test_pages_cover_all_jobs_once(store: Store, query: dict[str, Any], limit: int) -> None:
    created = {await store.recurring(name="n", tags=("t", "u")) for _ in range(6)}
    created |= {job_of(run_id) for run_id in await store.one_shots(6, due=HOUR, name="n", tags=("t",))}

    assert await found(store, limit=limit, **query) == created
    assert await found(store, limit=limit, uid=store.uid, **query) == created
    assert await found(store, limit=limit, uid=store.stranger, **query) == set()


async def test_a_page_of_tagged_jobs_looks_past_those_that_do_not_fit(store: Store) -> None:
    rare = await store.recurring(task="rare", tags=("t",))
    store.advance(SECOND)
    for _ in range(5):
        await store.recurring(tags=("t",))

    page = await store.lists.jobs(JobQuery(tag="t", task="rare", limit=1))

    assert [row.job.job_id for row in page.items] == [rare]


@pytest.mark.parametrize("recurring", [True, False])
async def test_jobs_are_filtered(store: Store, recurring: bool) -> None:
    async def make(**how: Any) -> JobId:
        return await store.recurring(**how) if recurring else job_of(await store.one_shot(HOUR, **how))

    named = await make(name="mine")
    tagged = await make(tags=("a", "b"))
    task = await make(task="send")
    queue = await make(queue="slow")
    theirs = await make(uid=store.stranger, name="mine", tags=("a",))

    for uid, mine in ((None, {theirs}), (store.uid, set())):
        assert await found(store, uid=uid, name="mine") == {named} | mine
        assert await found(store, uid=uid, tag="a") == {tagged} | mine
        assert await found(store, uid=uid, tag="b") == {tagged}
        assert await found(store, uid=uid, task="send") == {task}
        assert await found(store, uid=uid, queue="slow") == {queue}
        assert await found(store, uid=uid, task="send", queue="slow") == set()
        assert await found(store, uid=uid, tag="a", name="mine") == mine
        assert await found(store, uid=uid, name="min") == set()


@pytest.mark.parametrize("limit", [2, 100])
async def test_jobs_are_found_by_status(store: Store, limit: int) -> None:
    active = {await store.recurring(), job_of(await store.one_shot(HOUR)), job_of(await store.one_shot())}
    await store.claim_due(await store.worker())
    paused = {await store.recurring(), job_of(await store.one_shot(HOUR))}
    for job_id in paused:
        await store.pause(job_id)
    cancelled = {await store.recurring(), job_of(await store.one_shot(HOUR))}
    for job_id in cancelled:
        await store.jobs.cancel(None, job_id, store.now)
    finished = {await store.recurring(store.every(MINUTE, max_runs=1))}
    await store.plan(ahead=SECOND * 60)
    for end in (State.SUCCEEDED, State.DEAD):
        run_id = await store.one_shot()
        await store.end(run_id, end)
        finished.add(job_of(run_id))

    for status, jobs in (
        (JobStatus.ACTIVE, active),
        (JobStatus.PAUSED, paused),
        (JobStatus.CANCELLED, cancelled),
        (JobStatus.FINISHED, finished),
    ):
        rows = await listed(store, statuses=frozenset({status}), limit=limit)
        assert {row.job.status for row in rows} == {status}
        assert {row.job.job_id for row in rows} == jobs
    several = frozenset({JobStatus.PAUSED, JobStatus.CANCELLED})
    assert await found(store, statuses=several, limit=limit) == paused | cancelled
    assert await found(store, statuses=ACTIVE | {JobStatus.PAUSED}, limit=limit) == active | paused
    assert await found(store, limit=limit) == active | paused | cancelled | finished


@pytest.mark.parametrize("limit", [1, 100])
async def test_jobs_are_found_by_the_beginning_of_their_names_in_their_order(store: Store, limit: int) -> None:
    """By code points, whatever order the database has for texts: capitals first, and a hyphen counts."""
    ended = [await store.one_shot(name="a-ended"), await store.one_shot(name="b-ended")]
    for run_id in ended:
        await store.end(run_id, State.SUCCEEDED)
    names = ["a", "a b", "a-b", "aB", "ab", "ab", "a\U0010ffff", "aé"]
    mine = {name: set[JobId]() for name in names}
    for number, name in enumerate(store.chance.sample(names, len(names))):
        made = await (store.recurring(name=name) if number % 2 else store.one_shot(HOUR, name=name))
        mine[name].add(JobId(made))
    await store.recurring(name="A"), await store.one_shot(HOUR, name="b"), await store.recurring()
    theirs = await store.recurring(uid=store.stranger, name="ac")

    for uid, also in ((store.uid, []), (None, ["ac"])):
        rows = await listed(store, uid=uid, name_prefix="a", limit=limit)
        assert [row.job.spec.name for row in rows] == [*sorted([*names, *also]), "a-ended"]
        assert {row.job.job_id for row in rows} - {theirs} == set.union(*mine.values()) | {job_of(ended[0])}
    assert await found(store, uid=store.uid, name_prefix="a\U0010ffff", limit=limit) == mine["a\U0010ffff"]
    assert await found(store, uid=store.uid, name_prefix="ab", statuses=FINISHED, limit=limit) == set()


async def test_finished_one_shots_follow_the_live_jobs_newest_end_first(store: Store) -> None:
    ended = await store.one_shots(4)
    for run_id in store.chance.sample(ended, 4):
        await store.end(run_id, State.SUCCEEDED)
        store.advance(SECOND)
    live = await store.one_shot(HOUR)

    rows = await listed(store, limit=2)

    assert rows[0].job.job_id == live
    ends = [(await store.run(await only_run(store, row.job.job_id))).ended_at for row in rows[1:]]
    assert len(ends) == 4
    assert ends == sorted(ends, key=lambda at: -(at or 0))
    assert {row.next_at for row in rows[1:]} == {None}


async def only_run(store: Store, job_id: JobId) -> Any:
    return only(await store.runs(job_id=job_id)).run_id


@pytest.mark.parametrize("limit", [2, 100])
async def test_a_window_is_ordered_by_next_run(store: Store, limit: int) -> None:
    by_minute = {}
    for i in store.chance.sample(range(1, 11), 10):
        job = await store.recurring(every=i * MINUTE) if i % 2 else job_of(await store.one_shot(i * MINUTE))
        by_minute[i] = job
    theirs = await store.recurring(every=5 * MINUTE, uid=store.stranger)

    async def window(**query: Any) -> list[JobId]:
        return [row.job.job_id for row in await listed(store, limit=limit, **query)]

    mine = await window(next_from=store.at(3 * MINUTE - 1), next_until=store.at(8 * MINUTE + 1), uid=store.uid)
    assert mine == [by_minute[i] for i in range(3, 9)]
    assert await window(next_from=store.at(9 * MINUTE - 1)) == [by_minute[9], by_minute[10]]
    assert await window(next_until=store.at(2 * MINUTE + 1)) == [by_minute[1], by_minute[2]]
    assert theirs in await window(next_until=store.at(HOUR))


async def test_edits_show_in_the_list(store: Store) -> None:
    recurring, one_shot = (
        await store.recurring(name="old", tags=("old",)),
        await store.one_shot(HOUR, name="old", tags=("old",)),
    )
    for job_id in (recurring, job_of(one_shot)):
        assert await store.edit(job_id, name="new", tags=("new",))

    assert await found(store, name="old") == await found(store, tag="old") == set()
    assert await found(store, name="new") == await found(store, tag="new") == {recurring, job_of(one_shot)}


@pytest.mark.parametrize("mark", ["nonsense", "AAAA", "gA", "%00", "ä"])
async def test_a_job_mark_that_is_not_ours_is_refused(store: Store, mark: str) -> None:
    for query in (JobQuery(after=mark), JobQuery(after=mark, next_from=store.now), JobQuery(after=mark, tag="t")):
        with pytest.raises(Invalid):
            await store.lists.jobs(query)


async def test_a_mark_of_another_list_is_refused_or_harmless(store: Store) -> None:
    """A user may paste any page token anywhere: it causes no internal error and shows no other user's jobs."""
    await store.one_shots(3, due=HOUR, uid=store.stranger, tags=("t",))
    await store.one_shots(3, due=HOUR, tags=("t",))
    marks = [(await store.lists.jobs(JobQuery(limit=1, **query))).next for query in LISTS]

    for mark in filter(None, marks):
        for query in LISTS:
            try:
                page = await store.lists.jobs(JobQuery(uid=store.uid, after=mark, **query))
            except Invalid:
                continue
            assert {row.job.uid for row in page.items} <= {store.uid}


LISTS: list[dict[str, Any]] = [{}, {"tag": "t"}, {"next_until": HOUR << 20}, {"statuses": FINISHED}]


# --------------------------------------------------------------------------------------------------------- of all users

USERS = 4


async def filled(store: Store) -> list[UserNumber]:
    """Each user has two recurring jobs, two one-shots that wait and some that ended; the first has most of those."""
    users = [await store.accounts.user(f"user {n}", store.now) for n in range(USERS)]
    worker = await store.worker()
    for n in range(2):
        for uid in users:
            named: dict[str, Any] = {"uid": uid, "name": f"name-{n}", "tags": (f"tag-{n}",)}
            await store.recurring(every=HOUR, **named)
            await store.one_shot(HOUR, **named)
            for _ in range(7 if uid == users[0] else 1):
                run_id = await store.one_shot(0, **named)
                await store.succeed(worker, await store.claim_one(worker, run_id))
                store.advance(SECOND)
    return users


async def pages(store: Store, query: Any, limit: int) -> list[Any]:
    found: list[Any] = []
    after = None
    while True:
        asked = replace(query, limit=limit, after=after)
        page: Page[Any] = await (store.lists.jobs(asked) if isinstance(query, JobQuery) else store.lists.runs(asked))
        assert len(page.items) <= limit
        found += page.items
        if (after := page.next) is None:
            return found


JOBS = {
    "all": (JobQuery(), 36),
    "active": (JobQuery(statuses=frozenset({JobStatus.ACTIVE})), 16),
    "finished": (JobQuery(statuses=frozenset({JobStatus.FINISHED})), 20),
    "with a name": (JobQuery(name="name-1"), 18),
    "by the beginning of their names": (JobQuery(name_prefix="name"), 36),
    "with a tag": (JobQuery(tag="tag-1"), 18),
    "by their next run": (JobQuery(next_from=Instant(0)), 16),
    "with a tag, by their next run": (JobQuery(tag="tag-1", next_from=Instant(0)), 8),
    "with a tag and a name": (JobQuery(tag="tag-1", name="name-0"), 0),
}


@pytest.mark.parametrize("which", JOBS)
async def test_everybodys_jobs_are_listed_once_each_in_one_order(store: Store, which: str) -> None:
    users = await filled(store)
    query, count = JOBS[which]

    whole = [row.job.job_id for row in await pages(store, query, 100)]

    assert len(whole) == len(set(whole)) == count
    assert [row.job.job_id for row in await pages(store, query, 3)] == whole
    own = [row.job.job_id for uid in users for row in await pages(store, replace(query, uid=uid), 100)]
    assert sorted(own) == sorted(whole)


async def test_everybodys_ended_runs_are_listed_newest_end_first(store: Store) -> None:
    users = await filled(store)
    query = RunQuery(states=frozenset({State.SUCCEEDED}))

    for asked, count in ((query, 20), (replace(query, ended_from=store.at(-4 * SECOND)), 4)):
        whole = await pages(store, asked, 100)
        ends = [run.ended_at for run in whole]
        assert len(whole) == count
        assert ends == sorted(ends, reverse=True)
        assert await pages(store, asked, 3) == whole
    recent = await store.lists.recent(None, store.at(-4 * SECOND), 100)
    assert [run.run_id for run in recent] == [run.run_id for run in whole]
    assert {run.uid for run in await pages(store, RunQuery(states=frozenset({State.WAITING})), 3)} == set(users)


async def test_ends_of_long_ago_are_found(store: Store) -> None:
    await filled(store)
    store.advance(40 * 24 * HOUR)
    await store.one_shot(MINUTE)

    assert len(await pages(store, RunQuery(states=frozenset({State.SUCCEEDED})), 3)) == 20


async def test_everybodys_are_counted(store: Store) -> None:
    await filled(store)
    store.advance(2 * HOUR)

    found = await store.lists.counts(None, 10, store.now)

    assert (found.jobs[JobStatus.ACTIVE], found.jobs[JobStatus.FINISHED]) == (10, 10)
    assert found.ended_all is False
    found = await store.lists.counts(None, 100, store.now)
    assert (found.jobs[JobStatus.ACTIVE], found.jobs[JobStatus.FINISHED]) == (16, 20)
    assert (found.live_all, found.ended_all) == (True, True)
