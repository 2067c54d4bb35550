"""The outbox: jobs that applications enqueue in transactions of their own, by the function `enqueue`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from asyncpg import Record, UndefinedObjectError, UniqueViolationError

from oncue.domain.errors import NotFound
from oncue.domain.ids import JobId, UserNumber
from oncue.domain.instants import Instant
from oncue.engines.account_values import Role
from oncue.engines.outbox_values import Deciding, Enqueued, Grant, Kept, OutboxState, TakenIn
from oncue.engines.port import OUTBOX_COUNTED
from oncue.engines.postgres.inserting import create_plain, is_plain, is_uncontended
from oncue.engines.postgres.jobs import create_closely
from oncue.engines.postgres.partitions import Partitions
from oncue.engines.postgres.store import Connection, Store
from oncue.engines.sql import statements
from oncue.engines.values import Created, Creation, IdempotencyKey, NewJob

_SQL = statements("oncue.engines.postgres")
_FUNCTIONS = "enqueue(text, jsonb, jsonb, text, boolean), enqueued(uuid)"
_ROLES = {role.value: role for role in Role}
_DONE = (Created.NEW, Created.REPEATED)
_START = (-1, 0)  # before every row
MOST_BYTES = 64 * 1024 * 1024  # of payloads, as they are stored, in one transaction, without the last one

CreateClosely: TypeAlias = Callable[..., Awaitable[list[Creation]]]


class _Which(NamedTuple):
    """Which rows are taken: those after a place in their order."""

    until: Instant
    limit: int
    most_bytes: int
    after_retry_at: int
    after_seq: int


class PostgresOutbox:
    def __init__(self, store: Store, pieces: Partitions, most_classes: int) -> None:
        self._store = store
        self._pieces = pieces
        self._most_classes = most_classes

    async def take_in(self, limit: int, now: Instant, deciding: Deciding, after: Enqueued | None = None) -> TakenIn:
        if after is None and not await self._store.fetch(_SQL["outbox_peek"], now):
            return TakenIn()
        which = _Which(now, limit, MOST_BYTES, *(_START if after is None else (after.retry_at, after.seq)))
        take = partial(_take_in, which=which, now=now, deciding=deciding, most_classes=self._most_classes)
        try:
            return await self._pieces.write("audit", [now], partial(take, look=False))
        except UniqueViolationError:  # one of the jobs is there: it was not made from this row
            return await self._pieces.write("audit", [now], partial(take, look=True))

    async def listed(self, limit: int, after: int = 0, *, refused: bool | None = None) -> list[Enqueued]:
        found = await self._store.fetch(_SQL["outbox_list"], after, limit, refused)
        return [_row(one, one["user_id"]) for one in found]

    async def retry(self, job_ids: Sequence[JobId], now: Instant) -> int:
        again = "update outbox set retry_at = 0, since = $2 where job_id = any($1::uuid[]) returning 1"
        return len(await self._store.fetch(again, sorted(job_ids), now))

    async def discard(self, job_ids: Sequence[JobId]) -> int:
        return len(await self._store.fetch(_SQL["outbox_discard"], sorted(job_ids)))

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


async def _take_in(
    connection: Connection, which: _Which, now: Instant, deciding: Deciding, most_classes: int, *, look: bool
) -> TakenIn:
    found = await connection.fetch(_SQL["outbox_take"], *which)
    if not found:
        return TakenIn()
    asked = await connection.fetch(_SQL["outbox_users"], sorted({row["uid"] for row in found}))
    users = {row["uid"]: row["user_id"] for row in asked}
    rows = sorted((_row(one, users.get(one["uid"], "")) for one in found), key=lambda row: row.seq)
    decided = list(zip(rows, await deciding.decide(rows), strict=True))
    wanted = [(row, one) for row, one in decided if isinstance(one, NewJob)]
    create = partial(create_closely, connection, now=now, whole=False, most_classes=most_classes)
    answers = await _created(connection, [new for _, new in wanted], now, create, look=look)
    created = list(zip(wanted, answers, strict=True))
    done = tuple((new, answer) for (_, new), answer in created if answer.outcome in _DONE)
    kept = [(row, one) for row, one in decided if isinstance(one, Kept)] if len(wanted) < len(rows) else []
    if len(done) < len(created):
        kept += [(row, deciding.not_created(row, new, one)) for (row, new), one in created if one.outcome not in _DONE]
    if kept:
        await connection.executemany(_SQL["outbox_keep"], [_kept_row(row, one) for row, one in kept])
    full = len(found) == which.limit or sum(row["bytes"] for row in found) >= which.most_bytes
    return TakenIn(done, tuple(kept), full)


async def _created(
    connection: Connection, new: Sequence[NewJob], now: Instant, create: CreateClosely, *, look: bool
) -> list[Creation]:
    """Create jobs. Those that nobody else can have made or taken anything of need no look: their rows were there."""
    plain = [] if look else [job for job in new if _is_nobody_elses(job)]
    if plain:
        await create_plain(connection.fetch, plain, now, look=False)
    if len(plain) == len(new):
        return [Creation(Created.NEW, job.job.job_id) for job in new]
    done = {job.job.job_id for job in plain}
    others = iter(await create(new=[job for job in new if job.job.job_id not in done]))
    ids = (job.job.job_id for job in new)
    return [Creation(Created.NEW, job_id) if job_id in done else next(others) for job_id in ids]


def _is_nobody_elses(new: NewJob) -> bool:
    return bool(new.class_id) and new.idempotency_key is None and is_plain(new) and is_uncontended(new)


def _row(found: Record, user_id: str) -> Enqueued:
    seq, job_id, uid, role, db_role, task, payload, options, key, body, *rest, _ = found
    idempotency_key = None if key is None else IdempotencyKey(key, body)
    author = (uid, user_id, _ROLES[role], db_role)
    return Enqueued(seq, job_id, *author, task, payload, options, idempotency_key, *rest)


def _kept_row(row: Enqueued, kept: Kept) -> tuple[Any, ...]:
    key = (None, None) if row.idempotency_key is None else (row.idempotency_key.key_hash, row.idempotency_key.body_hash)
    author = (row.uid, row.role.value, row.db_role)
    what = (row.task, row.payload, row.options, *key, row.require_task, row.at, row.since)
    return (row.seq, row.job_id, *author, *what, kept.retry_at, kept.why)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
