"""Lanes: one mechanism for ordered groups, overlap and concurrency keys.

A lane admits its first `width` members, in order of `wanted`; every other member is held and cannot be claimed.
A run goes through at most two: its serial lane (a group, or its job's own), then its gate (a concurrency key).
An engine that adds, settles, cancels or withdraws a member tends its lanes in the same transaction.
"""

from __future__ import annotations

from enum import IntFlag

import msgspec

from oncue.domain.ids import JobId, LaneKey, UserNumber, lane_key
from oncue.domain.instants import Duration
from oncue.domain.policy import Overlap


class Held(IntFlag):
    """Why a waiting run cannot be claimed although it may be due. Zero: it can be claimed."""

    NO = 0
    LANE = 1
    GATE = 2
    PAUSED = 4
    RATE = 8


class Concurrency(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """At most `limit` runs with this key at a time, over all of one user's jobs."""

    key: str
    limit: int


class RateBucket(msgspec.Struct, frozen=True):
    """A rate limit: at most `limit` starts in any window of length `per`."""

    key: LaneKey
    limit: int
    per: Duration


class Lanes(msgspec.Struct, frozen=True):
    """The lanes that a run must pass before it may be claimed."""

    lane: LaneKey | None = None
    gate: LaneKey | None = None
    width: int = 1  # of the gate; a serial lane's is always one
    meter: RateBucket | None = None  # passed last: only a run that nothing else holds gets a start

    @property
    def held(self) -> Held:
        """Return why a new member is held: by each of its lanes, until the lane is tended."""
        if self is FREE:  # the common case: combining flags is slow
            return Held.NO
        lane = Held.NO if self.lane is None else Held.LANE
        gate = Held.NO if self.gate is None else Held.GATE
        return lane | gate | (Held.NO if self.meter is None else Held.RATE)


FREE = Lanes()


def lanes_of(
    uid: UserNumber,
    job_id: JobId,
    *,
    recurring: bool,
    overlap: Overlap,
    group: str | None,
    concurrency: Concurrency | None,
    meter: RateBucket | None = None,
) -> Lanes:
    """Return a job's lanes. A group replaces the overlap policy, since it is stricter; a one-shot needs none."""
    lane: LaneKey | None = None
    if group is not None:
        lane = lane_key("group", uid, group)
    elif recurring and overlap is not Overlap.ALLOW:
        lane = lane_key("job", job_id)
    if concurrency is None:
        return FREE if lane is None and meter is None else Lanes(lane, meter=meter)
    return Lanes(lane, lane_key("gate", uid, concurrency.key), concurrency.limit, meter)
