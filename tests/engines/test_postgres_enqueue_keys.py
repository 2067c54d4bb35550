"""Keys of enqueuing in transactions that see an old state: no id without a job, with every driver of the docs."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID, uuid4

import asyncpg
import msgspec
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session
from tests.engines import test_postgres_outside as outside
from tests.engines.outbox_site import Site, opened
from tests.engines.test_postgres_outside import Place, eventually

import oncue
from oncue.domain.ids import created_at
from oncue.domain.instants import DAY, SECOND, Duration, Instant
from oncue.engines.open import migrate
from oncue.engines.postgres import migrate as postgres_migrate
from oncue.engines.sql import migrations
from oncue.settings import Settings

place = outside.place
pytestmark = pytest.mark.anyio

LEVELS = ("read committed", "repeatable read", "serializable")
REUSED, REPEAT = "23505", "40001"
BEFORE = 27  # the migration that keeps keys by themselves


@pytest.fixture
async def site(place: Place, tmp_path: Path) -> AsyncIterator[Site]:
    async with opened(place, tmp_path, "oncue") as site:
        yield site


# ------------------------------------------------------------------------------------------------------- three drivers


class Shop(Protocol):
    """A transaction of an application; entering it takes its snapshot."""

    async def enqueue(self, key: str, user: int) -> UUID | str:
        """Return the id, or the SQLSTATE; then as much is undone as the caller's savepoint covers."""
        ...


class WithAsyncpg:
    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection

    async def enqueue(self, key: str, user: int) -> UUID | str:
        try:
            async with self._connection.transaction():  # a savepoint
                return await oncue.enqueue(self._connection, "welcome", payload={"user": user}, idempotency_key=key)
        except asyncpg.PostgresError as refused:
            return str(refused.sqlstate)


class WithPsycopg:
    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection

    async def enqueue(self, key: str, user: int) -> UUID | str:
        try:
            with self._connection.transaction():
                return oncue.enqueue(self._connection, "welcome", payload={"user": user}, idempotency_key=key)
        except psycopg.Error as refused:
            return str(refused.sqlstate)


class WithSqlalchemy:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def enqueue(self, key: str, user: int) -> UUID | str:
        try:
            with self._session.begin_nested():
                return oncue.enqueue(self._session, "welcome", payload={"user": user}, idempotency_key=key)
        except DBAPIError as refused:
            return str(getattr(refused.orig, "sqlstate", None))


LOOK = "select 1"  # the first statement takes the snapshot


@asynccontextmanager
async def with_asyncpg(url: str, level: str) -> AsyncIterator[Shop]:
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction(isolation=level.replace(" ", "_")):
            await connection.execute(LOOK)
            yield WithAsyncpg(connection)
    finally:
        await connection.close()


@asynccontextmanager
async def with_psycopg(url: str, level: str) -> AsyncIterator[Shop]:
    with psycopg.connect(url.partition("?")[0]) as connection:
        connection.isolation_level = psycopg.IsolationLevel[level.upper().replace(" ", "_")]
        connection.execute(LOOK)
        yield WithPsycopg(connection)


@asynccontextmanager
async def with_sqlalchemy(url: str, level: str) -> AsyncIterator[Shop]:
    plain = url.replace("postgresql:", "postgresql+psycopg:", 1).partition("?")[0]
    engine = sqlalchemy.create_engine(plain, isolation_level=level.upper())
    try:
        with Session(engine) as session, session.begin():
            session.execute(sqlalchemy.text(LOOK))
            yield WithSqlalchemy(session)
    finally:
        engine.dispose()


