"""Idempotency keys: what a request comes to whose key is kept already, by it or by another one."""

from __future__ import annotations

from uuid import UUID

import msgspec

from oncue.domain.ids import JobId, UserNumber
from oncue.engines.values import Created, Creation, IdempotencyKey, NewJob, Reserved

StoredKey = tuple[UserNumber, bytes]
OPEN = b""  # in place of a body: whatever was asked for was refused, and any body may come with the key


class Kept(msgspec.Struct, frozen=True):
    """A key as it is kept: whoever came first with it decided on the body and on what is made."""

    body_hash: bytes
    made: UUID
    answer: bytes | None = None


def outcome(kept: Kept, idempotency_key: IdempotencyKey, made: UUID) -> Created:
    """What `made` is to be for whoever came with this: whoever finds an id of its own was the first."""
    if kept.made == made or kept.body_hash == OPEN:
        return Created.NEW
    return Created.REPEATED if kept.body_hash == idempotency_key.body_hash else Created.KEY_REUSED


def creation(new: NewJob, kept: Kept | None) -> Creation:
    """The answer for a job; None: it came without a key."""
    if kept is None or new.idempotency_key is None:
        return Creation(Created.NEW, new.job.job_id)
    decided = outcome(kept, new.idempotency_key, new.job.job_id)
    return Creation(decided, new.job.job_id if decided is Created.NEW else JobId(kept.made))


def reservation(kept: Kept, idempotency_key: IdempotencyKey, made: UUID) -> Reserved:
    return Reserved(outcome(kept, idempotency_key, made), kept.made, kept.answer)
