"""Idempotency keys, in two generations that take turns: each is emptied as a whole when its time is over.

The statements that take keys use both tables, and PostgreSQL locks all tables of a statement before the statement reads
which generation is current. The transaction that switches empties a table, alone: so no key goes into one generation
while another transaction puts it into the other. The switch waits only briefly and retries with the next maintenance:
transactions behind it would wait as long.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from uuid import UUID

import asyncpg

from oncue.domain.ids import UserNumber
from oncue.domain.instants import Duration, Instant
from oncue.engines.idempotency import OPEN, KeyRecord, StoredKey, creation, reservation
from oncue.engines.port import Created, Creation, IdempotencyKey, NewJob, Reserved
from oncue.engines.postgres.store import Connection, Store
from oncue.engines.sql import statements

_SQL = statements("oncue.engines.postgres")
LOCK = 0x72657065617473  # "repeats": of whoever switches; earlier releases share it to take keys
KEYS_LOCK_TIMEOUT = 250  # milliseconds that a switch waits for transactions that take keys, and they for it


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
    """Take the keys of these jobs, first come first served. Costs nothing for jobs without keys."""
    wanted = [(job.job.uid, job.idempotency_key, job.job.job_id) for job in new if job.idempotency_key]
    kept = await _take(connection, wanted) if wanted else {}
    return [
        creation(job, kept[job.job.uid, job.idempotency_key.key_hash] if job.idempotency_key else None) for job in new
    ]


async def give_back(connection: Connection, refused: Iterable[NewJob]) -> None:
    """Release the keys that these jobs have just taken."""
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
        kept = await _find(connection, [uid], [idempotency_key.key_hash])  # another transaction has just taken it
    return reservation(kept[uid, idempotency_key.key_hash], idempotency_key, made)


async def turn(store: Store, now: Instant, keep: Duration, timeout: Duration) -> None:
    """Empty the older generation and make it the current one, if the current one is old enough."""

    async def turn_alone(connection: Connection) -> None:
        await connection.execute(f"set local lock_timeout = {KEYS_LOCK_TIMEOUT}")
        await connection.execute(_SQL["lock"], LOCK)
        [(current, since)] = await connection.fetch("select current, since from repeats_turn")
        if since > now:  # by a clock that was ahead: the next switch would be far away
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
        return  # the next maintenance retries: until then keys last a little longer


async def _take(
    connection: Connection, wanted: Sequence[tuple[UserNumber, IdempotencyKey, UUID]]
) -> dict[StoredKey, KeyRecord]:
    """Take keys; return the holder of each. Sorted, so that two batches never deadlock."""
    uids, idempotency, made = (list(column) for column in zip(*wanted, strict=True))
    keys, bodies = [one.key_hash for one in idempotency], [one.body_hash for one in idempotency]
    await connection.execute(_SQL["take_repeats"], uids, keys, bodies, made)
    return await _find(connection, uids, keys)


async def _find(connection: Connection, uids: list[UserNumber], keys: list[bytes]) -> dict[StoredKey, KeyRecord]:
    found = await connection.fetch(_SQL["find_repeats"], uids, keys)
    return {(row["uid"], row["key_hash"]): KeyRecord(row["body_hash"], row["made"], row["answer"]) for row in found}
