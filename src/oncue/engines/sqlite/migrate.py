"""Brings the schema up to date in the writer's turn: any number of processes may start at once."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from pathlib import Path
from uuid import UUID

import apsw

from oncue.clock import SystemClock
from oncue.domain.instants import Duration
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
from oncue.engines.sqlite.connecting import refuse_what_is_no_file
from oncue.engines.sqlite.store import CACHE_READING, Connection, Store, connect, fetch, unavailable
from oncue.engines.values import Member

_SQL = statements("oncue.engines.sqlite")

MOST_UNRECORDED = 1_000  # other programs store any number as `user_version`


async def migrate(store: Store, timeout: Duration) -> tuple[int, int]:
    """Return the version before and the version now. If the schema is up to date, this writes nothing."""
    known = migrations("oncue.engines.sqlite")

    def bring_up_to_date(db: Connection) -> tuple[Schema, Schema]:
        found = after = found_schema(db)
        left = missing(known, found, str(store.path))
        if left:
            _make_room(db, found)
        for one in left:
            after = _apply(db, after, one)
        return found, after

    before = after = Schema() if store.is_empty() else await store.read(found_schema)
    if missing(known, before, str(store.path)):
        before, after = await store.write(bring_up_to_date, timeout)
    return before.version, after.version


async def contract(store: Store, timeout: Duration) -> list[int]:
    """Bring the schema up to date, then apply the contract migrations; return the numbers of those applied now."""
    await migrate(store, timeout)
    known = migrations("oncue.engines.sqlite")
    left = missing_contracts(known, await store.read(found_schema))
    return [one[0] for one in left if await store.write(partial(_contract, one), timeout)]


def check(path: Path) -> Pending:
    """Return what is to be migrated. This creates no file, and writes nothing."""
    found = Schema()
    refuse_what_is_no_file(path)
    try:
        if path.exists() and path.stat().st_size:
            with closing(connect(path, CACHE_READING)) as db:  # one that only reads would leave its log behind
                found = found_schema(db)
    except (OSError, apsw.Error) as no:
        raise unavailable(path, no) from no
    return pending(migrations("oncue.engines.sqlite"), found, str(path))


def _contract(migration: Migration, db: Connection) -> bool:
    """Apply a contract migration, unless another caller has, or a process still needs what it removes."""
    found = found_schema(db)
    if migration[0] in found.applied:
        return False
    members = [Member(UUID(bytes=member_id), *row) for member_id, *row in fetch(db, _SQL["known_members"])]
    refuse_while_used(migration, members, SystemClock().now())
    _apply(db, found, migration)
    return True


def _apply(db: Connection, found: Schema, migration: Migration) -> Schema:
    db.execute(migration[1])
    db.execute("insert into oncue_migrations (number) values (?)", (migration[0],))
    after = found.after(*migration)
    db.pragma("user_version", after.level)
    return after


def found_schema(db: Connection) -> Schema:
    """Read the schema. Version 0.1.0 knows `user_version` only, and compares itself with that."""
    level: int = db.pragma("user_version")
    if not fetch(db, "select 1 from sqlite_master where name = 'oncue_migrations'"):
        others = tuple(name for (name,) in fetch(db, _SQL["other_tables"]))
        return Schema(frozenset(range(1, min(level, MOST_UNRECORDED) + 1)), level, others)
    return Schema(frozenset(number for (number,) in fetch(db, "select number from oncue_migrations")), level)


def _make_room(db: Connection, found: Schema) -> None:
    """Create the table that records migrations."""
    db.execute("create table if not exists oncue_migrations (number integer primary key)")
    db.executemany(
        "insert or ignore into oncue_migrations (number) values (?)", [(number,) for number in found.applied]
    )
