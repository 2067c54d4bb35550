"""Empty databases with the schema, for one test after the other: cleared between two rather than made anew.

Making a database and dropping it takes 60 ms of a server's time, clearing one 5. Whatever cannot be cleared with
certainty (a table that was made or altered, a setting, a row of the schema's own that changed) is dropped.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

import asyncpg
import msgspec

from oncue.testing.postgres import PrivatePostgres

T = TypeVar("T")

USES = 50  # then what was deleted begins to be in the way
LONGEST = 20  # seconds

# Rows of the catalogue are never changed in place by DDL: a higher xmin or another count means that there was some.
_CATALOGUE = (
    "pg_class",
    "pg_attribute",
    "pg_constraint",
    "pg_index",
    "pg_trigger",
    "pg_proc",
    "pg_type",
    "pg_statistic",
)
_SHAPE = " union all ".join(
    [
        *(f"select '{name}', count(*), max(xmin::text::bigint) from {name}" for name in _CATALOGUE),
        "select 'settings', count(*), max(xmin::text::bigint) from pg_db_role_setting",
    ]
)
_TABLES = """
    select c.oid::regclass::text from pg_class c where c.relkind = 'r' and c.relnamespace = 'public'::regnamespace
    order by 1
"""
_SEQUENCES = (
    "select quote_ident(sequencename), coalesce(last_value, start_value), last_value is not null from pg_sequences"
)
_OTHERS = (
    "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = current_database() and pid <> $1"
)


class _Found(msgspec.Struct, frozen=True):
    """A database as its template made it: every one, because autovacuum may have been in the template meanwhile."""

    shape: list[tuple[Any, ...]]
    seeds: list[str]  # the rows of tables that are not empty
    look: str  # the statement that finds tables with rows
    filled: frozenset[str]
    numbers: str  # the statement that sets every sequence back


class _Database(msgspec.Struct):
    name: str
    url: str
    session: Any
    made: _Found
    uses: int = 0


class Databases:
    """Made for a server and a template. `take` one, and `give_back` what was taken."""

    def __init__(self, server: PrivatePostgres, template: str) -> None:
        self._server = server
        self._template = template
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="databases", daemon=True)
        self._thread.start()
        self._free: list[_Database] = []
        self._taken: dict[str, _Database] = {}

    def take(self) -> str:
        """The URL of an empty one."""
        database = self._free.pop() if self._free else self._made()
        self._taken[database.url] = database
        database.uses += 1
        return database.url

    def give_back(self, url: str) -> None:
        database = self._taken.pop(url)
        if database.uses < USES and self._run(self._cleared(database)):
            self._free.append(database)
        else:
            self._drop(database)

    def close(self) -> None:
        for database in (*self._free, *self._taken.values()):
            self._drop(database)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _made(self) -> _Database:
        name = f"{self._template}_{secrets.token_hex(8)}"
        url = self._server.create_database(name, template=self._template)
        session = self._run(asyncpg.connect(url))
        return _Database(name, url, session, self._run(_look(session)))

    def _drop(self, database: _Database) -> None:
        async def hang_up() -> None:
            database.session.terminate()

        self._run(hang_up())
        self._server.drop_database(database.name)

    async def _cleared(self, database: _Database) -> bool:
        """Whether it is as it was made. Nobody else is in it then."""
        session, found = database.session, database.made
        try:
            async with asyncio.timeout(LONGEST):
                await session.execute("set session_replication_role = replica")
                await session.fetch(_OTHERS, session.get_server_pid())
                if await _shape(session) != found.shape:
                    return False
                filled = {name for (name,) in await session.fetch(found.look)}
                used = filled - found.filled
                clearing = [*(f"delete from {name}" for name in sorted(used)), found.numbers]
                await session.execute("; ".join(clearing))
                return filled >= found.filled and await _rows(session, found.filled) == found.seeds
        except (TimeoutError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            return False

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(2 * LONGEST)


async def _look(session: Any) -> _Found:
    tables = [name for (name,) in await session.fetch(_TABLES)]
    look = " union all ".join(f"select '{name}' where exists (select from {name})" for name in tables)
    filled = frozenset(name for (name,) in await session.fetch(look))
    sequences = await session.fetch(_SEQUENCES)
    numbers = "; ".join(f"select setval('{name}', {at}, {str(used).lower()})" for name, at, used in sequences)
    return _Found(await _shape(session), await _rows(session, filled), look, filled, numbers)


async def _shape(session: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in await session.fetch(_SHAPE)]


async def _rows(session: Any, tables: frozenset[str]) -> list[str]:
    every = " union all ".join(f"select '{name}: ' || to_jsonb(t)::text from {name} t" for name in tables)
    return sorted(row for (row,) in await session.fetch(every))
