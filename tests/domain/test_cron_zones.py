"""Cron where the clock is changed: every zone against a naive walk, then the cases that others got wrong, by name."""

from __future__ import annotations

import random
from bisect import bisect_right
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise, product
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st
from tests.domain.cron_oracle import (
    Step,
    all_zones,
    at,
    day_matches,
    different_zones,
    fires,
    random_expression,
    shown,
    transitions,
    walk,
)

from oncue.domain.cron import DstFold, DstGap, next_after, parse_cron
from oncue.domain.instants import SECOND, Instant, instant, moment

DAY = 86_400
PARTS = 8  # of all zones, so that several processes share them out; one of them every day
POLICIES = list(product(DstGap, DstFold))
ODD_ZONES = [
    *("Europe/Berlin", "America/New_York", "America/Santiago", "Asia/Beirut", "Australia/Lord_Howe"),
    *("Pacific/Chatham", "Antarctica/Troll", "Pacific/Apia", "Europe/Dublin", "Africa/Casablanca", "Africa/Monrovia"),
    *("Antarctica/Casey", "Asia/Gaza", "America/Caracas", "Asia/Pyongyang", "Pacific/Kwajalein", "America/Havana"),
]


def following(
    text: str, zone: str, after: str, count: int, gap: DstGap = DstGap.SHIFT, fold: DstFold = DstFold.FIRST
) -> list[str | None]:
    cron, when, found = parse_cron(text), at(after), []
    for _ in range(count):
        nxt = next_after(cron, ZoneInfo(zone), when, gap, fold)
        assert nxt is not None
        found.append(shown(nxt))
        when = nxt
    return found


# Every zone


def assert_agrees(text: str, zone: str, steps: list[Step], gap: DstGap, fold: DstFold, chance: random.Random) -> None:
    """From the beginning of a walk to its end, and from instants in between, the engine finds what the walk found."""
    cron, there = parse_cron(text), ZoneInfo(zone)
    start, end = steps[0].second - 1, steps[-1].second
    expected = fires(text, steps, gap, fold)
    found, when = [], Instant(start * SECOND)
    while (nxt := next_after(cron, there, when, gap, fold)) is not None and nxt <= end * SECOND:
        assert nxt > when
        assert nxt % SECOND == 0
        found.append(nxt // SECOND)
        when = nxt
    odd = [shown(Instant(second * SECOND)) for second in sorted({*found} ^ {*expected})]
    assert found == expected, f"{text} in {zone}, {gap}, {fold}: differs at {odd} (UTC)"
    # Stateless: whoever asks between two occurrences, also inside the repeated hour, gets the later one.
    for _ in range(10):
        asked = chance.randrange(start * SECOND, end * SECOND)
        later = bisect_right(expected, asked // SECOND)
        if later < len(expected):
            assert next_after(cron, there, Instant(asked), gap, fold) == expected[later] * SECOND


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.long) for part in range(1, PARTS))])
def test_agrees_with_a_walk_through_the_minutes(part: int) -> None:
    for zone in different_zones()[part::PARTS]:
        agrees_with_a_walk_through_the_minutes(zone)


