"""Parse times as people write them: RFC 3339, a local time in a time zone, `in 10m`, `10m ago`, `now`."""

from __future__ import annotations

import re
from zoneinfo import ZoneInfo

from oncue.domain.cron import DstFold, DstGap
from oncue.domain.errors import Invalid
from oncue.domain.instants import SECOND, Duration, Instant, moment, parse_duration, parse_instant, whole_millisecond
from oncue.domain.zones import Segment, timeline

_DAY = 86_400
_WRITTEN = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d)(:\d\d(?:\.\d{1,9})?)?([Zz]|[+-]\d\d:\d\d)?", re.ASCII
)  # seconds and offset may be left out
EXAMPLES = '"2027-01-31T09:00:00Z", "2027-01-31 09:00" with a time zone, "in 10m" or "10m ago"'


def parse_time(
    text: str,
    now: Instant,
    path: str = "",
    *,
    zone: ZoneInfo | None = None,
    gap: DstGap = DstGap.SHIFT,
    fold: DstFold = DstFold.FIRST,
) -> Instant:
    """Return the instant, rounded up to the millisecond. Invalid, with an example, for any other text.

    A time without an offset is local to `zone`; without a zone it is Invalid. `gap` and `fold` decide about a local
    time that daylight saving skips or repeats: `skip` and `both` make it Invalid, since a time is one instant.
    """
    words = text.split()
    if words == ["now"]:
        return whole_millisecond(now)
    if len(words) == 2 and words[0] == "in":
        return whole_millisecond(Instant(now + parse_duration(words[1], path, least=Duration(0))))
    if len(words) == 2 and words[1] == "ago":
        return whole_millisecond(Instant(now - parse_duration(words[0], path, least=Duration(0))))
    found = _WRITTEN.fullmatch(text.strip())
    if not found:
        raise Invalid.of(path, "bad_instant", f"{text[:40]!r} is not a time; write {EXAMPLES}")
    day, time, seconds, offset = found.groups()
    written = f"{day}T{time}{seconds or ':00'}"
    if offset is not None:
        return parse_instant(written + offset, path)
    if zone is None:
        message = f"{text[:40]!r} needs a time zone, like Europe/Berlin, or an offset, like {written}Z"
        raise Invalid.of(path, "bad_instant", message)
    return _local(parse_instant(f"{written}Z", path), zone, gap, fold, path)


def is_relative(text: str) -> bool:
    """Whether the text means another instant each time it is parsed."""
    words = text.split()
    return words == ["now"] or (len(words) == 2 and (words[0] == "in" or words[1] == "ago"))


def _local(wall: Instant, zone: ZoneInfo, gap: DstGap, fold: DstFold, path: str) -> Instant:
    """Return the instant at which the clocks of a zone show `wall`, which is a local time written as if in UTC."""
    second, rest = divmod(wall, SECOND)
    near = _segments(zone, second)
    shown = [at for one in near if one.start <= (at := second - one.offset) < one.end]
    local = f"{_readable(second)} in {zone.key}"
    if not shown:
        if gap is DstGap.SKIP:
            message = f"{local} does not exist: daylight saving skips it; choose another time, or dst_gap shift"
            raise Invalid.of(path, "skipped_time", message)
        return Instant(next(one.start for one in near if one.start + one.offset > second) * SECOND)
    if len(shown) > 1 and fold is DstFold.BOTH:
        message = f"{local} comes twice, and dst_fold is both; write the time with an offset, or choose dst_fold first"
        raise Invalid.of(path, "repeated_time", message)
    return Instant(shown[0] * SECOND + rest)


def _segments(zone: ZoneInfo, wall: int) -> list[Segment]:
    """Return the segments that may contain a wall time, in order: offsets are shorter than a day."""
    segments = timeline(zone)
    found = [segments.at(wall - _DAY)]
    while found[-1].end <= wall + _DAY:
        found.append(segments.at(found[-1].end))
    return found


def _readable(second: int) -> str:
    return f"{moment(Instant(second * SECOND)):%Y-%m-%d %H:%M}"
