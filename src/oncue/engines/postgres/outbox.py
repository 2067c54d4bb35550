"""The outbox: jobs that applications enqueue in transactions of their own, by the function `enqueue`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from asyncpg import Record, UndefinedObjectError

from oncue.domain.errors import NotFound
from oncue.domain.ids import JobId, UserNumber
from oncue.domain.instants import Instant
from oncue.engines.account_values import Role
from oncue.engines.outbox_values import Deciding, Enqueued, Grant, Kept, OutboxState, TakenIn
from oncue.engines.port import OUTBOX_COUNTED
from oncue.engines.postgres.jobs import create_closely
from oncue.engines.postgres.partitions import Partitions
from oncue.engines.postgres.store import Connection, Store
from oncue.engines.sql import statements
from oncue.engines.values import Created, IdempotencyKey

_SQL = statements("oncue.engines.postgres")
_FUNCTIONS = "enqueue(text, jsonb, jsonb, text, boolean), enqueued(uuid)"
_DONE = (Created.NEW, Created.REPEATED)


class PostgresOutbox:
    def __init__(self, store: Store, pieces: Partitions, most_classes: int) -> None:
        self._store = store
        self._pieces = pieces
        self._most_classes = most_classes

    async def take_in(self, limit: int, now: Instant, deciding: Deciding) -> TakenIn:
        if not await self._store.fetch(_SQL["outbox_peek"], now):
            return TakenIn()
        take = partial(_take_in, limit=limit, now=now, deciding=deciding, most_classes=self._most_classes)
        return await self._pieces.write("audit", [now], take)

    async def listed(self, limit: int, after: int = 0, *, refused: bool | None = None) -> list[Enqueued]:
        return [_row(found) for found in await self._store.fetch(_SQL["outbox_list"], after, limit, refused)]

    async def retry(self, job_ids: Sequence[JobId], now: Instant) -> int:
        again = "update outbox set retry_at = 0, since = $2 where job_id = any($1::uuid[]) returning 1"
        return len(await self._store.fetch(again, sorted(job_ids), now))

    async def discard(self, job_ids: Sequence[JobId]) -> int:
        gone = "delete from outbox where job_id = any($1::uuid[]) returning 1"
        return len(await self._store.fetch(gone, sorted(job_ids)))

    async def state(self) -> OutboxState:
        [found] = await self._store.fetch(_SQL["outbox_state"], OUTBOX_COUNTED)
        return OutboxState(*found)

    async def say_fields(self, names: Sequence[str]) -> None:
        add = "insert into job_fields select unnest($1::text[]) order by 1 on conflict do nothing"
        await self._store.fetch(add, sorted(names))

    async def grant(self, db_role: str, uid: UserNumber, role: Role, now: Instant) -> None:
        async def grant(connection: Connection) -> None:
            schema, name = self._store.place.quoted, _quoted(db_role)
            try:
                await connection.execute(f"grant usage on schema {schema} to {name}")
            except UndefinedObjectError:
                raise NotFound from None
            await connection.execute(f"grant execute on function {_FUNCTIONS} to {name}")
            await connection.execute(_SQL["outbox_grant"], db_role, uid, role.value, now)

        await self._store.write(grant)

    async def revoke(self, db_role: str) -> bool:
        async def revoke(connection: Connection) -> bool:
            if await connection.fetchval("select 1 from pg_roles where rolname = $1", db_role):
                await connection.execute(f"revoke execute on function {_FUNCTIONS} from {_quoted(db_role)}")
            return bool(await connection.fetch("delete from db_grants where db_role = $1 returning 1", db_role))

        return await self._store.write(revoke)

    async def grants(self) -> list[Grant]:
        return [
            Grant(db_role, user_id, Role(role), at)
            for db_role, user_id, role, at in await self._store.fetch(_SQL["outbox_grants"])
        ]


async def _take_in(connection: Connection, limit: int, now: Instant, deciding: Deciding, most_classes: int) -> TakenIn:
    found = await connection.fetch(_SQL["outbox_take"], now, limit)
    rows = sorted(map(_row, found), key=lambda row: row.seq)
    decided = list(zip(rows, await deciding.decide(rows), strict=True))
    wanted = [(row, one) for row, one in decided if not isinstance(one, Kept)]
    answers = await create_closely(connection, [new for _, new in wanted], now, whole=False, most_classes=most_classes)
    created = [(row, new, answer) for (row, new), answer in zip(wanted, answers, strict=True)]
    kept = [(row, one) for row, one in decided if isinstance(one, Kept)]
    kept += [(row, deciding.not_created(row, new, one)) for row, new, one in created if one.outcome not in _DONE]
    if kept:
        await connection.executemany(_SQL["outbox_keep"], [_kept_row(row, one) for row, one in kept])
    done = tuple((new, answer) for _, new, answer in created if answer.outcome in _DONE)
    return TakenIn(done, tuple(kept), full=len(rows) == limit)


def _row(found: Record) -> Enqueued:
    (seq, job_id, uid, user_id, role, db_role, task, payload, options, key, body, *rest) = found
    idempotency_key = None if key is None else IdempotencyKey(key, body)
    author = (uid, user_id or "", Role(role), db_role)
    return Enqueued(seq, job_id, *author, task, payload, options, idempotency_key, *rest)


def _kept_row(row: Enqueued, kept: Kept) -> tuple[Any, ...]:
    key = (None, None) if row.idempotency_key is None else (row.idempotency_key.key_hash, row.idempotency_key.body_hash)
    author = (row.uid, row.role.value, row.db_role)
    what = (row.task, row.payload, row.options, *key, row.require_task, row.at, row.since)
    return (row.seq, row.job_id, *author, *what, kept.retry_at, kept.why)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
