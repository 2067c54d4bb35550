"""Expressions: what is taken and refused, and when they fire where the clock is never changed."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.domain.cron_oracle import at, day_matches, matcher, shown

from oncue.domain import cron
from oncue.domain.cron import Cron, next_after, parse_cron
from oncue.domain.errors import Invalid
from oncue.domain.instants import NEVER, SECOND, Instant, instant, moment

UTC_ZONE = ZoneInfo("UTC")
many = settings(max_examples=4 * settings().max_examples)


def following(text: str, after: str, count: int, years: tuple[int, ...] = ()) -> list[str | None]:
    cron, when, found = parse_cron(text, years=years), at(after), []
    for _ in range(count):
        nxt = next_after(cron, UTC_ZONE, when)
        found.append(shown(nxt))
        if nxt is None:
            break
        when = nxt
    return found


def refusal(text: str, years: tuple[int, ...] = ()) -> tuple[str, str]:
    with pytest.raises(Invalid) as refused:
        parse_cron(text, "schedule.cron", years)
    (problem,) = refused.value.problems
    assert problem.path == "schedule.cron"
    assert len(problem.message) < 200
    return problem.code, problem.message


# What is taken


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0 9 * * *", ["2026-01-01 09:00", "2026-01-02 09:00"]),
        ("*/15 * * * *", ["2026-01-01 00:15", "2026-01-01 00:30"]),
        ("5/20 * * * *", ["2026-01-01 00:05", "2026-01-01 00:25", "2026-01-01 00:45", "2026-01-01 01:05"]),
        ("10-20/5 0 * * *", ["2026-01-01 00:10", "2026-01-01 00:15", "2026-01-01 00:20", "2026-01-02 00:10"]),
        ("05 09 * * *", ["2026-01-01 09:05"]),
        ("30 0 0 * * *", ["2026-01-01 00:00:30", "2026-01-02 00:00:30"]),  # seconds come first, not last
        ("*/20 59 23 * * *", ["2026-01-01 23:59", "2026-01-01 23:59:20", "2026-01-01 23:59:40", "2026-01-02 23:59"]),
        ("0 0 1 jan,JUL *", ["2026-07-01 00:00", "2027-01-01 00:00"]),
        ("0 0 * * mon", ["2026-01-05 00:00", "2026-01-12 00:00"]),
        ("0 0 * * 0", ["2026-01-04 00:00", "2026-01-11 00:00"]),
        ("0 0 * * 7", ["2026-01-04 00:00", "2026-01-11 00:00"]),
        ("0 0 * * 5-7", ["2026-01-02 00:00", "2026-01-03 00:00", "2026-01-04 00:00", "2026-01-09 00:00"]),
        ("0 0 * * FRI-SUN", ["2026-01-02 00:00", "2026-01-03 00:00", "2026-01-04 00:00", "2026-01-09 00:00"]),
        ("0 0 * * SUN-SUN", ["2026-01-04 00:00", "2026-01-11 00:00"]),
        ("0 0 ? * 1", ["2026-01-05 00:00", "2026-01-12 00:00"]),
        ("0 0 15 * ?", ["2026-01-15 00:00", "2026-02-15 00:00"]),
        ("0 0 13 * FRI", ["2026-01-02 00:00", "2026-01-09 00:00", "2026-01-13 00:00", "2026-01-16 00:00"]),  # either
        ("0 0 */14 * MON", ["2026-06-01 00:00", "2026-06-15 00:00", "2026-06-29 00:00"]),  # both: starts with *
        ("0 0 13 * */5", ["2026-02-13 00:00", "2026-03-13 00:00", "2026-09-13 00:00"]),  # both: 0 and 5
        ("0 0 L * *", ["2026-01-31 00:00", "2026-02-28 00:00", "2026-03-31 00:00", "2026-04-30 00:00"]),
        ("0 0 L 2 *", ["2026-02-28 00:00", "2027-02-28 00:00", "2028-02-29 00:00", "2029-02-28 00:00"]),
        ("0 0 LW * *", ["2026-01-30 00:00", "2026-02-27 00:00", "2026-03-31 00:00"]),
        ("0 0 15W * *", ["2026-01-15 00:00", "2026-02-16 00:00", "2026-03-16 00:00"]),
        ("0 0 1W * *", ["2026-02-02 00:00", "2026-03-02 00:00", "2026-04-01 00:00"]),
        ("0 0 1W 8 *", ["2026-08-03 00:00"]),  # the 1st is a Saturday: not back into July
        ("0 0 31W 5 *", ["2026-05-29 00:00"]),  # the 31st is a Sunday: not on into June
        ("0 0 1,L * *", ["2026-01-31 00:00", "2026-02-01 00:00", "2026-02-28 00:00"]),
        ("0 0 * * MON#1", ["2026-01-05 00:00", "2026-02-02 00:00"]),
        ("0 0 * * 6#1", ["2026-01-03 00:00", "2026-02-07 00:00"]),
        ("0 0 * * 5#5", ["2026-01-30 00:00", "2026-05-29 00:00", "2026-07-31 00:00"]),
        ("0 0 * * 5L", ["2026-01-30 00:00", "2026-02-27 00:00", "2026-03-27 00:00"]),
        ("0 0 * * SUNL,7#1", ["2026-01-04 00:00", "2026-01-25 00:00", "2026-02-01 00:00"]),
        ("0 0 29 2 *", ["2028-02-29 00:00", "2032-02-29 00:00"]),
        ("@hourly", ["2026-01-01 01:00", "2026-01-01 02:00"]),
        ("@daily", ["2026-01-02 00:00"]),
        ("@midnight", ["2026-01-02 00:00"]),
        ("@weekly", ["2026-01-04 00:00"]),
        ("@Monthly", ["2026-02-01 00:00"]),
        ("@yearly", ["2027-01-01 00:00"]),
        ("  @annually ", ["2027-01-01 00:00"]),
    ],
)
def test_fires_at(text: str, expected: list[str]) -> None:
    assert following(text, "2026-01-01 00:00", len(expected)) == expected


def test_a_leap_day_that_is_a_monday_comes_every_28_years_but_for_2100() -> None:
    """The fifth Monday of a February. A search that gives up after a few years would refuse it, or stop."""
    assert following("0 0 * 2 MON#5", "2000-01-01 00:00", 9) == [
        "2016-02-29 00:00",
        "2044-02-29 00:00",
        "2072-02-29 00:00",
        "2112-02-29 00:00",
        "2140-02-29 00:00",
        "2168-02-29 00:00",
        "2196-02-29 00:00",
        None,
    ]


def test_2100_has_no_leap_day() -> None:
    assert following("0 0 29 2 *", "2095-01-01 00:00", 2) == ["2096-02-29 00:00", "2104-02-29 00:00"]


def test_years_restrict_and_then_it_is_over() -> None:
    assert following("0 0 1 1,7 *", "2026-03-01 00:00", 9, (2028, 2026)) == [
        "2026-07-01 00:00",
        "2028-01-01 00:00",
        "2028-07-01 00:00",
        None,
    ]
    assert parse_cron("0 0 * * *", years=frozenset({2028, 2026})) == parse_cron("0 0 * * *", years=(2026, 2028))
    assert parse_cron("0 0 * * *", years=(2026,)) != parse_cron("0 0 * * *")


def test_the_time_line_has_two_ends() -> None:
    assert following("0 0 31 12 *", "2198-12-31 00:00", 2) == ["2199-12-31 00:00", None]
    assert following("0 0 1 1 *", "1900-06-01 00:00", 1) == ["1970-01-01 00:00"]
    assert next_after(parse_cron("* * * * * *"), UTC_ZONE, NEVER) is None
    assert next_after(parse_cron("* * * * * *"), UTC_ZONE, Instant(-(2**62))) == 0
    for name in ("Pacific/Kiritimati", "Etc/GMT+12", "America/New_York"):
        last = next_after(parse_cron("59 59 23 31 12 *"), ZoneInfo(name), at("2199-12-01 00:00"))
        assert last is not None
        assert next_after(parse_cron("* * * * * *"), ZoneInfo(name), last) is None


def test_strictly_later_to_the_microsecond() -> None:
    cron, nine = parse_cron("0 9 * * *"), at("2026-01-01 09:00")
    assert next_after(cron, UTC_ZONE, Instant(nine - 1)) == nine
    assert next_after(cron, UTC_ZONE, nine) == at("2026-01-02 09:00")
    assert next_after(cron, UTC_ZONE, Instant(nine + 1)) == at("2026-01-02 09:00")
    assert next_after(cron, UTC_ZONE, Instant(nine - SECOND)) == nine


def test_a_cron_is_a_value() -> None:
    cron = parse_cron("0  9 * * *")
    assert cron.text == "0 9 * * *"
    assert cron == parse_cron("0 9 * * *")
    assert hash(cron) == hash(parse_cron("0 9 * * *"))
    assert parse_cron("0 9 * * *") is parse_cron("0 9 * * *")
    with pytest.raises(AttributeError):
        cron.text = "* * * * *"  # type: ignore[misc]


def test_a_list_of_every_value_is_short_enough() -> None:
    def every(low: int, high: int) -> str:
        return ",".join(str(value) for value in range(low, high + 1))

    cron = parse_cron(f"{every(0, 59)} {every(0, 59)} {every(0, 23)} {every(1, 31)} {every(1, 12)} {every(0, 6)}")
    assert next_after(cron, UTC_ZONE, at("2026-01-01 00:00")) == at("2026-01-01 00:00:01")


# What is refused


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("", "0 fields found; write five"),
        ("   ", "0 fields found"),
        ("0 9 * *", "4 fields found; write five"),
        ("0", "1 field found; write five"),
        ("0 0 9 * * * 2027", "7 fields found"),
        ("60 * * * *", "minute: 60 is not between 0 and 59"),
        ("77 * * * *", "minute: 77 is not between 0 and 59"),
        ("0 24 * * *", "hour: 24 is not between 0 and 23"),
        ("60 0 9 * * *", "second: 60 is not between 0 and 59"),
        ("0 0 0 * *", "day-of-month: 0 is not between 1 and 31"),
        ("0 0 32 * *", "day-of-month: 32"),
        ("0 0 * 13 *", "month: 13"),
        ("0 0 * 0 *", "month: 0"),
        ("0 0 * * 8", "day-of-week: 8 is not between 0 and 7"),
        ("0 0 0W * *", "day-of-month: 0"),
        ("0 0 32W * *", "day-of-month: 32"),
        ("*/0 * * * *", "minute: '*/0' needs a step of 1 or more"),
        ("*/ * * * *", "minute: '*/' needs a step of 1 or more"),
        ("*/x * * * *", "needs a step of 1 or more"),
        ("*/-5 * * * *", "needs a step of 1 or more"),
        ("1/2/3 * * * *", "needs a step of 1 or more"),
        ("*/90 * * * *", "minute: the step of '*/90' is larger than the range; write 0, or schedule 'every 90m'"),
        ("*/60 * * * *", "write 0"),
        ("0 */24 * * *", "schedule 'every 24h'"),
        ("10-20/30 * * * *", "write 10"),
        ("0 0 * */12 *", "write 1"),
        ("0 0 * * */7", "write 0"),
        ("22-2 * * * *", "minute: the range '22-2' ends before it begins; write 22-59,0-2"),
        ("0 22-2 * * *", "hour: the range '22-2' ends before it begins; write 22-23,0-2"),
        ("0 23-2 * * *", "write 23,0-2"),
        ("0 22-2/2 * * *", "write 0,2,22"),
        ("0 0 * NOV-FEB *", "write NOV-DEC,JAN-FEB"),
        ("0 0 * * FRI-MON", "write FRI-SAT,SUN-MON"),
        ("0 0 * * 5-0", "write 5-6,0"),
        ("0 0 * * 7-2", "write 0-2"),
        ("0 0 30-5 * *", "write 30-31,1-5"),
        ("1,,2 * * * *", "minute: an item"),
        (", * * * *", "minute: an item"),
        ("/5 * * * *", "minute: an item of '/5' is empty"),
        ("-1 * * * *", "minute: '-1' is invalid"),
        ("1- * * * *", "minute: '1-' is invalid"),
        ("1-2-3 * * * *", "minute: '2-3' is not a number"),
        ("1.5 * * * *", "minute: '1.5' is not a number"),
        ("+5 * * * *", "minute: '+5' is not a number"),
        ("1_0 * * * *", "minute: '1_0' is not a number"),
        ("9999999999999 * * * *", "is not a number"),
        ("? * * * *", "minute: '?' is not a number"),
        ("MON * * * *", "minute: 'MON' is not a number"),
        ("0 0 * MON *", "month: 'MON' is not a number from 1 to 12 or JAN to DEC"),
        ("0 0 * * JAN", "day-of-week: 'JAN' is not a number from 0 to 7 or SUN to SAT"),
        ("L * * * *", "minute: 'L' is not a number"),
        ("0 0 L-3 * *", "day-of-month: 'L-3' is invalid"),
        ("0 0 W * *", "day-of-month: 'W' is invalid"),
        ("0 0 1-5W * *", "day-of-month: '1-5W' is invalid"),
        ("0 0 * * L", "day-of-week: 'L' needs a day; write 5L"),
        ("0 0 * * 1#0", "day-of-week: '1#0' is invalid; write MON#1 to MON#5"),
        ("0 0 * * 1#6", "write MON#1 to MON#5"),
        ("0 0 * * #1", "write MON#1 to MON#5"),
        ("0 0 * * 8#1", "day-of-week: 8"),
        ("0 0 * * 8L", "day-of-week: 8"),
        ("@reboot", "'@reboot' is not one of @hourly, @daily"),
        ("@every 5m", "is not one of"),
        ("@", "is not one of"),
        ("0 9 * *\n*", r"'\n' is not allowed"),
        ("0 9 * * *\n", r"'\n' is not allowed"),
        ("0\t9 * * *", r"'\t' is not allowed"),
        ("0 9 * * *\0", r"'\x00' is not allowed"),
        ("٣ * * * *", "is not allowed"),
        ("０ 9 * * *", "is not allowed"),
        ("0 9 1–5 * *", "'–' is not allowed"),
        ("\ud800 * * * *", r"'\ud800' is not allowed"),
        ("* * * * \u202e*", r"'\u202e' is not allowed"),
        ("1," * 50_000 + "1 * * * *", "at most 600 characters"),
        (" " * 601, "at most 600 characters"),
        ("1" * 600, "'11111111111111111111…' is invalid"),
        ("0 0 * * " + "L" * 500, "is invalid"),
        ("@" + "x" * 500, "is not one of"),
    ],
)
def test_refused_with_the_way_to_write_it(text: str, hint: str) -> None:
    code, message = refusal(text)
    assert code == "bad_cron"
    assert hint in message
    message.encode()


@pytest.mark.parametrize(
    "text",
    [
        *("0 0 31 2 *", "* * 31 2 *", "0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 30-31 FEB *", "0 0 0 31 2 *"),
        *("0 0 30W 2 *", "0 0 31W 4 *", "0 0 */30 2 MON#5", "0 0 31 2 */2"),
    ],
)
def test_what_never_fires_is_refused(text: str) -> None:
    code, message = refusal(text)
    assert code == "never_fires"
    assert "no date in any year" in message


@pytest.mark.parametrize(
    "text", ["0 0 29 2 *", "0 0 29W 2 *", "0 0 * 2 0#5", "0 0 31 2 MON", "0 0 31 2,3 *", "0 0 30W 2 1L"]
)
def test_what_fires_rarely_is_taken(text: str) -> None:
    assert next_after(parse_cron(text), UTC_ZONE, at("2026-01-01 00:00")) is not None


def test_never_depends_on_the_years() -> None:
    code, message = refusal("0 0 29 2 *", (2026, 2027, 2100))
    assert (code, "in the years given" in message) == ("never_fires", True)
    assert parse_cron("0 0 29 2 *", years=(2026, 2028))
    assert refusal("0 0 * 2 MON#5", (2028,))[0] == "never_fires"
    assert refusal("0 0 * * *", (1969,))[0] == "bad_cron"
    assert refusal("0 0 * * *", (2026, 2200))[0] == "bad_cron"


def test_never_is_found_out_with_a_year_of_each_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work, not the wall clock: fourteen calendars at most, however long the search would have gone on."""
    looked_at = []
    days_of_year = cron._days_of_year

    def counted(rule: object, leap: bool, new_year: int) -> int:
        looked_at.append((leap, new_year))
        return days_of_year(rule, leap, new_year)  # type: ignore[arg-type]

    monkeypatch.setattr(cron, "_days_of_year", counted)
    cron.days_by_year.cache_clear()
    refusal("0 0 31 2 *")
    assert len(looked_at) == len(set(looked_at)) == 14


