"""What a server, a database or a role may be set to: either it makes no difference, or opening says what is wrong."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest
from tests.engines.test_postgres_opening import as_user

from oncue.domain.errors import OncueError
from oncue.engines.open import open_engine
from oncue.engines.postgres.connecting import PINNED
from oncue.engines.postgres.engine import PostgresEngine
from oncue.settings import Settings
from oncue.testing.logs import capture_logs

ODD = {
    "default_transaction_isolation": "serializable",
    "default_transaction_deferrable": "on",
    "statement_timeout": "1ms",
    "lock_timeout": "1ms",
    "idle_in_transaction_session_timeout": "1ms",
    "idle_session_timeout": "1ms",
    "timezone": "Asia/Kolkata",
    "datestyle": "German",
    "intervalstyle": "sql_standard",
    "bytea_output": "escape",
    "standard_conforming_strings": "off",
    "extra_float_digits": "-15",
}


@asynccontextmanager
async def role(url: str, how: str = "") -> AsyncIterator[tuple[str, Any]]:
    """A role of its own that may make tables, and a session of whoever made it."""
    session, name = await asyncpg.connect(url), f"odd_{secrets.token_hex(4)}"
    await session.execute(f"create role {name} login password '{name}' {how}; grant all on schema public to {name}")
    try:
        yield name, session
    finally:
        await session.execute(f"drop owned by {name} cascade; drop role {name}")
        await session.close()


@pytest.mark.parametrize("bounced", [False, True])
async def test_what_a_role_has_set_makes_no_difference(postgres_url: str, bounced: bool) -> None:
    async with role(postgres_url) as (name, session):
        url = as_user(name, postgres_url)
        for setting, value in {} if bounced else ODD.items():
            await session.execute(f"alter role {name} set {setting} = '{value}'")
        if bounced:
            await session.execute(f"alter role {name} set default_transaction_isolation = 'serializable'")
            url += "?prepared_statements=off"
        engine = await open_engine(Settings(engine=url))
        assert isinstance(engine, PostgresEngine)
        try:
            isolation = await engine._store.write(lambda c: c.fetchval("show transaction_isolation"))
            assert isolation == "read committed"
            [(alone,)] = await engine._store.fetch("select current_setting('transaction_isolation')")
            assert alone == "read committed"
            for setting, value in {} if bounced else PINNED.items():
                [(found,)] = await engine._store.fetch(f"show {setting}")
                assert (setting, found) == (setting, value)
            await engine.probe()
        finally:
            await engine.close()


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
async def test_a_database_that_cannot_keep_every_text_is_refused(postgres_url: str, encoding: str) -> None:
    session, name = await asyncpg.connect(postgres_url), f"odd_{secrets.token_hex(4)}"
    await session.execute(f"create database {name} encoding '{encoding}' locale 'C' template template0")
    try:
        url = urlsplit(postgres_url)._replace(path=f"/{name}").geturl()
        with pytest.raises(OncueError, match=f"encoding of this database is {encoding}.*UTF8"):
            await open_engine(Settings(engine=url))
    finally:
        await session.execute(f"drop database {name} with (force)")
        await session.close()


async def test_a_search_path_to_nowhere_is_named(postgres_url: str) -> None:
    async with role(postgres_url) as (name, session):
        await session.execute(f"alter role {name} set search_path = nowhere")
        with pytest.raises(OncueError, match="search_path of this user names no existing schema"):
            await open_engine(Settings(engine=as_user(name, postgres_url)))


async def test_too_few_connections_are_shared_and_a_line_says_so(postgres_url: str) -> None:
    async with role(postgres_url, "connection limit 3") as (name, session):
        with capture_logs() as logs:
            engine = await open_engine(Settings(engine=as_user(name, postgres_url), pool_size=8))

            def said() -> list[str]:
                return [line["event"] for line in logs if line["kind"] == "connections_used_up"]

            try:
                async with asyncio.timeout(60), session.transaction():
                    await session.execute("lock table keys")  # each call keeps its connection, so that all are needed
                    calls = [asyncio.create_task(engine.accounts.keys()) for _ in range(40)]
                    while not said():
                        await asyncio.sleep(0.01)
                await asyncio.gather(*calls)
            finally:
                await engine.close()

    assert "max_connections" in said()[0]
