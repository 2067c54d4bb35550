"""Opening: many processes at once, a schema from the future, a server that is not there, a URL that is wrong."""

import asyncio
import logging
import secrets
import socket
import sys
from time import perf_counter
from urllib.parse import urlsplit

import asyncpg
import pytest
from tests.engines import test_postgres_outside as outside
from tests.engines.test_postgres_outside import SHORT, Place, eventually

from oncue.domain.errors import Invalid, OncueError, StoreUnavailable
from oncue.domain.instants import MILLISECOND, SECOND, Duration
from oncue.engines.open import open_engine
from oncue.engines.postgres import migrate
from oncue.engines.sql import migrations
from oncue.settings import Settings
from oncue_conformance.store import job_of

place = outside.place

SECRET = "hunter2swordfish"
OPEN_ONCE = """
import asyncio, sys
from oncue.engines.open import open_engine
from oncue.engines.postgres import migrate
from oncue.settings import Settings
from oncue_conformance.store import job_of

async def main():
    print("ready", flush=True)
    sys.stdin.readline()  # all at once
    engine = await open_engine(Settings(engine=sys.argv[1]))
    assert await engine.jobs.classes() == {}
    await engine.close()

asyncio.run(main())
"""


# ----------------------------------------------------------------------------------------------------------- the schema


async def test_several_processes_may_open_an_empty_database_at_once(postgres_url: str) -> None:
    """Catches migrations that two run at the same time, and one that does not see what it has waited for."""
    command = (sys.executable, "-c", OPEN_ONCE, postgres_url)
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), asyncio.subprocess.PIPE)
    processes = [await asyncio.create_subprocess_exec(*command, **pipes) for _ in range(6)]
    async with asyncio.timeout(60):
        for process in processes:
            assert await process.stdout.readline() == b"ready\n"
        said = await asyncio.gather(*(process.communicate(b"go\n") for process in processes))

    assert [process.returncode for process in processes] == [0] * 6, said
    assert await versions(postgres_url) == [number for number, _ in migrations("oncue.engines.postgres")]


async def test_who_opens_waits_for_whoever_migrates(place: Place) -> None:
    await place.session.execute("drop schema public cascade; create schema public")
    async with place.holding(f"select pg_advisory_xact_lock({migrate.LOCK})"):
        opening = asyncio.create_task(open_engine(Settings(engine=place.url, store_timeout=SHORT)))
        await eventually(lambda: place.backends("wait_event_type = 'Lock' and now() - query_start > '1500 ms'"))

    await (await opening).close()


async def versions(url: str) -> list[int]:
    session = await asyncpg.connect(url)
    try:
        return [row["number"] for row in await session.fetch("select number from oncue_migrations order by 1")]
    finally:
        await session.close()


async def test_opening_again_changes_nothing(place: Place) -> None:
    store = await place.store()
    run_id = await store.one_shot()
    tables = "select oid, relname, relfilenode from pg_class where relnamespace = 'public'::regnamespace order by 1"
    before = await place.session.fetch(tables)

    other = await place.store()

    assert await place.session.fetch(tables) == before
    assert (await other.run(run_id)).run_id == run_id


async def test_a_schema_from_the_future_is_left_alone(place: Place) -> None:
    """Catches an old program that writes into tables it does not know."""
    await place.session.execute("insert into oncue_schema values (999)")
    message = r"its schema has level 999, and this version supports levels up to \d+"
    with pytest.raises(OncueError, match=message):
        await open_engine(Settings(engine=place.url))

    assert await place.backends() == []


async def test_a_schema_that_changes_under_an_open_engine_is_no_error(place: Place) -> None:
    """As when a newer process starts first. Catches "cached plan must not change result type"."""
    store = await place.store(pool_size=1)
    job_id, run_id = await store.recurring(), await store.one_shot()
    for column in ("a", "b"):
        assert (await store.snapshot(job_id)).job.job_id == job_id
        assert len(await store.fleet.workers()) == 0
        assert (await store.snapshot(job_of(run_id))).job.job_id == run_id
        for table in ("jobs", "waiting", "history", "workers"):
            await place.session.execute(f"alter table {table} add column {column} int")


async def test_a_user_who_may_not_make_tables_is_told_what_is_missing(postgres_url: str) -> None:
    session = await asyncpg.connect(postgres_url)
    poor = f"poor_{secrets.token_hex(4)}"
    await session.execute(f"revoke create on schema public from public; create role {poor} login password '{poor}'")
    try:
        with pytest.raises(OncueError, match=r"may not create tables .* grant"):
            await open_engine(Settings(engine=as_user(poor, postgres_url)))
    finally:
        await session.execute(f"drop role {poor}")
        await session.close()


def as_user(name: str, url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=f"{name}:{name}@{parts.hostname}:{parts.port}").geturl()


# ----------------------------------------------------------------------------------------------------------- the server


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def failure(url: str, **settings: Duration) -> OncueError:
    with pytest.raises(OncueError) as failed:
        await open_engine(Settings(engine=url, **settings))
    return failed.value


async def test_a_server_that_is_not_there_is_named_with_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with socket.socket() as taken:  # nobody else can listen there, and it does not
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        away = await failure(f"postgresql://ada:{SECRET}@127.0.0.1:{port}/oncue")

    assert isinstance(away, StoreUnavailable)
    for part in ("127.0.0.1", str(port), "start the server or correct the setting `engine`"):
        assert part in str(away)
    assert SECRET not in caplog.text + everything_said(away)


def everything_said(error: BaseException | None) -> str:
    """As a traceback would show it, causes and all."""
    said = ""
    while error is not None:
        said += f"{error!r} {error}\n"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return said


async def test_a_server_that_accepts_and_says_nothing_is_given_up_in_time() -> None:
    """Catches the driver's own limit of a minute."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://ada:{SECRET}@127.0.0.1:{silent.getsockname()[1]}/oncue"
        began = perf_counter()
        away = await failure(url, store_timeout=Duration(300 * MILLISECOND))

    assert perf_counter() - began < 30
    assert "no answer in time" in str(away)
    assert SECRET not in everything_said(away)


async def test_a_database_that_does_not_exist_counts_as_away(postgres_url: str) -> None:
    """Catches a raw driver error; it may be created any moment, as containers start in any order."""
    away = await failure(postgres_url.replace("oncue_test", "nowhere"), store_timeout=Duration(5 * SECOND))

    assert isinstance(away, StoreUnavailable)
    assert "does not exist" in str(away)


async def test_a_server_without_tls_is_told_from_one_that_is_away(postgres_url: str) -> None:
    away = await failure(f"{postgres_url}?sslmode=require", store_timeout=Duration(5 * SECOND))

    assert "offers no TLS" in str(away)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://ada:{SECRET}/x@db.example/oncue",  # a slash in the password: the rest looks like a port
        f"postgresql://ada:p[{SECRET}@db.example/oncue",
        f"postgresql://ada:{SECRET}@db.example:port/oncue",
        f"postgresql://ada:{SECRET}@db.example/oncue?sslmode=yes",
        f"postgresql://ada:{SECRET}@127.0.0.1/oncue?prepared_statements=maybe",
    ],
)
async def test_a_url_that_makes_no_sense_is_refused_without_repeating_the_password(url: str) -> None:
    """Catches "invalid literal for int(): 'hunter2…'"."""
    wrong = await failure(url)

    assert isinstance(wrong, Invalid)
    assert [problem.path for problem in wrong.problems] == ["engine"]
    assert SECRET not in everything_said(wrong)
