"""`oncue.enqueue` with every kind of connection: in the caller's transaction, and with the caller's driver."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import asyncpg
import psycopg
import pytest
import sqlalchemy
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from tests import django_project
from tests.engines import test_postgres_outside as outside
from tests.engines.outbox_site import Site, opened
from tests.engines.test_postgres_outside import Place

import oncue
from oncue import Outbox, Tasks
from oncue.domain.errors import Invalid

place = outside.place
pytestmark = pytest.mark.anyio

tasks = Tasks()


@tasks.task
def welcome(user: int, text: str = "hi") -> None: ...


@pytest.fixture
async def site(place: Place, tmp_path: Path) -> AsyncIterator[Site]:
    async with opened(place, tmp_path, "oncue") as site:
        yield site


async def check(site: Site, kept: UUID, undone: UUID) -> None:
    """Of two jobs, one was committed."""
    assert isinstance(kept, UUID)
    assert [row.job_id for row in await site.listed()] == [kept]
    await site.service().run_once()
    assert (await site.job(kept)).job.payload == b'{"user":7}'
    assert not await site.has(undone)


def plain(site: Site, scheme: str = "postgresql") -> str:
    return site.url.replace("postgresql:", f"{scheme}:", 1).partition("?")[0]


async def test_asyncpg(site: Site) -> None:
    connection = await asyncpg.connect(site.url)
    async with connection.transaction():
        kept = await oncue.enqueue(connection, welcome, user=7)
    transaction = connection.transaction()
    await transaction.start()
    undone = await oncue.enqueue(connection, "welcome", payload={"user": 8})
    await transaction.rollback()
    await connection.close()
    await check(site, kept, undone)


async def test_psycopg_async(site: Site) -> None:
    async with await psycopg.AsyncConnection.connect(plain(site), row_factory=dict_row) as connection:
        kept = await oncue.enqueue(connection, welcome, user=7)
        await connection.commit()
        undone = await oncue.enqueue(connection, welcome, user=8)
        await connection.rollback()
    await check(site, kept, undone)


async def test_psycopg(site: Site) -> None:
    with psycopg.connect(plain(site)) as connection:
        kept = oncue.enqueue(connection, welcome, user=7)
        connection.commit()
        undone = oncue.enqueue(connection, welcome, user=8)
        connection.rollback()
    await check(site, kept, undone)


async def test_sqlalchemy(site: Site) -> None:
    engine = sqlalchemy.create_engine(plain(site, "postgresql+psycopg"))
    with sqlalchemy.orm.Session(engine) as session:
        kept = oncue.enqueue(session, welcome, user=7)
        session.commit()
    with engine.connect() as connection:
        undone = oncue.enqueue(connection, welcome, user=8)
        connection.rollback()
    engine.dispose()
    await check(site, kept, undone)


async def test_sqlalchemy_async(site: Site) -> None:
    engine = create_async_engine(plain(site, "postgresql+asyncpg"))
    async with AsyncSession(engine) as session:
        kept = await oncue.enqueue(session, welcome, user=7)
        await session.commit()
    async with engine.connect() as connection:
        undone = await oncue.enqueue(connection, welcome, user=8)
        await connection.rollback()
    await engine.dispose()
    await check(site, kept, undone)


async def test_django(site: Site) -> None:
    with django_project.database(site.url):
        kept, undone = await asyncio.to_thread(in_django)
    await check(site, kept, undone)


def in_django() -> tuple[UUID, UUID]:
    from django.db import connection, transaction

    with transaction.atomic():
        kept = oncue.enqueue(connection, welcome, user=7)
    with transaction.atomic():
        undone = oncue.enqueue(connection, welcome, user=8)
        transaction.set_rollback(True)
    connection.close()
    return kept, undone


async def test_arguments_that_do_not_fit_are_refused_before_anything_is_sent(site: Site) -> None:
    with pytest.raises(Invalid, match="user"):
        oncue.enqueue(site.web, welcome, user="seven")
    with pytest.raises(TypeError, match="user"):
        oncue.enqueue(site.web, welcome, usr=7)
    assert await site.listed() == []


async def test_a_handle_has_options_and_its_task_may_come_later(site: Site) -> None:
    soon = welcome.using(queue="mail", schedule="in 10m", idempotency_key="signup-7")
    first = await oncue.enqueue(site.web, soon, 7)
    assert await oncue.enqueue(site.web, soon, user=7) == first

    [row] = await site.listed()
    assert row.options == '{"queue": "mail", "schedule": "in 10m"}'
    assert not row.require_task


async def test_another_schema_is_named(place: Place, tmp_path: Path) -> None:
    async with opened(place, tmp_path, "shop") as shop:
        await Outbox("shop").enqueue(shop.web, "welcome", payload={"user": 7}, options={"queue": "mail"})
        assert len(await shop.listed()) == 1


async def test_what_has_no_transaction_is_refused(site: Site) -> None:
    async with asyncpg.create_pool(site.url, min_size=0) as pool:
        with pytest.raises(TypeError, match="a pool has no transaction"):
            oncue.enqueue(pool, "welcome")
    with pytest.raises(TypeError, match="cannot enqueue with object"):
        oncue.enqueue(object(), "welcome")  # type: ignore[call-overload]  # that is the point
