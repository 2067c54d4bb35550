"""Ids are UUIDv7: they sort by time. A planned run's id is a function of its occurrence, so planning twice collides."""

from __future__ import annotations

import hashlib
from typing import NewType
from uuid import UUID

from oncue.domain.instants import MILLISECOND, Instant

JobId = NewType("JobId", UUID)
RunId = NewType("RunId", UUID)
WorkerId = NewType("WorkerId", UUID)
KeyId = NewType("KeyId", UUID)
UserNumber = NewType("UserNumber", int)
ClassId = NewType("ClassId", int)
LaneKey = NewType("LaneKey", int)

SCHEDULE = UUID(
    int=0
)  # the origin of a run that its schedule asked for; a run-now or backfill carries an id of its own

_VERSION_AND_VARIANT = (7 << 76) | (2 << 62)
_RANDOM_BITS = ((1 << 76) - 1) & ~(0xF << 76) & ~(0x3 << 62)


def uuid7(at: Instant, entropy: bytes) -> UUID:
    """A UUIDv7 for the millisecond of `at`, its free bits filled from ten bytes of entropy."""
    milliseconds = at // MILLISECOND & (1 << 48) - 1
    random = int.from_bytes(entropy[:10], "big") & _RANDOM_BITS
    return UUID(int=milliseconds << 80 | random | _VERSION_AND_VARIANT)


def created_at(identifier: UUID) -> Instant:
    """When a UUIDv7 was made, to the millisecond."""
    return Instant((identifier.int >> 80) * MILLISECOND)


def occurrence_id(job_id: JobId, nominal: Instant, origin: UUID = SCHEDULE) -> RunId:
    """The id of the run for one occurrence: the same for whoever plans it, however often."""
    seed = job_id.bytes + nominal.to_bytes(8, "big", signed=True) + origin.bytes
    return RunId(uuid7(nominal, hashlib.blake2b(seed, digest_size=10).digest()))


def lane_key(*parts: str | int | UUID) -> LaneKey:
    """A lane's key: 64 bits of a hash. A collision only makes two strangers wait for each other."""
    digest = hashlib.blake2b("\x1f".join(map(str, parts)).encode(), digest_size=8).digest()
    return LaneKey(int.from_bytes(digest, "big", signed=True))
