"""The schema, brought up to date in the writer's turn: any number of processes may start at once."""

from __future__ import annotations

from oncue.domain.errors import OncueError
from oncue.domain.instants import Duration
from oncue.engines.sql import migrations
from oncue.engines.sqlite.store import Connection, Store


async def migrate(store: Store, timeout: Duration) -> tuple[int, int]:
    """The version it was at, and the one it is at now."""
    known = migrations("oncue.engines.sqlite")
    newest = known[-1][0]

    def version(db: Connection) -> int:
        found: int = db.pragma("user_version")
        if found > newest:
            raise OncueError(
                f"{store.path} has schema {found}, made by a newer oncue; this one knows up to {newest}: "
                "install a newer one"
            )
        return found

    def bring_up_to_date(db: Connection) -> int:
        before = version(db)
        for number, script in known:
            if number > before:
                db.execute(script)
                db.pragma("user_version", number)
        return before

    before = 0 if store.is_empty() else await store.read(version)
    if before < newest:
        before = await store.write(bring_up_to_date, timeout)
    return before, newest
