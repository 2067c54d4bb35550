"""Idempotency keys, in two generations that take turns: each is emptied as a whole when its time is over."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from oncue.domain.ids import UserNumber
from oncue.domain.instants import Duration, Instant
from oncue.engines.idempotency import OPEN, KeyRecord, StoredKey, creation, reservation
from oncue.engines.port import Creation, IdempotencyKey, NewJob, Reserved
from oncue.engines.sql import statements
from oncue.engines.sqlite.store import Connection, Store, fetch, first

_SQL = statements("oncue.engines.sqlite")
GENERATIONS = (0, 1)


class SqliteIdempotency:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def reserve(self, uid: UserNumber, idempotency_key: IdempotencyKey, made: UUID) -> Reserved:
        return await self._store.write(lambda db: _reserve(db, uid, idempotency_key, made))

    async def answered(self, uid: UserNumber, idempotency_key: IdempotencyKey, made: UUID, answer: bytes) -> None:
        given = (idempotency_key.body_hash, answer, uid, idempotency_key.key_hash, made.bytes)
        await self._store.write(lambda db: _update(db, "answer_repeat", given))

    async def refused(self, uid: UserNumber, idempotency_key: IdempotencyKey, made: UUID) -> None:
        given = (uid, idempotency_key.key_hash, idempotency_key.body_hash, made.bytes)
        await self._store.write(lambda db: _update(db, "open_repeat", given))


def by_key(db: Connection, new: NewJob, taken: dict[StoredKey, KeyRecord]) -> Creation:
    """Return the outcome of a job by its key. A new key is noted in `taken`, for later jobs of the batch."""
    if new.idempotency_key is None:
        return creation(new, None)
    key = (new.job.uid, new.idempotency_key.key_hash)
    if key not in taken:
        taken[key] = _find(db, *key) or KeyRecord(new.idempotency_key.body_hash, new.job.job_id)
    return creation(new, taken[key])


def keep(db: Connection, stored: Iterable[NewJob]) -> None:
    """Store the keys of stored jobs, for repeats."""
    keyed = [(job.job.uid, job.idempotency_key, job.job.job_id) for job in stored if job.idempotency_key is not None]
    if keyed:
        _add(db, keyed)


def _reserve(db: Connection, uid: UserNumber, idempotency_key: IdempotencyKey, made: UUID) -> Reserved:
    kept = _find(db, uid, idempotency_key.key_hash)
    if kept is None:
        kept = KeyRecord(idempotency_key.body_hash, made)
        _add(db, [(uid, idempotency_key, made)])
    elif kept.body_hash == OPEN:
        _update(db, "reuse_repeat", (idempotency_key.body_hash, uid, idempotency_key.key_hash))
    return reservation(kept, idempotency_key, made)


def turn(db: Connection, now: Instant, keep: Duration) -> None:
    """Empty the older generation and make it the current one, if the current one is old enough."""
    [(current, since)] = fetch(db, "select current, since from repeats_turn")
    if since > now:  # by a clock that was ahead: the next switch would be far away
        db.execute("update repeats_turn set since = ?", (now,))
    elif now - since >= keep:
        db.execute(f"delete from repeats_{1 - current}")
        db.execute("update repeats_turn set current = ?, since = ?", (1 - current, now))


def _find(db: Connection, uid: UserNumber, key_hash: bytes) -> KeyRecord | None:
    row = first(db, _SQL["find_repeat"], (uid, key_hash))
    return None if row is None else KeyRecord(row[0], UUID(bytes=row[1]), row[2])


def _add(db: Connection, keyed: Iterable[tuple[UserNumber, IdempotencyKey, UUID]]) -> None:
    [(current,)] = fetch(db, "select current from repeats_turn")
    rows = [
        (uid, idempotency_key.key_hash, idempotency_key.body_hash, made.bytes) for uid, idempotency_key, made in keyed
    ]
    db.executemany(_SQL["add_repeat"].format(generation=current), rows)


def _update(db: Connection, statement: str, given: tuple[object, ...]) -> None:
    for generation in GENERATIONS:
        db.execute(_SQL[statement].format(generation=generation), given)
