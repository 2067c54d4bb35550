"""Ways in which the outbox creates jobs: of few kinds or many, one that is there already, in passes that overlap."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from copy import copy
from pathlib import Path
from typing import Any

import pytest
from tests.engines import test_postgres_outside as outside
from tests.engines.outbox_site import Site, opened
from tests.engines.test_postgres_outside import Place

from oncue.domain.errors import StoreUnavailable
from oncue.domain.instants import Instant
from oncue.engines.outbox_values import Deciding, Decision, Enqueued, TakenIn
from oncue.engines.postgres.inserting import MOST_KINDS
from oncue.engines.postgres.outbox import MOST_BYTES
from oncue.services.outbox import POLL_INTERVAL

place = outside.place
pytestmark = pytest.mark.anyio


@pytest.fixture
async def site(place: Place, tmp_path: Path) -> AsyncIterator[Site]:
    async with opened(place, tmp_path) as site:
        yield site


@pytest.mark.parametrize("kinds", [2, MOST_KINDS + 2])
async def test_each_row_of_a_pass_is_created_as_it_was_enqueued(site: Site, place: Place, kinds: int) -> None:
    service = site.service()
    for n in range(2):  # the first pass learns the numbers of their class
        names = [f"{n} {kind}" for kind in range(kinds)]
        wanted = {await site.enqueue(payload={"user": n}, options={"name": name}): name for name in names}
        await service.run_once()

    found = await place.session.fetch("select run_id, name, payload from waiting where payload = $1", b'{"user":1}')
    told = await place.session.fetch("select object_id from audit where action = 'job.create'")
    assert {row["run_id"]: row["name"] for row in found} == wanted
    assert len(told) == len({row[0] for row in told}) == 2 * kinds


async def test_a_row_whose_job_is_there_already_only_goes(site: Site, place: Place) -> None:
    """As after the database's rows were restored by hand."""
    service = site.service()
    await site.enqueue()
    await service.run_once()
    job_id = await site.enqueue()
    await place.session.execute("create table copied as select * from outbox")
    await service.run_once()
    await place.session.execute("insert into outbox overriding system value select * from copied; drop table copied")

    await service.run_once()

    assert await site.listed() == []
    assert await place.session.fetchval("select count(*) from audit where object_id = $1", job_id) == 1


async def test_a_pass_takes_no_more_payload_than_fits_into_memory(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_BYTES >= 2**20
    monkeypatch.setattr("oncue.engines.postgres.outbox.MOST_BYTES", 100)
    for _ in range(3):
        await site.enqueue(payload={"user": 1, "text": "x" * 150})
    service = site.service()

    waits = [(await service.run_once(), len(await site.listed())) for _ in range(4)]

    assert [left for _, left in waits] == [2, 1, 0, 0]
    assert [wait == 0 for wait, _ in waits] == [True, True, True, False]


class Watched:
    """An outbox. Its first pass waits until the second one has rows in hand, and then creates its jobs, or fails."""

    def __init__(self, real: Any, *, fails: bool) -> None:
        self._real = real
        self.fails = fails
        self.passes = 0
        self.second_has_rows = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    async def take_in(self, limit: int, now: Instant, deciding: Deciding, after: Enqueued | None = None) -> TakenIn:
        self.passes += 1
        found: TakenIn = await self._real.take_in(limit, now, Pass(deciding, self.passes, self), after)
        return found


class Pass:
    def __init__(self, deciding: Deciding, number: int, watched: Watched) -> None:
        self._deciding = deciding
        self._number = number
        self._watched = watched
        self.not_created = deciding.not_created

    async def decide(self, rows: Sequence[Enqueued]) -> Sequence[Decision]:
        if self._number == 2:
            self._watched.second_has_rows.set()
        decided = await self._deciding.decide(rows)
        if self._number == 1:
            await self._watched.second_has_rows.wait()
            if self._watched.fails:
                raise StoreUnavailable("lost within the write")
        return decided


@pytest.mark.parametrize("fails", [False, True])
async def test_a_pass_takes_rows_while_the_one_before_creates_its_jobs_and_never_overtakes_it(
    site: Site, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    monkeypatch.setattr("oncue.services.outbox.AT_ONCE", 2)
    ids = [await site.enqueue(options={"group": "mail"}) for _ in range(5)]
    watched = copy(site)
    watched.engine = copy(site.engine)
    watched.engine.outbox = Watched(site.engine.outbox, fails=fails)
    service = watched.service()
    if fails:
        with pytest.raises(StoreUnavailable):
            await service.run_once()
        assert [row.job_id for row in await site.listed()] == ids, "the second pass has given its rows back"
        assert not any([await site.has(job_id) for job_id in ids])

    assert await service.run_once() == POLL_INTERVAL

    assert await site.listed() == []
    assert all([await site.has(job_id) for job_id in ids])
