"""Idempotency keys, in two generations that take turns: each is emptied whole when its time is over."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from oncue.domain.ids import UserNumber
from oncue.domain.instants import Duration, Instant
from oncue.engines.port import Creation, NewJob, Repeat, Reserved
from oncue.engines.repeat_keys import OPEN, Kept, RepeatKey, creation, reservation
from oncue.engines.sql import statements
from oncue.engines.sqlite.store import Connection, fetch, first

_SQL = statements("oncue.engines.sqlite")
GENERATIONS = (0, 1)


def by_key(db: Connection, new: NewJob, taken: dict[RepeatKey, Kept]) -> Creation:
    """What a job comes to by its key. One that is new is noted in `taken`, for those after it in the batch."""
    if new.repeat is None:
        return creation(new, None)
    key = (new.job.uid, new.repeat.key_hash)
    if key not in taken:
        taken[key] = _find(db, *key) or Kept(new.repeat.body_hash, new.job.job_id)
    return creation(new, taken[key])


def keep(db: Connection, stored: Iterable[NewJob]) -> None:
    """The keys of jobs that were stored, for those who repeat them."""
    keyed = [(job.job.uid, job.repeat, job.job.job_id) for job in stored if job.repeat is not None]
    if keyed:
        _add(db, keyed)


def reserve(db: Connection, uid: UserNumber, repeat: Repeat, made: UUID) -> Reserved:
    kept = _find(db, uid, repeat.key_hash)
    if kept is None:
        kept = Kept(repeat.body_hash, made)
        _add(db, [(uid, repeat, made)])
    elif kept.body_hash == OPEN:
        _update(db, "reuse_repeat", (repeat.body_hash, uid, repeat.key_hash))
    return reservation(kept, repeat, made)


def answered(db: Connection, uid: UserNumber, repeat: Repeat, made: UUID, answer: bytes) -> None:
    _update(db, "answer_repeat", (repeat.body_hash, answer, uid, repeat.key_hash, made.bytes))


def refused(db: Connection, uid: UserNumber, repeat: Repeat, made: UUID) -> None:
    _update(db, "open_repeat", (uid, repeat.key_hash, repeat.body_hash, made.bytes))


def turn(db: Connection, now: Instant, keep: Duration) -> None:
    """Empty the older generation and make it the current one, if the current one is old enough."""
    [(current, since)] = fetch(db, "select current, since from repeats_turn")
    if since > now:  # by a clock that was ahead: it would be long until the next turn
        db.execute("update repeats_turn set since = ?", (now,))
    elif now - since >= keep:
        db.execute(f"delete from repeats_{1 - current}")
        db.execute("update repeats_turn set current = ?, since = ?", (1 - current, now))


def _find(db: Connection, uid: UserNumber, key_hash: bytes) -> Kept | None:
    row = first(db, _SQL["find_repeat"], (uid, key_hash))
    return None if row is None else Kept(row[0], UUID(bytes=row[1]), row[2])


def _add(db: Connection, keyed: Iterable[tuple[UserNumber, Repeat, UUID]]) -> None:
    [(current,)] = fetch(db, "select current from repeats_turn")
    rows = [(uid, repeat.key_hash, repeat.body_hash, made.bytes) for uid, repeat, made in keyed]
    db.executemany(_SQL["add_repeat"].format(generation=current), rows)


def _update(db: Connection, statement: str, given: tuple[object, ...]) -> None:
    for generation in GENERATIONS:
        db.execute(_SQL[statement].format(generation=generation), given)
