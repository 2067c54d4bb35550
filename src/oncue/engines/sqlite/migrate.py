"""Brings the schema up to date in the writer's turn: any number of processes may start at once."""

from __future__ import annotations

from oncue.domain.instants import Duration
from oncue.engines.schema import Schema, missing
from oncue.engines.sql import migrations
from oncue.engines.sqlite.store import Connection, Store, fetch


async def migrate(store: Store, timeout: Duration) -> tuple[int, int]:
    """Return the version before and the version now. If the schema is up to date, this writes nothing."""
    known = migrations("oncue.engines.sqlite")

    def bring_up_to_date(db: Connection) -> tuple[Schema, Schema]:
        found = after = _found(db)
        left = missing(known, found, str(store.path))
        if left:
            _make_room(db, found)
        for number, script in left:
            db.execute(script)
            db.execute("insert into oncue_migrations (number) values (?)", (number,))
            after = after.after(number, script)
        db.pragma("user_version", after.level)
        return found, after

    before = after = Schema() if store.is_empty() else await store.read(_found)
    if missing(known, before, str(store.path)):
        before, after = await store.write(bring_up_to_date, timeout)
    return before.version, after.version


def _found(db: Connection) -> Schema:
    """Read the schema. Version 0.1.0 knows `user_version` only, and compares itself with that."""
    level: int = db.pragma("user_version")
    if not fetch(db, "select 1 from sqlite_master where name = 'oncue_migrations'"):
        return Schema(frozenset(range(1, level + 1)), level)
    return Schema(frozenset(number for (number,) in fetch(db, "select number from oncue_migrations")), level)


def _make_room(db: Connection, found: Schema) -> None:
    """Create the table that records migrations."""
    db.execute("create table if not exists oncue_migrations (number integer primary key)")
    db.executemany(
        "insert or ignore into oncue_migrations (number) values (?)", [(number,) for number in found.applied]
    )
