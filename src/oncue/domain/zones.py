"""Time zones: which names exist, and when each zone changes its offset from UTC.

Names and rules come from the `tzdata` package alone. Hosts may have rules of different versions: then one scheduler
would plan for eight what another plans for nine.

`zoneinfo` is slow for one lookup at a time. Cron needs a hundred thousand lookups a second, so a zone is read once into
a `Timeline`: segments of constant offset, found by probing, a few years at a time as they are needed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from datetime import datetime
from difflib import get_close_matches
from functools import cache, lru_cache
from importlib import resources
from io import BytesIO
from zoneinfo import ZoneInfo

import msgspec
import tzdata  # type: ignore[import-untyped]  # only its version is used

from oncue.domain.errors import Invalid

# Files that zoneinfo opens although they are not IANA zones: the host's own zone, tables with leap seconds, a stub.
_TRAPS = frozenset({"Factory", "localtime", "posixrules"})
_TRAP_FOLDERS = ("posix/", "right/")
_LONGEST_NAME = 60


@cache
def zone_names() -> frozenset[str]:
    """Return the IANA names listed by the tzdata package: the same on every host.

    `zoneinfo.available_timezones()` opens every zone file of the system, which takes 50 ms, to find the same names.
    """
    listed = resources.files("tzdata").joinpath("zones").read_text("ascii").split()
    return frozenset(name for name in listed if name not in _TRAPS and not name.startswith(_TRAP_FOLDERS))


class Rules:
    """One release of the time-zone rules: its IANA `version` ("2026a"; later ones sort later), and zones by name.

    `read` returns a zone's file (TZif) by its name. Functions that depend on rules take them as an argument and default
    to those of the package.
    """

    __slots__ = ("_read", "_zones", "version")

    def __init__(self, version: str, read: Callable[[str], bytes]) -> None:
        self.version = version
        self._read = read
        self._zones: dict[str, ZoneInfo] = {}

    def zone(self, name: str) -> ZoneInfo:
        """Return the zone of a name in `zone_names`; always the same object."""
        found = self._zones.get(name)
        # Two threads may read it at once: the first to finish decides which object it is.
        return found or self._zones.setdefault(name, ZoneInfo.from_file(BytesIO(self._read(name)), name))


def packaged(name: str) -> bytes:
    """Read a zone's file from the tzdata package."""
    return resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()


PACKAGED = Rules(str(tzdata.IANA_VERSION), packaged)


def zone(name: str, path: str = "timezone", rules: Rules = PACKAGED) -> ZoneInfo:
    """Return the zone of an exact IANA name. Any other name is Invalid, with a suggested spelling."""
    if len(name) <= _LONGEST_NAME and name in zone_names():
        return rules.zone(name)
    raise Invalid.of(
        path, "bad_timezone", f'{name[:40]!r} is not an IANA time zone like "Europe/Berlin" or "UTC"{_suggestion(name)}'
    )


def _suggestion(name: str) -> str:
    """Return `; did you mean …?` for a name in another case, a bare city or a typo."""
    if not 2 < len(name) <= _LONGEST_NAME:
        return ""
    spellings = _spellings()
    typed = name.strip().casefold().replace(" ", "_")
    close = [typed] if typed in spellings else get_close_matches(typed, spellings, n=1, cutoff=0.8)
    return f'; did you mean "{spellings[close[0]]}"?' if close else ""


@cache
def _spellings() -> dict[str, str]:
    """Map what people type, in lower case, to the name they mean: the whole name or its last part."""
    # Etc/GMT+2 is two hours *behind* UTC, so it is never suggested.
    names = sorted(name for name in zone_names() if not name.startswith("Etc/"))
    cities = {name.rpartition("/")[2].casefold(): name for name in names if "/" in name}
    return cities | {name.casefold(): name for name in names}


class Segment(msgspec.Struct, frozen=True, gc=False):
    """A time range, `start` up to but not including `end`, with one offset. All in seconds.

    `before` is the offset until `start`: smaller means the clock jumps forward there (a gap in the wall times),
    larger that it is set back (a fold: wall times that occur twice), equal that nothing happens.
    """

    start: int
    end: int
    offset: int
    before: int


_ERA = 2**28  # seconds, eight and a half years: explored at once, in about a millisecond
_PROBE = 2**18  # seconds, three days: the shortest segment of any zone has almost seven (a test checks this)


class Timeline:
    """The segments of one zone. An era is explored on first use; segments do not cross the edges of eras."""

    __slots__ = ("_eras", "_zone")

    def __init__(self, zone: ZoneInfo) -> None:
        self._zone = zone
        self._eras: dict[int, tuple[list[int], list[Segment]]] = {}

    def at(self, second: int) -> Segment:
        """Return the segment that contains `second`, counted from the epoch in UTC."""
        era = second // _ERA
        starts, segments = self._eras.get(era) or self._explore(era)
        return segments[bisect_right(starts, second) - 1]

    def _explore(self, era: int) -> tuple[list[int], list[Segment]]:
        begin, end = era * _ERA, (era + 1) * _ERA
        starts = [begin, *self._changes(begin, end)]
        segments = [
            Segment(start, stop, self._offset(start), self._offset(start - 1))
            for start, stop in zip(starts, [*starts[1:], end], strict=True)
        ]
        self._eras[era] = starts, segments
        return starts, segments

    def _changes(self, begin: int, end: int) -> list[int]:
        """Return the seconds in (begin, end) at which a new offset begins."""
        changes = []
        known, offset = begin, self._offset(begin)
        for probe in range(begin + _PROBE, end + 1, _PROBE):
            last = min(probe, end - 1)
            while self._offset(last) != offset:
                known = self._first_change(known, last, offset)
                offset = self._offset(known)
                changes.append(known)
            known = last
        return changes

    def _first_change(self, same: int, other: int, offset: int) -> int:
        """Return the first second with another offset, between one with this offset and a later one without."""
        while other - same > 1:
            middle = (same + other) // 2
            if self._offset(middle) == offset:
                same = middle
            else:
                other = middle
        return other

    def _offset(self, second: int) -> int:
        offset = datetime.fromtimestamp(second, self._zone).utcoffset()
        assert offset is not None  # a ZoneInfo always has one
        return offset.days * 86_400 + offset.seconds


@lru_cache(maxsize=1024)
def timeline(zone: ZoneInfo) -> Timeline:
    """Return the zone's timeline, one per zone and process."""
    return Timeline(zone)
