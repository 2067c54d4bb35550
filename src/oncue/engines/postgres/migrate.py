"""Brings the schema up to date under a lock: any number of processes may start at once, next to running ones."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

import asyncpg

from oncue.domain.errors import OncueError, StoreForbidden
from oncue.domain.instants import Duration
from oncue.engines.postgres.connecting import Place
from oncue.engines.postgres.store import Connection, Store
from oncue.engines.schema import (
    Migration,
    Pending,
    Schema,
    missing,
    missing_contracts,
    pending,
    refuse_while_used,
)
from oncue.engines.sql import migrations, statements
from oncue.engines.values import Member
from oncue.log import log

T = TypeVar("T")

LOCK = 0x6F6E637565  # "oncue"

# A migration that waits for a table's lock makes every later transaction wait as well. So it gives up soon, lets them
# pass, and retries.
LOCK_TIMEOUT = "2s"
RETRY_DELAY = 1.0  # seconds between two tries
TRIES = 5


_SQL = statements("oncue.engines.postgres")


async def migrate(store: Store, timeout: Duration) -> tuple[int, int]:
    """Return the version before and the version now. If the schema is up to date, this locks and writes nothing."""
    known = migrations("oncue.engines.postgres")
    before = after = await store.read(found_schema)
    with _denied_as_error():
        if _missing(known, before):
            before, after = await _with_retries(store, partial(_one_more, store, known), timeout)
        while _missing(known, after):
            _, after = await _with_retries(store, partial(_one_more, store, known), timeout)
    return before.version, after.version


async def contract(store: Store, timeout: Duration) -> list[int]:
    """Bring the schema up to date, then apply the contract migrations; return the numbers of those applied now."""
    await migrate(store, timeout)
    known = migrations("oncue.engines.postgres")
    left = missing_contracts(known, await store.read(found_schema))
    with _denied_as_error():
        return [one[0] for one in left if await _with_retries(store, partial(_contract, one), timeout)]


async def check(store: Store) -> Pending:
    return pending(migrations("oncue.engines.postgres"), await store.read(found_schema), "this database")


@contextmanager
def _denied_as_error() -> Iterator[None]:
    try:
        yield
    except StoreForbidden as denied:
        raise OncueError(
            f"this database user may not create tables ({denied.__cause__}): grant it CREATE on the schema, or use "
            "another user"
        ) from denied


async def _with_retries(store: Store, work: Callable[[Connection], Awaitable[T]], timeout: Duration) -> T:
    for _ in range(TRIES):
        try:
            return await store.write(work, timeout=timeout)
        except asyncpg.LockNotAvailableError:
            log.warning("A migration waits for other transactions on its tables; retrying", kind="migration_waits")
            await store.fetch("select pg_sleep($1)", RETRY_DELAY)
    raise OncueError(
        f"the schema could not be updated: other sessions held locks on its tables for longer than {LOCK_TIMEOUT}, "
        f"{TRIES} times in a row. Find the open transaction (select * from pg_stat_activity order by xact_start), end "
        "it, then repeat the migration; running processes continue meanwhile"
    )


async def _one_more(store: Store, known: Sequence[Migration], connection: Connection) -> tuple[Schema, Schema]:
    """Apply the next migration, or all to a new database; return the schema before and after.

    Each migration is a separate transaction, so that no table stays locked because of another.
    """
    await _take_lock(connection)
    found = after = await found_schema(connection)
    left = _missing(known, found)
    if not left:
        return found, found
    await connection.execute(f"set local lock_timeout = '{LOCK_TIMEOUT}'")
    await _make_schema(connection, store.place)
    await _make_room(connection, found)
    for one in left if not found.applied else left[:1]:
        after = await _apply(connection, after, one)
    return found, after


async def _take_lock(connection: Connection) -> None:
    """Wait until no other process migrates. A session learns of tables that others created when it locks one, and an
    advisory lock is none: without the second statement it would not see what it has waited for.
    """
    await connection.execute(_SQL["lock"], LOCK)
    await connection.execute("select from pg_class limit 0")


async def _contract(migration: Migration, connection: Connection) -> bool:
    """Apply a contract migration, unless another caller has, or a process still needs what it removes."""
    await _take_lock(connection)
    found = await found_schema(connection)
    if migration[0] in found.applied:
        return False
    members = [Member(*row) for row in await connection.fetch(_SQL["known_members"])]
    refuse_while_used(migration, members, await connection.fetchval(_SQL["now"]))
    await connection.execute(f"set local lock_timeout = '{LOCK_TIMEOUT}'")
    await _apply(connection, found, migration)
    return True


async def _apply(connection: Connection, found: Schema, migration: Migration) -> Schema:
    await connection.execute(migration[1])
    await connection.execute("insert into oncue_migrations (number) values ($1)", migration[0])
    after = found.after(*migration)
    if after.level > found.level:
        await connection.execute("insert into oncue_schema values ($1)", after.level)
    return after


async def found_schema(connection: Connection) -> Schema:
    """Read the schema. Version 0.1.0 knows `oncue_schema` only, and compares itself with the highest number there."""
    there = await connection.fetchrow("select to_regclass('oncue_schema'), to_regclass('oncue_migrations')")
    assert there is not None, "a row of constants"
    schema, recorded = there
    level = await connection.fetchval("select coalesce(max(version), 0) from oncue_schema") if schema else 0
    if not (schema or recorded):
        others = await connection.fetch(_SQL["other_tables"])
        return Schema(others=tuple(row[0] for row in others), shared=True)
    if not recorded:
        return Schema(frozenset(range(1, level + 1)), level)
    return Schema(frozenset(row[0] for row in await connection.fetch("select number from oncue_migrations")), level)


async def _make_schema(connection: Connection, place: Place) -> None:
    """Create the schema, unless it exists: even `if not exists` needs the right to create one."""
    if not await connection.fetchval("select exists (select from pg_namespace where nspname = $1)", place.schema):
        try:
            await connection.execute(f"create schema {place.quoted}")
        except asyncpg.InsufficientPrivilegeError:
            raise OncueError(
                f"this database user may not create the schema {place.schema}: create it for this user "
                f"(create schema {place.quoted} authorization …), or name an existing one (?schema=public)"
            ) from None


async def _make_room(connection: Connection, found: Schema) -> None:
    """Create the table that records migrations."""
    await connection.execute("create table if not exists oncue_schema (version int not null)")
    await connection.execute("create table if not exists oncue_migrations (number int primary key)")
    known = [(number,) for number in sorted(found.applied)]
    await connection.executemany("insert into oncue_migrations (number) values ($1) on conflict do nothing", known)


def _missing(known: Sequence[Migration], found: Schema) -> list[Migration]:
    return missing(known, found, "this database")