def agrees_with_a_walk_through_the_minutes(zone: str) -> None:
    chance = random.Random(zone)
    known = transitions(zone)
    gaps = [change for change in known if change[1] < change[2]]
    folds = [change for change in known if change[1] > change[2]]
    chosen = [chance.choice(changes) for changes in (gaps, folds) if changes] or [(1_700_000_000 // 60 * 60, 0, 0)]
    for second, before, after in chosen:
        step = 30 if before % 60 or after % 60 else 60
        around = abs(after - before) + 6 * 3600
        steps = walk(zone, second - around // step * step, second + around, step)
        wall = divmod((second + chance.choice([before, after]) + chance.randrange(-3600, 3600)) % DAY // 60, 60)
        for gap, fold in POLICIES:
            assert_agrees(random_expression(chance, *wall), zone, steps, gap, fold, chance)


@pytest.mark.parametrize(
    "zone", [*ODD_ZONES[:5], *(pytest.param(zone, marks=pytest.mark.long) for zone in ODD_ZONES[5:])]
)
def test_agrees_with_a_walk_through_the_seconds(zone: str) -> None:
    chance = random.Random(zone)
    for second, before, after in chance.sample(transitions(zone), min(3, len(transitions(zone)))):
        around = abs(after - before) + 1800
        steps = walk(zone, second - min(around, 9000), second + min(around, 9000), 1)
        hour, minute = divmod((second + min(before, after)) % DAY // 60, 60)
        for gap, fold in POLICIES:
            seconds = chance.choice(["0", "*/20", "30", "*", "5-7"])
            text = f"{seconds} {random_expression(chance, hour, minute)}"
            assert_agrees(text, zone, steps, gap, fold, chance)


@pytest.mark.parametrize("zones", [ODD_ZONES[::4], pytest.param(ODD_ZONES, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("text", "start", "end"),
    [("17 2 * * *", 2010, 2032), ("0 0 * * *", 1978, 1996), ("0 3 L * *", 1972, 2037), ("0 0 29 2 *", 1972, 2037)],
)
def test_whole_decades_are_what_each_wall_time_says(zones: list[str], text: str, start: int, end: int) -> None:
    """Nothing is lost or doubled where a timeline's eras meet, nor when a search jumps over years."""
    for zone in zones:
        decades_are_what_each_wall_time_says(zone, text, start, end)


def decades_are_what_each_wall_time_says(zone: str, text: str, start: int, end: int) -> None:
    days = [date(start, 1, 1) + timedelta(days=days) for days in range((end - start) * 365)]
    time_of_day = datetime(1970, 1, 1, int(text.split()[1]), int(text.split()[0])).time()
    walls = [datetime.combine(day, time_of_day) for day in days if day_matches(text, day)]
    expected = sorted({_fires_once(wall, zone) for wall in walls})
    found, when = [], Instant((expected[0] - 1) * SECOND)
    for _ in expected:
        when = next_after(parse_cron(text), ZoneInfo(zone), when) or Instant(0)
        found.append(when // SECOND)
    assert found == expected, zone


def _fires_once(wall: datetime, zone: str) -> int:
    """The first instant of this wall time, or of the time after the gap it falls into."""
    there = wall.replace(tzinfo=ZoneInfo(zone))
    second = int(there.timestamp())
    if datetime.fromtimestamp(second, ZoneInfo(zone)).replace(tzinfo=None, fold=0) == wall:
        return second
    nominal = int(wall.replace(tzinfo=UTC).timestamp())
    return next(change for change, before, after in transitions(zone) if change + before <= nominal < change + after)


def _near(second: int, changes: list[int]) -> bool:
    index = bisect_right(changes, second)
    return any(abs(second - change) <= 26 * 3600 for change in changes[max(index - 1, 0) : index + 1])


@given(
    st.sampled_from(ODD_ZONES), st.integers(DAY, 2_100_000_000), st.integers(), st.integers(0, 23), st.integers(0, 59)
)
def test_agrees_with_cronsim_away_from_changes(zone: str, second: int, seed: int, hour: int, minute: int) -> None:
    text, there = random_expression(random.Random(seed), hour, minute).replace("?", "*"), ZoneInfo(zone)
    cron, when = parse_cron(text), Instant(second * SECOND)
    theirs = next(CronSim(text, moment(when).astimezone(there)))
    ours = next_after(cron, there, when)
    changes = [change for change, *_ in transitions(zone)]
    if not _near(second, changes) and not _near(int(theirs.timestamp()), changes):
        assert ours == instant(theirs)


@given(
    st.sampled_from(all_zones()),
    st.integers(0, 4_000_000_000 * SECOND),
    st.integers(),
    st.sampled_from(POLICIES),
    st.data(),
)
def test_any_instant_before_the_next_occurrence_leads_to_it(
    zone: str, after: int, seed: int, policy: tuple[DstGap, DstFold], data: st.DataObject
) -> None:
    there, chance = ZoneInfo(zone), random.Random(seed)
    if known := transitions(zone):
        after = (chance.choice(known)[0] + chance.randrange(-8_000, 8_000)) * SECOND
    cron = parse_cron(random_expression(chance, chance.randrange(4), chance.randrange(60)))
    found = next_after(cron, there, Instant(after), *policy)
    assert found is not None
    between = data.draw(st.integers(after, found - 1))
    assert next_after(cron, there, Instant(between), *policy) == found


# The repeated hour and the missing hour


def test_a_fixed_time_in_the_gap_runs_right_after_it() -> None:
    assert following("30 2 * * *", "Europe/Berlin", "2027-03-26 12:00", 3) == [
        "2027-03-27 01:30",
        "2027-03-28 01:00",
        "2027-03-29 00:30",
    ]


def test_a_fixed_time_in_the_gap_is_left_out_under_skip() -> None:
    assert following("30 2 * * *", "Europe/Berlin", "2027-03-26 12:00", 2, gap=DstGap.SKIP) == [
        "2027-03-27 01:30",
        "2027-03-29 00:30",
    ]


def test_two_fixed_times_in_one_gap_run_once() -> None:
    for text in ("0,30 2 * * *", "0 2,3 * * *", "10 0,20,40 2 * * *", "0-59 2 * * *"):
        found = following(text, "Europe/Berlin", "2027-03-28 00:59", 2)
        assert found[0] == "2027-03-28 01:00"
        assert found[1] is not None
        assert found[1] > "2027-03-28 01:00"


def test_a_fixed_time_at_the_end_of_the_gap_is_not_doubled() -> None:
    assert following("0 3 * * *", "Europe/Berlin", "2027-03-27 12:00", 2) == ["2027-03-28 01:00", "2027-03-29 01:00"]


def test_a_fixed_time_in_the_fold_runs_the_first_time_only() -> None:
    """croniter and APScheduler run it twice."""
    assert following("30 2 * * *", "Europe/Berlin", "2026-10-24 12:00", 2) == ["2026-10-25 00:30", "2026-10-26 01:30"]


def test_a_fixed_time_in_the_fold_runs_twice_under_both() -> None:
    assert following("30 2 * * *", "Europe/Berlin", "2026-10-24 12:00", 3, fold=DstFold.BOTH) == [
        "2026-10-25 00:30",
        "2026-10-25 01:30",
        "2026-10-26 01:30",
    ]


@pytest.mark.parametrize("asked", ["2026-10-25 00:30", "2026-10-25 00:45", "2026-10-25 01:00", "2026-10-25 01:10"])
def test_asked_inside_the_repeated_hour_the_answer_is_not_in_the_past(asked: str) -> None:
    """cronsim, asked in the second pass, answers with the first."""
    assert following("30 2 * * *", "Europe/Berlin", asked, 1) == ["2026-10-26 01:30"]


def test_yearly_in_the_fold_both_passes() -> None:
    """Searching a year ahead must not jump over the second pass, an hour ahead."""
    cron, there = parse_cron("30 2 25 10 *"), ZoneInfo("Europe/Berlin")
    assert next_after(cron, there, at("2026-10-25 00:30"), fold=DstFold.BOTH) == at("2026-10-25 01:30")
    assert next_after(cron, there, at("2026-10-25 00:30"), fold=DstFold.FIRST) == at("2027-10-25 00:30")


def test_every_half_hour_has_no_hole_and_no_double() -> None:
    """cron-converter and crontab leave 90 minutes at a change."""
    for start in ("2027-03-27 23:10", "2026-10-24 22:10"):
        instants = [at(str(found)) for found in following("*/30 * * * *", "Europe/Berlin", start, 12)]
        assert {later - earlier for earlier, later in pairwise(instants)} == {1800 * SECOND}


def test_a_wildcard_job_fires_in_both_passes_and_not_in_the_gap() -> None:
    assert following("15 * * * *", "Europe/Berlin", "2026-10-24 23:20", 3) == [
        "2026-10-25 00:15",
        "2026-10-25 01:15",
        "2026-10-25 02:15",
    ]
    # */20 in hour 2: the hour is missing, so there is nothing until the next day, whatever the policy for fixed times
    assert following("*/20 2 * * *", "Europe/Berlin", "2027-03-27 12:00", 1) == ["2027-03-29 00:00"]
    assert following("*/20 2 * * *", "Europe/Berlin", "2026-10-24 12:00", 6)[3:] == [
        "2026-10-25 01:00",
        "2026-10-25 01:20",
        "2026-10-25 01:40",
    ]


def test_an_hour_range_is_a_fixed_time() -> None:
    """As in Debian's cron only a leading star makes a wildcard: 0-23 runs once per wall time."""
    assert following("0 0-23 * * *", "Europe/Berlin", "2026-10-24 23:30", 3) == [
        "2026-10-25 00:00",
        "2026-10-25 02:00",
        "2026-10-25 03:00",
    ]
    assert following("0 * * * *", "Europe/Berlin", "2026-10-24 23:30", 3)[1] == "2026-10-25 01:00"


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago"])
@pytest.mark.parametrize(("gap", "fold"), POLICIES)
def test_six_fields_mean_what_five_mean(zone: str, gap: DstGap, fold: DstFold) -> None:
    """cronsim skips or doubles with six fields."""
    for five in ("30 2 * * *", "0 0 * * *", "*/15 * * * *", "45 1 * * *"):
        assert following(five, zone, "2026-09-01 00:00", 300, gap, fold) == following(
            f"0 {five}", zone, "2026-09-01 00:00", 300, gap, fold
        )


def test_every_second_of_a_missing_minute_is_one_run() -> None:
    assert following("* 30 2 * * *", "Europe/Berlin", "2027-03-27 12:00", 2) == ["2027-03-28 01:00", "2027-03-29 00:30"]
    assert following("* 30 2 * * *", "Europe/Berlin", "2027-03-27 12:00", 1, gap=DstGap.SKIP) == ["2027-03-29 00:30"]


def test_every_second_of_a_repeated_minute_runs_in_the_first_pass() -> None:
    cron, there = parse_cron("* 30 2 * * *"), ZoneInfo("Europe/Berlin")
    assert next_after(cron, there, at("2026-10-25 00:30:10")) == at("2026-10-25 00:30:11")
    assert next_after(cron, there, at("2026-10-25 00:30:59")) == at("2026-10-26 01:30")
    assert next_after(cron, there, at("2026-10-25 00:30:59"), fold=DstFold.BOTH) == at("2026-10-25 01:30")


# Places


def test_santiago_where_midnight_does_not_exist() -> None:
    """APScheduler loses the day."""
    assert following("0 0 * * *", "America/Santiago", "2026-09-05 12:00", 2) == ["2026-09-06 04:00", "2026-09-07 03:00"]


def test_beirut_where_midnight_does_not_exist() -> None:
    assert following("0 0 * * *", "Asia/Beirut", "2027-03-27 12:00", 2) == ["2027-03-27 22:00", "2027-03-28 21:00"]


def test_beirut_where_midnight_comes_twice() -> None:
    """On the last Sunday of October the clock goes back from midnight to 23:00 of the Saturday."""
    assert following("30 23 * * *", "Asia/Beirut", "2026-10-24 12:00", 2) == ["2026-10-24 20:30", "2026-10-25 21:30"]
    assert following("0 0 * * *", "Asia/Beirut", "2026-10-24 12:00", 2) == ["2026-10-24 22:00", "2026-10-25 22:00"]


def test_lord_howe_shifts_by_half_an_hour() -> None:
    assert following("15 2 * * *", "Australia/Lord_Howe", "2026-10-03 00:00", 2) == [
        "2026-10-03 15:30",
        "2026-10-04 15:15",
    ]
    assert following("45 1 * * *", "Australia/Lord_Howe", "2027-04-03 00:00", 2) == [
        "2027-04-03 14:45",
        "2027-04-04 15:15",
    ]
    assert following("45 1 * * *", "Australia/Lord_Howe", "2027-04-03 00:00", 2, fold=DstFold.BOTH) == [
        "2027-04-03 14:45",
        "2027-04-03 15:15",
    ]
    instants = [at(str(x)) for x in following("*/30 * * * *", "Australia/Lord_Howe", "2026-10-03 13:00", 8)]
    assert {later - earlier for earlier, later in pairwise(instants)} == {1800 * SECOND}


def test_chatham_at_a_quarter_to() -> None:
    """UTC+12:45; the clock changes at 02:45 and 03:45."""
    assert following("0 3 * * *", "Pacific/Chatham", "2026-09-25 20:00", 2) == ["2026-09-26 14:00", "2026-09-27 13:15"]
    assert following("0 3 * * *", "Pacific/Chatham", "2027-04-03 00:00", 2) == ["2027-04-03 13:15", "2027-04-04 14:15"]


def test_troll_shifts_by_two_hours() -> None:
    assert following("30 1 * * *", "Antarctica/Troll", "2027-03-27 12:00", 2) == [
        "2027-03-28 01:00",
        "2027-03-28 23:30",
    ]
    assert following("0 1,2 * * *", "Antarctica/Troll", "2027-03-27 12:00", 2) == [
        "2027-03-28 01:00",
        "2027-03-28 23:00",
    ]
    assert following("30 1 * * *", "Antarctica/Troll", "2026-10-24 12:00", 3, fold=DstFold.BOTH) == [
        "2026-10-24 23:30",
        "2026-10-25 01:30",
        "2026-10-26 01:30",
    ]


def test_apia_where_a_day_does_not_exist() -> None:
    """Samoa went from 29 to 31 December 2011."""
    assert following("0 9 * * *", "Pacific/Apia", "2011-12-29 12:00", 3) == [
        "2011-12-29 19:00",
        "2011-12-30 10:00",
        "2011-12-30 19:00",
    ]
    assert following("0 9 * * *", "Pacific/Apia", "2011-12-29 12:00", 2, gap=DstGap.SKIP) == [
        "2011-12-29 19:00",
        "2011-12-30 19:00",
    ]
    assert following("0 0 30 12 *", "Pacific/Apia", "2011-01-01 00:00", 1) == ["2011-12-30 10:00"]
    assert following("0 * * * *", "Pacific/Apia", "2011-12-30 08:30", 3) == [
        "2011-12-30 09:00",
        "2011-12-30 10:00",
        "2011-12-30 11:00",
    ]


def test_dublin_whose_winter_is_the_exception() -> None:
    """In the files summer is standard time and winter has a *negative* saving."""
    assert following("30 1 * * *", "Europe/Dublin", "2027-03-27 12:00", 2) == ["2027-03-28 01:00", "2027-03-29 00:30"]
    assert following("30 1 * * *", "Europe/Dublin", "2026-10-24 12:00", 2) == ["2026-10-25 00:30", "2026-10-26 01:30"]


def test_casablanca_changes_around_ramadan() -> None:
    """2027: back on 7 February at 03:00, forward on 14 March at 02:00."""
    assert following("30 2 * * *", "Africa/Casablanca", "2027-02-06 12:00", 2) == [
        "2027-02-07 01:30",
        "2027-02-08 02:30",
    ]
    assert following("30 2 * * *", "Africa/Casablanca", "2027-03-13 12:00", 2) == [
        "2027-03-14 02:00",
        "2027-03-15 01:30",
    ]


def test_monrovia_had_seconds_in_its_offset() -> None:
    """UTC-0:44:30 until 7 January 1972."""
    assert following("0 0 * * *", "Africa/Monrovia", "1972-01-06 00:00", 3) == [
        "1972-01-06 00:44:30",
        "1972-01-07 00:44:30",
        "1972-01-08 00:00",
    ]