OPEN: dict[str, Callable[[str, str], Any]] = {
    "asyncpg": with_asyncpg,
    "psycopg": with_psycopg,
    "sqlalchemy": with_sqlalchemy,
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("driver", OPEN)
async def test_no_id_is_without_a_job_however_old_the_snapshot_is(site: Site, driver: str, level: str) -> None:
    """The snapshot is from before the key, or from when its job was in the outbox; meanwhile a scheduler created it, or
    has not yet; the body is the same, or another."""
    old, again = ([f"{kind}-{taken}-{user}" for taken in "wt" for user in "78"] for kind in ("old", "again"))
    first: dict[str, UUID] = {}

    async def enqueue(keys: list[str], taken: str) -> None:
        first.update({key: await site.enqueue(idempotency_key=key) for key in keys if f"-{taken}-" in key})

    start = partial(OPEN[driver], site.url, level)
    got: dict[str, UUID | str] = {}
    async with AsyncExitStack() as ends:
        unseen = await ends.enter_async_context(start())
        await enqueue([*old, *again], "t")
        seen = await ends.enter_async_context(start())
        await site.service().run_once()  # now these jobs exist, and their rows are gone
        await enqueue([*old, *again], "w")
        for shop, keys in ((unseen, old), (seen, [key for key in again if "-t-" in key])):
            got |= {key: await shop.enqueue(key, int(key[-1])) for key in keys}
            fresh = str(uuid4())
            made = await shop.enqueue(fresh, 7)
            assert isinstance(made, UUID)  # what failed was undone, and nothing else
            first[fresh] = got[fresh] = made

    for key, found in got.items():
        expected = first[key] if key[-1] != "8" or key not in old + again else REUSED
        is_unseen = key in old and level != "read committed"
        assert found == (REPEAT if is_unseen else expected), key
    async with start() as repeated:
        for key in old + again:
            assert await repeated.enqueue(key, int(key[-1])) == (REUSED if key[-1] == "8" else first[key]), key
    await site.service().run_once()
    assert all([await site.has(job_id) for job_id in first.values()])
    assert await site.listed() == []


@pytest.mark.parametrize("level", LEVELS)
async def test_a_key_that_another_transaction_is_using_is_one_job(site: Site, place: Place, level: str) -> None:
    async with with_asyncpg(site.url, level) as shop:
        async with site.web.transaction():
            first = await site.enqueue(idempotency_key="k")
            second = asyncio.create_task(shop.enqueue("k", 7))
            await eventually(lambda: place.backends("wait_event_type = 'Lock'", name=""))
        assert await second == (first if level == LEVELS[0] else REPEAT)
    await site.service().run_once()
    assert await site.has(first)


# ----------------------------------------------------------------------------------------------- how long they are kept


async def test_a_key_is_kept_for_its_time_and_as_long_as_its_job_is_in_the_outbox(site: Site) -> None:
    gone = await site.enqueue(idempotency_key="gone")
    stays = await site.enqueue(payload={"user": "seven"}, idempotency_key="stays")
    await site.service().run_once()
    keep = site.settings.idempotency_retention
    assert keep == DAY

    for later, forgotten in ((2 * keep - SECOND, False), (2 * keep + SECOND, True)):
        now = Instant(max(map(created_at, (gone, stays))) + later)
        await site.engine.maintenance.maintain(now, Duration(365 * DAY))
        assert (await site.enqueue(idempotency_key="gone") != gone) is forgotten
        assert await site.enqueue(payload={"user": "seven"}, idempotency_key="stays") == stays

    await site.service().run_once()
    assert [row.job_id for row in await site.listed()] == [stays]


async def test_a_key_whose_job_was_discarded_is_free(site: Site) -> None:
    refused = await site.enqueue(payload={"user": "seven"}, idempotency_key="k")
    await site.service().run_once()
    assert await site.engine.outbox.discard([refused]) == 1  # type: ignore[list-item]  # a JobId

    second = await site.enqueue(idempotency_key="k")
    await site.service().run_once()
    assert second != refused
    assert await site.has(second)


# --------------------------------------------------------------------------------------------------------- an upgrade


class Older:
    """A store as the release before the migration left it, while its applications go on."""

    def __init__(self, url: str, patch: pytest.MonkeyPatch) -> None:
        self.settings = Settings(engine=url)
        self._patch = patch

    async def made(self) -> None:
        ours = migrations("oncue.engines.postgres")
        self._patch.setattr(postgres_migrate, "migrations", lambda _: [one for one in ours if one[0] < BEFORE])
        await migrate(self.settings)

    async def upgraded(self) -> None:
        self._patch.undo()
        await migrate(self.settings)


async def call(session: asyncpg.Connection, key: str, user: int = 7) -> UUID | str:
    payload = msgspec.json.encode({"user": user}).decode()
    ask = "select enqueue('welcome', $1, idempotency_key => $2, require_task => false)"
    try:
        async with session.transaction():
            found: UUID = await session.fetchval(ask, payload, key)
            return found
    except asyncpg.PostgresError as refused:
        return str(refused.sqlstate)


# What a scheduler of that release does with a row.
TAKEN_IN = """\
with gone as (delete from outbox where job_id = $1 returning *)
insert into repeats_0 (uid, key_hash, body_hash, made) select uid, key_hash, body_hash, job_id from gone"""


async def test_keys_from_before_an_upgrade_are_known_after_it(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = Older(postgres_url, monkeypatch)
    await older.made()
    async with AsyncExitStack() as ends:
        sessions = [await asyncpg.connect(postgres_url) for _ in range(3)]
        for session in sessions:
            ends.push_async_callback(session.close)
        web, old, late = sessions
        await web.execute("insert into db_grants values (session_user, 1, 'member', 0)")
        await old.transaction(isolation="repeatable_read").start()
        await old.execute(LOOK)
        in_outbox, taken, moves = [await call(web, key) for key in ("in_outbox", "taken", "moves")]
        await web.execute(TAKEN_IN, taken)
        begun = late.transaction()
        await begun.start()
        in_flight = await call(late, "in_flight")

        upgrade = asyncio.create_task(older.upgraded())
        waits = "select count(*) from pg_locks where relation = 'outbox'::regclass and not granted"
        async with asyncio.timeout(outside.PATIENCE):
            while not await web.fetchval(waits):
                await asyncio.sleep(0.01)
        straddles = asyncio.create_task(call(web, "straddles"))  # its function is that of before
        await begun.commit()
        await upgrade

        first = {"in_outbox": in_outbox, "taken": taken, "moves": moves, "in_flight": in_flight}
        first["straddles"] = await straddles
        await web.execute(TAKEN_IN, moves)  # by a scheduler that is still of before
        for key, job_id in first.items():
            assert isinstance(job_id, UUID), key
            assert await call(old, key) == REPEAT, key
            assert await call(web, key) == job_id, key
            assert await call(web, key, 8) == REUSED, key
            assert await call(web, key) == job_id, key
