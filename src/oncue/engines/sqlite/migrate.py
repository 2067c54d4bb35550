"""The schema, brought up to date in the writer's turn: any number of processes may start at once."""

from __future__ import annotations

from oncue.domain.errors import OncueError
from oncue.domain.instants import Duration
from oncue.engines.sql import migrations
from oncue.engines.sqlite.store import Connection, Store


async def migrate(store: Store, timeout: Duration) -> None:
    known = migrations("oncue.engines.sqlite")
    newest = known[-1][0]

    def bring_up_to_date(db: Connection) -> None:
        version: int = db.pragma("user_version")
        if version > newest:
            raise OncueError(
                f"{store.path} has schema {version}, made by a newer oncue; this one knows up to {newest}: upgrade it"
            )
        for number, script in known:
            if number > version:
                db.execute(script)
                db.pragma("user_version", number)

    await store.write(bring_up_to_date, timeout)
