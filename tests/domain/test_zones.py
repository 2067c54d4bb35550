from __future__ import annotations

import subprocess
import sys
from datetime import datetime
from importlib import resources
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from tests.domain.cron_oracle import LISTED_UNTIL, all_zones, different_zones, transitions

from oncue.domain import zones
from oncue.domain.errors import Invalid
from oncue.domain.instants import SECOND, Duration
from oncue.domain.zones import PACKAGED, Rules, Timeline, packaged, timeline, zone, zone_names
from oncue.testing.rules import made_up

DAY = 86_400
PARTS = 6  # of all zones; one of them every day


def changes(name: str, start: int, end: int) -> list[tuple[int, int, int]]:
    segments, found = timeline(ZoneInfo(name)), []
    segment = segments.at(start)
    while segment.end < end:
        segment = segments.at(segment.end)
        if segment.before != segment.offset:
            found.append((segment.start, segment.before, segment.offset))
    return found


def test_every_iana_name_is_taken() -> None:
    assert zone_names() == set(all_zones())
    assert [zone(name).key for name in all_zones()] == all_zones()


@pytest.mark.parametrize(
    "name",
    [
        *("", " ", "localtime", "posixrules", "Factory", "right/UTC", "posix/UTC", "posix/Europe/Berlin"),
        *("../../etc/passwd", "/etc/passwd", "/usr/share/zoneinfo/UTC", "./UTC", "Europe/../UTC", "Europe//Berlin"),
        *("America", "America/", "/UTC", "UTC ", " UTC", "utc", "europe/berlin", "EUROPE/BERLIN", "Europe\\Berlin"),
        *("UTC\0", "UTC\n", "\0", "\ud800", "Europe/Berlín", "UTC+2", "GMT+2", "+02:00", "CEST", "zone.tab", "x" * 61),
        *("tzdata.zi", "leapseconds", "__init__.py", "con", "a" * 1_000_000),
    ],
)
def test_everything_else_is_refused_without_touching_a_file(name: str) -> None:
    def opened(name: str) -> bytes:
        raise AssertionError(f"opened {name!r}")

    with pytest.raises(Invalid) as refused:
        zone(name, "schedule.timezone", Rules("2026a", opened))
    (problem,) = refused.value.problems
    assert (problem.path, problem.code) == ("schedule.timezone", "bad_timezone")
    assert '"Europe/Berlin"' in problem.message  # how to spell one
    assert len(problem.message) < 200
    problem.message.encode()  # can be sent: no lone surrogate


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("europe/berlin", "Europe/Berlin"),
        ("utc", "UTC"),
        ("Berlin", "Europe/Berlin"),
        ("new york", "America/New_York"),
        ("Amerika/New_York", "America/New_York"),
        ("Europe/Berln", "Europe/Berlin"),
    ],
)
def test_a_slip_is_answered_with_the_likely_name(typed: str, meant: str) -> None:
    with pytest.raises(Invalid, match=f'did you mean "{meant}"'):
        zone(typed)


def test_nobody_is_led_to_the_zones_with_the_opposite_sign() -> None:
    with pytest.raises(Invalid) as refused:
        zone("GMT+2")
    assert "Etc/" not in str(refused.value)


WRONG_HERE = """
from datetime import datetime
from zoneinfo import ZoneInfo
from oncue.domain.zones import zone
summer = datetime(2027, 7, 1)
print([summer.replace(tzinfo=here).utcoffset() for here in (ZoneInfo("Europe/Berlin"), zone("Europe/Berlin"))])
"""


def test_rules_are_the_packages_whatever_the_host_has(tmp_path: Path) -> None:
    (tmp_path / "Europe").mkdir()
    (tmp_path / "Europe" / "Berlin").write_bytes(packaged("Asia/Tokyo"))

    program = [sys.executable, "-c", WRONG_HERE]
    said = subprocess.run(program, env={"PYTHONTZPATH": str(tmp_path)}, capture_output=True, text=True, check=True)

    assert said.stdout.strip() == "[datetime.timedelta(seconds=32400), datetime.timedelta(seconds=7200)]"


def test_the_rules_have_the_version_that_their_own_file_names() -> None:
    first = resources.files("tzdata").joinpath("zoneinfo", "tzdata.zi").read_text("ascii").partition("\n")[0]
    assert first == f"# version {PACKAGED.version}"


def test_a_zone_is_one_object_and_each_rules_have_their_own() -> None:
    other = made_up("9999a", Duration(3 * SECOND))
    here, there = zone("Europe/Berlin"), zone("Europe/Berlin", rules=other)

    assert (zone("Europe/Berlin"), zone("Europe/Berlin", rules=other)) == (here, there)
    assert timeline(there).at(0).offset == 3
    assert timeline(here).at(0).offset == 3600


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.long) for part in range(1, PARTS))])
def test_a_timeline_has_exactly_the_changes_of_the_zone_file(part: int) -> None:
    """Probing too coarsely would lose short stretches: Recife in 2000 and Gaza in 2040 have less than seven days."""
    for name in different_zones()[part::PARTS]:
        end = max([LISTED_UNTIL, *(second + 1 for second, *_ in transitions(name))])
        assert changes(name, 0, end) == list(transitions(name)), name


@pytest.mark.parametrize("name", ["Europe/Berlin", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Gaza"])
def test_a_timeline_goes_on_when_the_zone_file_ends(name: str) -> None:
    start, there = 4_102_444_800, ZoneInfo(name)  # 2100, three years, asked every hour

    def offset(second: int) -> float:
        return datetime.fromtimestamp(second, there).utcoffset().total_seconds()  # type: ignore[union-attr]

    hours = range(start, start + 3 * 365 * DAY, 3600)
    assert all(timeline(there).at(second).offset == offset(second) for second in hours)


def test_segments_touch_and_contain_what_was_asked_for() -> None:
    segments = Timeline(ZoneInfo("Europe/Berlin"))
    for second in (0, 1, 2**28 - 1, 2**28, 1_806_195_599, 1_806_195_600, -1):
        segment = segments.at(second)
        assert segment.start <= second < segment.end
        assert segments.at(segment.end).start == segment.end
        assert segments.at(segment.end).before == segment.offset


def test_changes_are_far_enough_apart_for_probes_and_for_policies() -> None:
    """Assumptions about the world. Should a new tzdata break them, look again at `_PROBE` and at what a gap means."""
    for name in all_zones():
        for (first, *_), (second, *_) in pairwise(transitions(name)):
            assert second - first > zones._PROBE + DAY, name
        assert all(abs(after - before) <= DAY for _, before, after in transitions(name)), name


def test_the_first_use_of_a_zone_explores_a_few_years_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work, not the wall clock: about 1,500 questions at a microsecond each, far from 50 ms."""
    asked = 0
    offset = Timeline._offset

    def counted(self: Timeline, second: int) -> int:
        nonlocal asked
        asked += 1
        return offset(self, second)

    monkeypatch.setattr(Timeline, "_offset", counted)
    segments = Timeline(ZoneInfo("Africa/Casablanca"))
    segments.at(1_800_000_000)
    assert 0 < asked < 5_000
    explored = asked
    segments.at(1_800_000_001)
    assert asked == explored
