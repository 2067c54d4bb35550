"""Idempotency keys, in two generations that take turns: each is emptied whole when its time is over.

Whoever takes keys shares a lock with all others who do, and reads under it which generation is current. Whoever turns
has that lock alone: so nobody puts a key into the one generation that somebody else puts into the other. The turn waits
for it only briefly, and comes back with the next tending: those behind it would wait as long.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from uuid import UUID

import asyncpg

from oncue.domain.ids import UserNumber
from oncue.domain.instants import Duration, Instant
from oncue.engines.idempotency import OPEN, Kept, StoredKey, creation, reservation
from oncue.engines.port import Created, Creation, IdempotencyKey, NewJob, Reserved
from oncue.engines.postgres.store import Connection, Store
from oncue.engines.sql import statements

_SQL = statements("oncue.engines.postgres")
LOCK = 0x72657065617473  # "repeats"
PATIENCE = 250  # milliseconds that a turn waits for those who take keys, and they for it


class PostgresIdempotency:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def reserve(self, uid: UserNumber, idempotency_key: IdempotencyKey, made: UUID) -> Reserved:
        return await self._store.write(lambda c: _reserve(c, uid, idempotency_key, made))

    async def answered(self, uid: UserNumber, idempotency_key: IdempotencyKey, made: UUID, answer: bytes) -> None:
        await self._store.fetch(
            _SQL["answer_repeat"], uid, idempotency_key.key_hash, idempotency_key.body_hash, made, answer
        )

    async def refused(self, uid: UserNumber, idempotency_key: IdempotencyKey, made: UUID) -> None:
        await self._store.fetch(_SQL["open_repeat"], uid, idempotency_key.key_hash, idempotency_key.body_hash, made)


async def take_keys(connection: Connection, new: Sequence[NewJob]) -> list[Creation]:
    """Of these jobs, first come first served. Without any keys it costs nothing."""
    wanted = [(job.job.uid, job.idempotency_key, job.job.job_id) for job in new if job.idempotency_key]
    kept = await _take(connection, wanted) if wanted else {}
    return [
        creation(job, kept[job.job.uid, job.idempotency_key.key_hash] if job.idempotency_key else None) for job in new
    ]


async def give_back(connection: Connection, refused: Iterable[NewJob]) -> None:
    """The keys that these jobs have just taken."""
    idempotency = [
        (job.job.uid, job.idempotency_key.key_hash, job.job.job_id) for job in refused if job.idempotency_key
    ]
    if idempotency:
        await connection.executemany(_SQL["give_back_repeat"], idempotency)


async def _reserve(connection: Connection, uid: UserNumber, idempotency_key: IdempotencyKey, made: UUID) -> Reserved:
    kept = await _take(connection, [(uid, idempotency_key, made)])
    if kept[uid, idempotency_key.key_hash].body_hash == OPEN:
        found = await connection.fetch(_SQL["reuse_repeat"], uid, idempotency_key.key_hash, idempotency_key.body_hash)
        if found:
            return Reserved(Created.NEW, found[0]["made"])
        kept = await _find(connection, [uid], [idempotency_key.key_hash])  # somebody else has just got it
    return reservation(kept[uid, idempotency_key.key_hash], idempotency_key, made)


async def turn(store: Store, now: Instant, keep: Duration, timeout: Duration) -> None:
    """Empty the older generation and make it the current one, if the current one is old enough."""

    async def turn_alone(connection: Connection) -> None:
        await connection.execute(f"set local lock_timeout = {PATIENCE}")
        await connection.execute("select pg_advisory_xact_lock($1)", LOCK)
        [(current, since)] = await connection.fetch("select current, since from repeats_turn")
        if since > now:  # by a clock that was ahead: it would be long until the next turn
            await connection.execute("update repeats_turn set since = $1", now)
        elif now - since >= keep:
            await connection.execute(f"truncate repeats_{1 - current}")
            await connection.execute("update repeats_turn set current = $1, since = $2", 1 - current, now)

    [(since,)] = await store.fetch("select since from repeats_turn")
    if since <= now < since + keep:
        return
    try:
        await store.write(turn_alone, timeout=timeout)
    except asyncpg.LockNotAvailableError:
        return  # the next tending tries again: until then keys last a little longer


async def _take(
    connection: Connection, wanted: Sequence[tuple[UserNumber, IdempotencyKey, UUID]]
) -> dict[StoredKey, Kept]:
    """Whoever has each key now. They are taken in order, so that two groups never wait in a circle."""
    uids, idempotency, made = (list(column) for column in zip(*wanted, strict=True))
    keys, bodies = [one.key_hash for one in idempotency], [one.body_hash for one in idempotency]
    # a statement of its own: the next one sees what was turned while this one waited
    await connection.execute("select pg_advisory_xact_lock_shared($1)", LOCK)
    await connection.execute(_SQL["take_repeats"], uids, keys, bodies, made)
    return await _find(connection, uids, keys)


async def _find(connection: Connection, uids: list[UserNumber], keys: list[bytes]) -> dict[StoredKey, Kept]:
    found = await connection.fetch(_SQL["find_repeats"], uids, keys)
    return {(row["uid"], row["key_hash"]): Kept(row["body_hash"], row["made"], row["answer"]) for row in found}
