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
NO_CLASS = ClassId(0)  # its number is not known
LaneKey = NewType("LaneKey", int)

SCHEDULE = UUID(
    int=0
)  # the origin of a run that its schedule asked for; a run-now or backfill carries an id of its own

_VERSION_AND_VARIANT = (7 << 76) | (2 << 62)
_RANDOM = (1 << 62) - 1  # the bits that are not time, version or variant
_STRIDE = 0x2545F4914F6CDD1D  # large and odd: the sequels of one id are far apart, and come round after all others


def uuid7(at: Instant, entropy: bytes) -> UUID:
    """A UUIDv7 that sorts by the microsecond of `at`, its other 62 bits filled from eight bytes of entropy.

    Makers of many at once count the microseconds up: ids in the order of their making keep what is made together
    together on disk, and a thousand runs settle in a few dozen pages instead of a thousand.
    """
    return _uuid7(at, int.from_bytes(entropy[:8], "big") & _RANDOM)


def _uuid7(at: int, random: int) -> UUID:
    milliseconds, microseconds = divmod(at, MILLISECOND)
    fraction = microseconds * 4096 // MILLISECOND
    return UUID(int=(milliseconds & (1 << 48) - 1) << 80 | fraction << 64 | random | _VERSION_AND_VARIANT)


def created_at(identifier: UUID) -> Instant:
    """When a UUIDv7 was made, to the millisecond."""
    return Instant((identifier.int >> 80) * MILLISECOND)


def occurrence_id(job_id: JobId, nominal: Instant, origin: UUID = SCHEDULE) -> RunId:
    """The id of the run for one occurrence: the same for whoever plans it, however often."""
    seed = job_id.bytes + nominal.to_bytes(8, "big", signed=True) + origin.bytes
    return RunId(uuid7(nominal, _digest(seed)))


def sequel(first: UUID, n: int) -> UUID:
    """The n-th id after a UUIDv7 that stands for many things made at once: in their order, a microsecond apart.

    The same for whoever makes them from the same first one, which is its own sequel 0.
    """
    if n == 0:
        return first
    fraction = first.int >> 64 & 0xFFF
    at = created_at(first) - -fraction * MILLISECOND // 4096 + n
    return _uuid7(at, (first.int + n * _STRIDE) & _RANDOM)


def derived_id(first: UUID, of: UUID, at: Instant) -> UUID:
    """The id of what is made for another thing on behalf of `first`: the same every time, and sorted by `at`."""
    return uuid7(at, _digest(first.bytes + of.bytes))


def _digest(seed: bytes) -> bytes:
    return hashlib.blake2b(seed, digest_size=8).digest()


def lane_key(*parts: str | int | UUID) -> LaneKey:
    """A lane's key: 64 bits of a hash. A collision only makes two strangers wait for each other."""
    digest = hashlib.blake2b("\x1f".join(map(str, parts)).encode(), digest_size=8).digest()
    return LaneKey(int.from_bytes(digest, "big", signed=True))
