"""Describe what a clock change does to a cron schedule, in words for people and in numbers for the ledger.

Only fixed-time jobs lose or shift occurrences: a wildcard job follows real time.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import msgspec

from oncue.domain.cron import Cron, DstGap
from oncue.domain.instants import SECOND, Instant
from oncue.domain.zones import Segment, Timeline, timeline

_DAY = 86_400
_EPOCH = datetime(1970, 1, 1)


class Skipped(msgspec.Struct, frozen=True):
    """Nominal times that one gap removes under `skip`. `at` is the first instant after the gap."""

    at: Instant
    count: int
    note: str


def note_on(cron: Cron, zone: ZoneInfo, at: Instant, gap: DstGap = DstGap.SHIFT) -> str | None:
    """Describe what is special about the occurrence `at` from `next_after`; None on ordinary days."""
    segments, second = timeline(zone), at // SECOND
    segment = segments.at(second)
    if gap is DstGap.SHIFT and (missing := _missing(cron, segment, second)):
        return f"{_does_not_exist(cron, segment, missing)}; {_shifted(cron, segment, missing)}"
    wall = second + segment.offset
    if _has_wall(segments, segments.at(second + _DAY), wall, second):
        return f"first of the two {_clock(wall)}s"
    if _has_wall(segments, segments.at(second - _DAY), wall, second):
        return f"second of the two {_clock(wall)}s"
    return None


def swallowed(cron: Cron, zone: ZoneInfo, at: Instant, gap: DstGap = DstGap.SHIFT) -> int:
    """Count the further nominal times of a gap that are coalesced into the occurrence `at`."""
    if gap is not DstGap.SHIFT:
        return 0
    second = at // SECOND
    segment = timeline(zone).at(second)
    missing = _missing(cron, segment, second)
    return missing - 1 + _fires_by_itself(cron, segment) if missing else 0


def skipped_between(cron: Cron, zone: ZoneInfo, after: Instant, until: Instant) -> tuple[Skipped, ...]:
    """Return the nominal times that a job with `skip` loses in the gaps that end in (after, until]."""
    skipped = []
    segments, last = timeline(zone), until // SECOND
    segment = segments.at(max(after // SECOND, 0))
    while segment.end <= last and cron.next_wall(segment.end - _DAY) is not None:
        segment = segments.at(segment.end)
        if missing := _missing(cron, segment, segment.start):
            note = f"{_does_not_exist(cron, segment, missing)}; skipped"
            skipped.append(Skipped(Instant(segment.start * SECOND), missing, note))
    return tuple(skipped)


def _missing(cron: Cron, segment: Segment, second: int) -> int:
    """Count the nominal times of a fixed-time job in the gap that ends at `second`."""
    if cron.fields.wildcard or second != segment.start or segment.before >= segment.offset:
        return 0
    return cron.count_walls(segment.start + segment.before, segment.start + segment.offset)


def _fires_by_itself(cron: Cron, segment: Segment) -> bool:
    """Whether the wall time right after the gap matches as well."""
    reopens = segment.start + segment.offset
    return cron.next_wall(reopens) == reopens


def _has_wall(segments: Timeline, neighbour: Segment, wall: int, second: int) -> bool:
    """Whether `wall` is also the wall time of another instant than `second`, at the neighbour's offset."""
    twin = wall - neighbour.offset
    return twin != second and twin + segments.at(twin).offset == wall


def _does_not_exist(cron: Cron, segment: Segment, missing: int) -> str:
    gap_start, gap_end = segment.start + segment.before, segment.start + segment.offset
    first = cron.next_wall(gap_start)
    assert first is not None  # something is missing
    more = "" if missing == 1 else f" and {missing - 1} more"
    verb = "does" if missing == 1 else "do"
    day, next_day = _date(first), _date(gap_end)
    target = _clock(gap_end) if day == next_day else f"{next_day} {_clock(gap_end)}"
    return f"{_clock(first)}{more} {verb} not exist on {day} (clocks go forward from {_clock(gap_start)} to {target})"


def _shifted(cron: Cron, segment: Segment, missing: int) -> str:
    if _fires_by_itself(cron, segment):
        return f"runs once, together with {_clock(segment.start + segment.offset)}"
    return "runs right after the gap" if missing == 1 else "runs once, right after the gap"


def _date(wall: int) -> str:
    return (_EPOCH + timedelta(seconds=wall)).strftime("%Y-%m-%d")


def _clock(wall: int) -> str:
    minute, second = divmod(wall % _DAY, 60)
    return f"{minute // 60:02}:{minute % 60:02}" + (f":{second:02}" if second else "")
