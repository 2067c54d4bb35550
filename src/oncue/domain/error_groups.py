"""Failures of one kind, counted together: what is kept of a group, and how counts are added to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from oncue.domain.fingerprint import OTHER
from oncue.domain.ids import UserNumber
from oncue.domain.instants import DAY, HOUR, Duration, Instant
from oncue.domain.run import Settlement, State

MOST_GROUPS = 1_000  # of a user; failures beyond them are counted in one group of the rest
KEPT = Duration(30 * DAY)  # after a group's last failure
TREND = 24  # hours
FAILED = frozenset({State.WAITING, State.DEAD})

GroupKey = tuple[UserNumber, int]
Hours = tuple[tuple[int, int], ...]  # (hour, failures), earliest first


class Failures(msgspec.Struct, frozen=True):
    """Failures of one kind within one hour, as they are appended. `sample` is the last one's."""

    uid: UserNumber
    fingerprint: int
    task: str
    error_type: str
    sample: str
    n: int
    first_at: Instant
    last_at: Instant


class ErrorGroup(msgspec.Struct, frozen=True):
    uid: UserNumber
    fingerprint: int
    task: str
    error_type: str
    sample: str
    count: int
    first_seen: Instant
    last_seen: Instant
    hours: Hours = ()

    def trend(self, now: Instant) -> list[int]:
        """Return the failures in each of the last 24 hours, the current one last."""
        current, by_hour = now // HOUR, dict(self.hours)
        return [by_hour.get(hour, 0) for hour in range(current - TREND + 1, current + 1)]


def failures_of(settlements: Iterable[Settlement]) -> list[Failures]:
    """Return what to append for these as they are written, in a stable order. Cancelled ones count nowhere."""
    found: dict[tuple[UserNumber, int, int], Failures] = {}
    for settled in settlements:
        if (fault := settled.fault) is None or settled.state not in FAILED:
            continue
        uid, at, kind = settled.run.uid, settled.ended_at, settled.error_type or ""
        one = Failures(uid, fault.fingerprint, fault.task, kind, fault.sample, 1, at, at)
        place = (uid, fault.fingerprint, at // HOUR)
        found[place] = one if place not in found else _together(found[place], one)
    return [found[place] for place in sorted(found)]


def _together(one: Failures, other: Failures) -> Failures:
    newest = other if other.last_at >= one.last_at else one
    return msgspec.structs.replace(
        newest,
        n=one.n + other.n,
        first_at=min(one.first_at, other.first_at),
        last_at=max(one.last_at, other.last_at),
    )


def folded(
    groups: Mapping[GroupKey, ErrorGroup], sizes: Mapping[UserNumber, int], appended: Iterable[Failures]
) -> dict[GroupKey, ErrorGroup]:
    """Return the groups that change, with what was appended added.

    `groups`: those of these failures, and of the rest, as they are; `sizes`: how many groups each user has.
    """
    room = {uid: MOST_GROUPS - n for uid, n in sizes.items()}
    changed: dict[GroupKey, ErrorGroup] = {}
    for one in appended:
        key = (one.uid, one.fingerprint)
        if key not in changed and key not in groups:
            if room.get(one.uid, MOST_GROUPS) <= 0:
                key, one = (one.uid, OTHER), _rest(one)
            else:
                room[one.uid] = room.get(one.uid, MOST_GROUPS) - 1
        changed[key] = _added(changed.get(key) or groups.get(key), one)
    return changed


def _rest(one: Failures) -> Failures:
    return msgspec.structs.replace(one, fingerprint=OTHER, task="", error_type="other")


def _added(group: ErrorGroup | None, one: Failures) -> ErrorGroup:
    hour = one.last_at // HOUR
    before = dict(group.hours) if group else {}
    before[hour] = before.get(hour, 0) + one.n
    hours = tuple(sorted(before.items()))[-TREND:]
    if group is None:
        return ErrorGroup(
            one.uid, one.fingerprint, one.task, one.error_type, one.sample, one.n, one.first_at, one.last_at, hours
        )
    return msgspec.structs.replace(
        group,
        count=group.count + one.n,
        sample=one.sample if one.last_at >= group.last_seen else group.sample,
        first_seen=min(group.first_seen, one.first_at),
        last_seen=max(group.last_seen, one.last_at),
        hours=hours,
    )
