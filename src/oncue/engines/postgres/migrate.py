"""The schema, brought up to date under a lock: any number of processes may start at once."""

from __future__ import annotations

import asyncpg

from oncue.domain.errors import OncueError
from oncue.domain.instants import Duration
from oncue.engines.postgres.store import Connection, Store
from oncue.engines.sql import migrations

LOCK = 0x6F6E637565  # "oncue"


async def migrate(store: Store, timeout: Duration) -> tuple[int, int]:
    """The version it was at, and the one it is at now."""
    known = migrations("oncue.engines.postgres")
    newest = known[-1][0]

    async def bring_up_to_date(connection: Connection) -> tuple[int, int]:
        await connection.execute("select pg_advisory_xact_lock($1)", LOCK)
        await connection.execute("create table if not exists oncue_schema (version int not null)")
        version: int = await connection.fetchval("select coalesce(max(version), 0) from oncue_schema")
        if version > newest:
            raise OncueError(
                f"this database has schema {version}, made by a newer oncue; this one knows up to {newest}: "
                "install a newer one"
            )
        for number, script in known:
            if number > version:
                await connection.execute(script)
                await connection.execute("insert into oncue_schema values ($1)", number)
        return version, newest

    try:
        return await store.write(bring_up_to_date, timeout=timeout)
    except asyncpg.InsufficientPrivilegeError as denied:
        raise OncueError(
            f"this user may not make tables here ({denied}): grant it create on the schema, or name another user"
        ) from denied
