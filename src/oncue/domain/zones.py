"""Time zones: which names are real, and when each one changes its offset from UTC.

Names and rules come from the `tzdata` package alone. A host has rules of its own, and two hosts may have two kinds:
then one scheduler would plan for eight what another plans for nine.

`zoneinfo` answers one question at a time and slowly. Cron asks a hundred thousand times a second, so a zone is read
once into a `Timeline`: stretches of constant offset, found by probing, a few years at a time as they are needed.
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
import tzdata  # type: ignore[import-untyped]  # it is data: all we want of it is one text

from oncue.domain.errors import Invalid

# Files that zoneinfo opens although they are no IANA zones: this host's own zone, tables with leap seconds, a stub.
_TRAPS = frozenset({"Factory", "localtime", "posixrules"})
_TRAP_FOLDERS = ("posix/", "right/")
_LONGEST_NAME = 60


@cache
def zone_names() -> frozenset[str]:
    """The IANA names as the tzdata package lists them: the same on every host.

    `zoneinfo.available_timezones()` opens each file of the system, 50 ms here, to find the same names.
    """
    listed = resources.files("tzdata").joinpath("zones").read_text("ascii").split()
    return frozenset(name for name in listed if name not in _TRAPS and not name.startswith(_TRAP_FOLDERS))


class Rules:
    """One release of the rules: its `version` as IANA names it ("2026a"; a later one sorts later), and zones by name.

    `read` gives a zone's file (TZif) by its name. Everything that depends on rules takes them as an argument and goes
    by the package's when none are given.
    """

    __slots__ = ("_read", "_zones", "version")

    def __init__(self, version: str, read: Callable[[str], bytes]) -> None:
        self.version = version
        self._read = read
        self._zones: dict[str, ZoneInfo] = {}

    def zone(self, name: str) -> ZoneInfo:
        """The zone of a name that is one of `zone_names`; always the same object."""
        found = self._zones.get(name)
        # Two threads may read it at once: the first to be done decides which object it is.
        return found or self._zones.setdefault(name, ZoneInfo.from_file(BytesIO(self._read(name)), name))


def packaged(name: str) -> bytes:
    """The file of a zone as the tzdata package has it."""
    return resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()


PACKAGED = Rules(str(tzdata.IANA_VERSION), packaged)


def zone(name: str, path: str = "timezone", rules: Rules = PACKAGED) -> ZoneInfo:
    """The zone of an IANA name, spelled exactly. Anything else is Invalid, with the likely spelling."""
    if len(name) <= _LONGEST_NAME and name in zone_names():
        return rules.zone(name)
    raise Invalid.of(
        path, "bad_timezone", f'{name[:40]!r} is not an IANA time zone like "Europe/Berlin" or "UTC"{_suggestion(name)}'
    )


def _suggestion(name: str) -> str:
    """`; did you mean …?` for another case, a bare city or a slip of the finger."""
    if not 2 < len(name) <= _LONGEST_NAME:
        return ""
    spellings = _spellings()
    typed = name.strip().casefold().replace(" ", "_")
    close = [typed] if typed in spellings else get_close_matches(typed, spellings, n=1, cutoff=0.8)
    return f'; did you mean "{spellings[close[0]]}"?' if close else ""


@cache
def _spellings() -> dict[str, str]:
    """What people type, in lower case, and the name they mean: the whole name or its last part."""
    # Etc/GMT+2 is two hours *behind* UTC: never lead anybody there.
    names = sorted(name for name in zone_names() if not name.startswith("Etc/"))
    cities = {name.rpartition("/")[2].casefold(): name for name in names if "/" in name}
    return cities | {name.casefold(): name for name in names}


class Segment(msgspec.Struct, frozen=True, gc=False):
    """A stretch of time, `start` up to but not including `end`, with one offset. All in seconds.

    `before` is the offset until `start`: smaller means the clock jumps forward there (a gap in the wall times),
    larger that it is set back (a fold: wall times that come twice), equal that nothing happens.
    """

    start: int
    end: int
    offset: int
    before: int


_ERA = 2**28  # seconds, eight and a half years: what is explored in one go, about a millisecond
_PROBE = 2**18  # seconds, three days: the shortest stretch known in any zone is almost seven (a test watches it)


class Timeline:
    """The segments of one zone. An era is explored when first asked for; its edges are segments' edges too."""

    __slots__ = ("_eras", "_zone")

    def __init__(self, zone: ZoneInfo) -> None:
        self._zone = zone
        self._eras: dict[int, tuple[list[int], list[Segment]]] = {}

    def at(self, second: int) -> Segment:
        """The segment that `second`, counted from the epoch in UTC, lies in."""
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
        """The seconds in (begin, end) at which a new offset begins."""
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
        """Between a second with this offset and a later one with another: the second at which this offset ends."""
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
    """The zone's timeline, one per zone and process."""
    return Timeline(zone)
