"""Ways in which the outbox creates jobs: of a few kinds, of many, and one that is there already."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.engines import test_postgres_outside as outside
from tests.engines.outbox_site import Site, opened
from tests.engines.test_postgres_outside import Place

from oncue.engines.postgres.inserting import MOST_KINDS
from oncue.engines.postgres.outbox import MOST_BYTES

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

    waits = [(await service.run_once(), len(await site.listed())) for _ in range(3)]

    assert [left for _, left in waits] == [2, 1, 0]
    assert [wait == 0 for wait, _ in waits] == [True, True, False]
