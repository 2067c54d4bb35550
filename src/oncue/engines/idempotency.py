"""Idempotency keys: the outcome of a request whose key is already stored, by itself or by another request."""

from __future__ import annotations

from uuid import UUID

import msgspec

from oncue.domain.ids import JobId, UserNumber
from oncue.engines.values import Created, Creation, IdempotencyKey, NewJob, Reserved

StoredKey = tuple[UserNumber, bytes]
OPEN = b""  # in place of a body: the request was refused, and the key may come with any body


class KeyRecord(msgspec.Struct, frozen=True):
    """A stored key: the first request with it decided the body and the id that it creates from."""

    body_hash: bytes
    made: UUID
    answer: bytes | None = None


def outcome(kept: KeyRecord, idempotency_key: IdempotencyKey, made: UUID) -> Created:
    """Return the outcome of a request with this key: the request that finds its own id was the first."""
    if kept.made == made or kept.body_hash == OPEN:
        return Created.NEW
    return Created.REPEATED if kept.body_hash == idempotency_key.body_hash else Created.KEY_REUSED


def creation(new: NewJob, kept: KeyRecord | None) -> Creation:
    """Return the answer for a job; `kept` None: it came without a key."""
    if kept is None or new.idempotency_key is None:
        return Creation(Created.NEW, new.job.job_id)
    decided = outcome(kept, new.idempotency_key, new.job.job_id)
    return Creation(decided, new.job.job_id if decided is Created.NEW else JobId(kept.made))


def reservation(kept: KeyRecord, idempotency_key: IdempotencyKey, made: UUID) -> Reserved:
    return Reserved(outcome(kept, idempotency_key, made), kept.made, kept.answer)