@given(st.text(max_size=40) | st.text("*/-,?LW#0123456789 @MONJAN", max_size=30))
def test_any_text_is_taken_or_refused_and_nothing_else(text: str) -> None:
    try:
        cron = parse_cron(text)
    except Invalid:
        return
    assert next_after(cron, UTC_ZONE, Instant(0)) is not None


# When they fire: against others


def listed(low: int, high: int, *, steps: bool = True) -> st.SearchStrategy[str]:
    """A field of numbers: single ones, ranges, lists, steps."""
    number = st.integers(low, high)
    span = st.tuples(number, number).map(sorted)
    term = st.one_of(
        number.map(str),
        span.map(lambda pair: f"{pair[0]}-{pair[1]}"),
        *([st.integers(1, (high - low) // 2).map(lambda step: f"*/{step}")] if steps else []),
        *(
            [span.filter(lambda pair: pair[1] - pair[0] > 3).map(lambda pair: f"{pair[0]}-{pair[1]}/3")]
            if steps
            else []
        ),
    )
    return st.just("*") | st.lists(term, min_size=1, max_size=3).map(",".join)


DATES = listed(1, 31) | st.lists(
    st.sampled_from(["L", "LW", "1", "15W", "1W", "31W", "29W", "10-12", "31", "29"]), min_size=1, max_size=3
).map(",".join)
WEEKDAYS = listed(0, 6) | st.lists(
    st.sampled_from(["5L", "0L", "7L", "1#1", "FRI#5", "7#2", "MON", "5-7", "7"]), min_size=1, max_size=3
).map(",".join)
EXPRESSIONS = st.tuples(listed(0, 59), listed(0, 23), DATES, listed(1, 12), WEEKDAYS).map(" ".join)
MOMENTS = st.integers(0, 6_000_000_000).map(lambda second: Instant(second * SECOND))


def parsed(text: str) -> Cron | None:
    """The expression; None if it never fires."""
    try:
        return parse_cron(text)
    except Invalid as wrong:
        if wrong.problems[0].code != "never_fires":
            raise
        return None


@many
@given(EXPRESSIONS, MOMENTS)
def test_agrees_with_a_walk_from_day_to_day(text: str, after: Instant) -> None:
    cron, start = parsed(text), moment(after).replace(tzinfo=None)
    if cron is None:
        assert not any(day_matches(text, date(2000, 1, 1) + timedelta(days=days)) for days in range(0, 1500))
        return
    found = next_after(cron, UTC_ZONE, after)
    assert found is not None
    assert found > after
    wall = moment(found).replace(tzinfo=None)
    matches = matcher(text)
    assert matches(wall)
    # Nothing in between: no day between the two, and no minute of theirs.
    between = range(1, min((wall.date() - start.date()).days, 1500))
    assert not any(day_matches(text, start.date() + timedelta(days=days)) for days in between)
    for midnight in {datetime.combine(day.date(), datetime.min.time()) for day in (start, wall)}:
        minutes = [midnight + timedelta(minutes=minute) for minute in range(1440)]
        assert not any(matches(minute) for minute in minutes if start < minute < wall)


PLAIN = st.tuples(
    listed(0, 59), listed(0, 23), listed(1, 31) | st.sampled_from(["L", "LW"]), listed(1, 12), listed(0, 6)
)


@many
@given(PLAIN.map(" ".join), MOMENTS)
def test_agrees_with_cronsim_in_utc(text: str, after: Instant) -> None:
    if (cron := parsed(text)) is None:
        return
    theirs = CronSim(text, moment(after))
    for _ in range(5):
        found = next_after(cron, UTC_ZONE, after)
        assert found == instant(next(theirs))
        after = found


@many
@given(st.tuples(listed(0, 59), PLAIN.map(" ".join)).map(" ".join), MOMENTS)
def test_agrees_with_cronsim_in_utc_with_seconds(text: str, after: Instant) -> None:
    if (cron := parsed(text)) is None:
        return
    theirs = CronSim(text, moment(after))
    for _ in range(5):
        found = next_after(cron, UTC_ZONE, after)
        assert found == instant(next(theirs))
        after = found


@given(EXPRESSIONS, MOMENTS, st.data())
def test_any_instant_before_the_next_occurrence_leads_to_it(text: str, after: Instant, data: st.DataObject) -> None:
    if (cron := parsed(text)) is None or (found := next_after(cron, UTC_ZONE, after)) is None:
        return
    between = Instant(data.draw(st.integers(after, found - 1)))
    assert next_after(cron, UTC_ZONE, between) == found


@given(EXPRESSIONS, st.integers(0, 3_000_000_000), st.integers(0, 200_000))
def test_counting_agrees_with_going_from_one_to_the_next(text: str, start: int, length: int) -> None:
    if (cron := parsed(text)) is None:
        return
    count, wall = 0, cron.next_wall(start)
    while wall is not None and wall < start + length:
        count, wall = count + 1, cron.next_wall(wall + 1)
    assert cron.count_walls(start, start + length) == count
