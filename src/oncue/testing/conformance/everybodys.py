"""What administrators list: the jobs and runs of all users, page after page, in one order."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from oncue.domain.ids import UserNumber
from oncue.domain.instants import HOUR, MINUTE, SECOND, Instant
from oncue.domain.job import JobStatus
from oncue.domain.run import State
from oncue.engines.port import JobQuery, Page, RunQuery
from oncue.testing.conformance.store import Store

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
