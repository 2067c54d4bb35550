"""Create ids: UUIDv7, sorted by time. A planned run's id follows from its occurrence, so planning twice collides."""

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
NO_CLASS = ClassId(0)  # not known yet
LaneKey = NewType("LaneKey", int)

SCHEDULE = UUID(int=0)  # the origin of a scheduled run; a run-now or backfill carries an id of its own

# The job of all notices. It has no definition: each notice carries its own.
NOTICES = JobId(UUID("00000000-0000-7000-8000-6e6f74696365"))

_VERSION_AND_VARIANT = (7 << 76) | (2 << 62)
_RANDOM = (1 << 62) - 1  # the bits that are not time, version or variant
_STRIDE = 0x2545F4914F6CDD1D  # large and odd: the sequels of one id are far apart, and repeat only after 2**62 steps


def uuid7(at: Instant, entropy: bytes) -> UUID:
    """Return a UUIDv7 that sorts by the microsecond of `at`; its other 62 bits come from eight bytes of entropy.

    Callers that create many ids at once count the microseconds up. Ids in the order of creation keep rows that belong
    together close on disk: a thousand runs settle in a few dozen pages instead of a thousand.
    """
    return _uuid7(at, int.from_bytes(entropy[:8], "big") & _RANDOM)


def _uuid7(at: int, random: int) -> UUID:
    milliseconds, microseconds = divmod(at, MILLISECOND)
    fraction = microseconds * 4096 // MILLISECOND
    return UUID(int=(milliseconds & (1 << 48) - 1) << 80 | fraction << 64 | random | _VERSION_AND_VARIANT)


def created_at(identifier: UUID) -> Instant:
    """Return when a UUIDv7 was created, to the millisecond."""
    return Instant((identifier.int >> 80) * MILLISECOND)


def occurrence_id(job_id: JobId, nominal: Instant, origin: UUID = SCHEDULE) -> RunId:
    """Return the id of the run for one occurrence: the same for every scheduler and every repetition."""
    seed = job_id.bytes + nominal.to_bytes(8, "big", signed=True) + origin.bytes
    return RunId(uuid7(nominal, _digest(seed)))


def sequel(first: UUID, n: int) -> UUID:
    """Return the n-th id of a batch that starts with `first`: in order, a microsecond apart.

    The same `first` always gives the same ids; `first` itself is number 0.
    """
    if n == 0:
        return first
    fraction = first.int >> 64 & 0xFFF
    at = created_at(first) - -fraction * MILLISECOND // 4096 + n
    return _uuid7(at, (first.int + n * _STRIDE) & _RANDOM)


def derived_id(first: UUID, of: UUID, at: Instant) -> UUID:
    """Return the id of an object derived from `of` by the action `first`: the same every time, and sorted by `at`."""
    return uuid7(at, _digest(first.bytes + of.bytes))


def notice_id(run_id: UUID, token: int, place: int, at: Instant) -> RunId:
    """Return the id of a notice: of this attempt of a run, for the entry at this place. The same every time."""
    seed = run_id.bytes + token.to_bytes(8, "big", signed=True) + place.to_bytes(2, "big")
    return RunId(uuid7(at, _digest(seed)))


def _digest(seed: bytes) -> bytes:
    return hashlib.blake2b(seed, digest_size=8).digest()


def lane_key(*parts: str | int | UUID) -> LaneKey:
    """Return a lane's key: 64 bits of a hash. After a collision two unrelated lanes wait for each other, no more."""
    digest = hashlib.blake2b("\x1f".join(map(str, parts)).encode(), digest_size=8).digest()
    return LaneKey(int.from_bytes(digest, "big", signed=True))
