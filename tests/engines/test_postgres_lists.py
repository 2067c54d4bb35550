"""Pages whose look is cut short: wherever that happens, together they have what one long look finds."""

from typing import Any

import pytest
from tests.engines import test_postgres_outside as outside
from tests.engines.test_postgres_outside import Place

from oncue.domain.ids import JobId
from oncue.domain.instants import HOUR, MINUTE, SECOND
from oncue.domain.job import JobStatus
from oncue.domain.run import State
from oncue.engines.port import JobQuery
from oncue.engines.postgres import lists
from oncue_conformance.store import Store, job_of

place = outside.place

RARE = {"task": "rare", "queue": "q", "name": "n", "tags": ("t",)}


async def some_of_everything(store: Store) -> None:
    """Of two users, in turns; one in five is rare. Runs that are no jobs are among them, with the same name."""
    for i in range(30):
        how: dict[str, Any] = RARE if i % 5 == 0 else {"tags": ("t",) if i % 2 else ()}
        uid = store.stranger if i % 3 == 0 else store.uid
        store.advance(SECOND)
        if i % 2:
            job_id = await store.recurring(every=(i + 1) * MINUTE, uid=uid, **how)
        else:
            job_id = job_of(await store.one_shot((i + 1) * MINUTE, uid=uid, **how))
        if i % 7 == 0:
            await store.pause(job_id)
        if i % 11 == 0:
            await store.jobs.cancel(None, job_id, store.now)
    for i in range(12):
        store.advance(SECOND)
        run_id = await store.one_shot(uid=store.stranger if i % 3 else store.uid, **(RARE if i % 4 == 0 else {}))
        await store.end(run_id, State.SUCCEEDED if i % 2 else State.DEAD)
    await store.plan(ahead=HOUR)


async def walk(store: Store, limit: int, **query: Any) -> list[list[JobId]]:
    pages, after = list[list[JobId]](), None
    while after is not None or not pages:
        page = await store.lists.jobs(JobQuery(limit=limit, after=after, **query))
        assert len(page.items) <= limit
        pages.append([row.job.job_id for row in page.items])
        after = page.next
        assert len(pages) < 500
    return pages


QUERIES: list[dict[str, Any]] = [
    {},
    {"task": "rare"},
    {"queue": "q"},
    {"name": "n"},
    {"name": "n", "task": "rare"},
    {"tag": "t"},
    {"tag": "t", "task": "rare"},
    {"tag": "t", "name": "n"},
    {"next_from": 0},
    {"next_from": 0, "task": "rare"},
    {"next_from": 0, "name": "n"},
    {"next_from": 0, "tag": "t"},
    *({"statuses": frozenset({status})} for status in JobStatus),
    *({"statuses": frozenset({status}), "task": "rare"} for status in JobStatus),
    {"statuses": frozenset({JobStatus.ACTIVE}), "tag": "t"},
]


async def test_pages_that_are_cut_short_miss_nothing_and_repeat_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await place.store()
    await some_of_everything(store)
    seen = 0
    for query in QUERIES:
        for uid in (None, store.uid, store.stranger):
            [whole] = await walk(store, 1_000, uid=uid, **query)
            seen += len(whole)
            with monkeypatch.context() as patch:
                patch.setattr(lists, "SCAN", 4)
                patch.setattr(lists, "LOOKUP_SCAN", 4)
                for limit in (1, 3, 100):
                    pages = await walk(store, limit, uid=uid, **query)
                    assert [job_id for page in pages for job_id in page] == whole, (query, uid, limit)
    assert seen > 400
