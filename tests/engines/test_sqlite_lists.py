"""SQLite keeps no index by (user, instant): a window is read in one of two ways, and both must say the same."""

from pathlib import Path

import pytest

from oncue.domain.instants import HOUR, MINUTE
from oncue.engines.open import open_engine
from oncue.engines.port import Engine, JobQuery, JobRow
from oncue.engines.sqlite import lists
from oncue.settings import Settings
from oncue_conformance.store import Store


async def all_pages(store: Store, query: JobQuery) -> list[JobRow]:
    rows: list[JobRow] = []
    for _ in range(1_000):
        page = await store.lists.jobs(query)
        rows += page.items
        if page.next is None:
            return rows
        query = JobQuery(query.uid, next_from=query.next_from, next_until=query.next_until, limit=3, after=page.next)
    raise AssertionError("the pages never end")


@pytest.mark.parametrize("whose", ["one user", "everybody"])
async def test_a_window_is_the_same_however_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whose: str
) -> None:
    async def open_one() -> Engine:
        return await open_engine(Settings(engine=f"sqlite:///{tmp_path}/oncue.db"))

    async with await Store.on(open_one) as store:
        for i in range(12):
            await store.one_shot(i * MINUTE, task=f"task{i % 3}")
            await store.one_shot(i * MINUTE, group="one after the other")
            await store.one_shot(i * MINUTE, uid=store.stranger)
            await store.create(await store.new_recurring(every=(i + 1) * MINUTE))
        uid = store.uid if whose == "one user" else None
        query = JobQuery(uid, next_from=store.at(2 * MINUTE), next_until=store.at(HOUR), limit=3)

        few = await all_pages(store, query)
        monkeypatch.setattr(lists, "SORTED_AT_ONCE", 0)
        many = await all_pages(store, query)

    assert [row.job.job_id for row in many] == [row.job.job_id for row in few]
    assert [row.next_at for row in few] == sorted(row.next_at or 0 for row in few)
    assert len(few) == (10 + 10 + 11 if uid is not None else 10 + 10 + 10 + 11)
