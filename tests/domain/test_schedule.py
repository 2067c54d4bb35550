"""Schedules: what may be written, and the occurrences that follow from it."""

from itertools import islice, pairwise
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncue.domain.cron import DstFold, DstGap
from oncue.domain.errors import Invalid
from oncue.domain.ids import JobId, RunId, occurrence_id
from oncue.domain.instants import DAY, HOUR, MINUTE, SECOND, Duration, Instant, parse_instant
from oncue.domain.schedule import (
    Asked,
    Calendar,
    Kind,
    Schedule,
    describe_schedule,
    due_at,
    last_occurrence,
    next_occurrence,
    occurrences,
    parse_schedule,
    to_cron,
)

NOW = parse_instant("2027-01-31T09:00:00Z")
JOB = JobId(UUID(int=5))


def at(text: str) -> Instant:
    return parse_instant(text)


def first(schedule: Schedule, n: int, after: Instant = NOW) -> list[Instant]:
    return list(islice(occurrences(schedule, after, Instant(2**60)), n))


@pytest.mark.parametrize(
    ("asked", "schedule"),
    [
        (None, Schedule()),
        ("now", Schedule()),
        ("2027-02-01T00:00:00Z", Schedule(at=at("2027-02-01T00:00:00Z"))),
        ("2027-02-01T02:00:00.0001+02:00", Schedule(at=at("2027-02-01T00:00:00.001Z"))),
        ("every 30s", Schedule(every=Duration(30 * SECOND), anchor=NOW)),
        ("every  PT1H", Schedule(every=HOUR, anchor=NOW)),
        ("0 9 * * 1-5", Schedule(cron="0 9 * * 1-5")),
        ("*/10 * * * * *", Schedule(cron="*/10 * * * * *")),
        ("@daily", Schedule(cron="@daily")),
        ("in 10m", Schedule(at=Instant(NOW + 10 * MINUTE))),
        (Asked(at="2027-07-31 09:00", timezone="Europe/Berlin"),
         Schedule(at=at("2027-07-31T07:00:00Z"), timezone="Europe/Berlin")),
        (Asked(cron="0 9 * * *", timezone="Asia/Tokyo", start_at="2027-02-01 09:00", end_at="in 7d"),
         Schedule(cron="0 9 * * *", timezone="Asia/Tokyo", start_at=at("2027-02-01T00:00:00Z"),
                  end_at=Instant(NOW + 7 * DAY))),
        (Asked(), Schedule()),
        (Asked(every="1m", start_at="2027-03-01T00:00:00Z"),
         Schedule(every=MINUTE, anchor=at("2027-03-01T00:00:00Z"), start_at=at("2027-03-01T00:00:00Z"))),
        (Asked(cron="0 9 * * *", timezone="Europe/Berlin", jitter="5m", max_runs=3),
         Schedule(cron="0 9 * * *", timezone="Europe/Berlin", jitter=Duration(5 * MINUTE), max_runs=3)),
    ],
)  # fmt: skip
def test_what_is_asked_for_is_understood(asked: Asked | str | None, schedule: Schedule) -> None:
    assert parse_schedule(asked, NOW) == schedule


@pytest.mark.parametrize(
    ("asked", "path"),
    [
        ("", ""),
        ("tomorrow", ""),
        ("every", ""),
        ("every 10", "every"),
        ("every 10ms", "every"),
        ("every 0s", "every"),
        ("every month", "every"),
        ("2027-02-01", "at"),
        ("2027-02-01T00:00:00", "at"),
        ("2027-02-01 09:00", "at"),
        ("in 10", "at"),
        ("in a while", "at"),
        (Asked(at="2027-03-28 02:30", timezone="Europe/Berlin", dst_gap=DstGap.SKIP), "at"),
        (Asked(at="2027-10-31 02:30", timezone="Europe/Berlin", dst_fold=DstFold.BOTH), "at"),
        (Asked(cron="* * * * *", start_at="2027-02-01 09:00"), "start_at"),
        ("2040-02-01T00:00:00Z", "at"),
        ("0 9 * *", ""),
        ("61 * * * *", "cron"),
        ("* * 31 2 *", "cron"),
        (Asked(at="2027-02-01T00:00:00Z", cron="* * * * *"), "cron"),
        (Asked(every="1m", calendar=Calendar(hour=1)), "calendar"),
        (Asked(cron="* * * * *", timezone="Mars/Olympus"), "timezone"),
        (Asked(timezone="localtime"), "timezone"),
        (Asked(every="1m", start_at="2027-02-01", end_at="2027-03-01T00:00:00Z"), "start_at"),
        (Asked(every="1m", start_at="2027-03-01T00:00:00Z", end_at="2027-03-01T00:00:00Z"), "end_at"),
        (Asked(every="1m", max_runs=0), "max_runs"),
        (Asked(every="1m", jitter="-1s"), "jitter"),
        (Asked(calendar=Calendar()), "calendar"),
        (Asked(calendar=Calendar(hour=25)), "calendar"),
        (Asked(calendar=Calendar(month=2, date=30)), "calendar"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(asked: Asked | str, path: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_schedule(asked, NOW)

    assert refused.value.problems[0].path.split(".")[0] == path


@pytest.mark.parametrize(
    ("calendar", "cron", "years"),
    [
        (Calendar(minute=5), "5 * * * *", ()),
        (Calendar(hour=9), "0 9 * * *", ()),
        (Calendar(hour=9, minute=30), "30 9 * * *", ()),
        (Calendar(date=1), "0 0 1 * *", ()),
        (Calendar(date="1,15", hour=9), "0 9 1,15 * *", ()),
        (Calendar(month=3), "0 0 1 3 *", ()),
        (Calendar(month=3, minute=5), "5 * * 3 *", ()),
        (Calendar(days_of_week="mon-fri"), "0 0 * * mon-fri", ()),
        (Calendar(days_of_week=("mon", "wed"), hour=9), "0 9 * * mon,wed", ()),
        (Calendar(month=3, days_of_week="mon"), "0 0 * 3 mon", ()),
        (Calendar(date=13, days_of_week="fri"), "0 0 13 * fri", ()),
        (Calendar(year=2028), "0 0 1 1 *", (2028,)),
        (Calendar(year="2028-2030,2035", hour=6), "0 6 * * *", (2028, 2029, 2030, 2035)),
    ],
)
def test_calendar_fields_left_out_are_any_or_least(calendar: Calendar, cron: str, years: tuple[int, ...]) -> None:
    assert to_cron(calendar) == (cron, years)
    assert parse_schedule(Asked(calendar=calendar), NOW).cron == cron


@pytest.mark.parametrize(
    "calendar",
    [
        Calendar(hour=""),
        Calendar(hour="1 2"),
        Calendar(date="1\n2"),
        Calendar(year="27"),
        Calendar(year="2030-2028"),
        Calendar(year=1969),
        Calendar(year=2200),
        Calendar(year="*"),
    ],
)
def test_what_is_no_calendar_field_is_refused(calendar: Calendar) -> None:
    with pytest.raises(Invalid):
        parse_schedule(Asked(calendar=calendar), NOW)


@pytest.mark.parametrize("nothing", ["", ()])
def test_an_empty_list_of_weekdays_is_refused_and_not_every_day(nothing: str | tuple[str, ...]) -> None:
    with pytest.raises(Invalid):
        parse_schedule(Asked(calendar=Calendar(days_of_week=nothing)), NOW)


def test_years_are_kept() -> None:
    schedule = parse_schedule(Asked(calendar=Calendar(year=2029, month=2, date=1)), NOW)

    assert first(schedule, 5) == [at("2029-02-01T00:00:00Z")]


@given(st.integers(SECOND, 400 * DAY), st.integers(-(10**15), 10**15), st.integers(0, 10**6))
def test_every_is_anchored_and_never_drifts(every: int, offset: int, n: int) -> None:
    """Whenever one looks, the next is the anchor and a whole number of intervals, at least one."""
    schedule = Schedule(every=Duration(every), anchor=NOW)
    after = Instant(NOW + offset)
    found = next_occurrence(schedule, after)

    assert found is not None
    assert (found - NOW) % every == 0
    assert found > after
    assert found == NOW + every or found - after <= every
    assert next_occurrence(schedule, Instant(NOW + n * every)) == NOW + (n + 1) * every


def test_the_first_interval_ends_one_interval_after_the_start() -> None:
    schedule = parse_schedule(Asked(every="1h", start_at="2027-03-01T00:00:00Z"), NOW)

    assert first(schedule, 2) == [at("2027-03-01T01:00:00Z"), at("2027-03-01T02:00:00Z")]


def test_a_window_includes_both_ends() -> None:
    schedule = Schedule(cron="0 * * * *", start_at=at("2027-03-01T10:00:00Z"), end_at=at("2027-03-01T12:00:00Z"))

    assert first(schedule, 9) == [at(f"2027-03-01T{hour}:00:00Z") for hour in (10, 11, 12)]
    assert next_occurrence(schedule, at("2027-03-01T12:00:00Z")) is None


CRONS = ["0 9 * * 1-5", "*/7 * * * *", "30 2 * * *", "0 0 1 * *", "0 0 29 2 *"]
schedules = st.one_of(
    st.builds(
        lambda every, anchor, window: Schedule(every=Duration(every), anchor=Instant(NOW + anchor), end_at=window),
        st.integers(SECOND, 3 * DAY),
        st.integers(-DAY, DAY),
        st.one_of(st.none(), st.integers(NOW, NOW + 40 * DAY).map(Instant)),
    ),
    st.builds(
        lambda cron, zone: Schedule(cron=cron, timezone=zone),
        st.sampled_from(CRONS),
        st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe"]),
    ),
)


@given(schedules, st.integers(0, 60 * DAY), st.integers(0, 3 * DAY))
def test_the_last_occurrence_is_the_last_of_all(schedule: Schedule, after: int, length: int) -> None:
    start, until = Instant(NOW + after), Instant(NOW + after + length)
    if schedule.every is not None and length // schedule.every > 5_000:
        until = Instant(start + 5_000 * schedule.every)

    everything = list(occurrences(schedule, start, until))

    assert last_occurrence(schedule, start, until) == (everything[-1] if everything else None)


def test_the_last_of_a_century_takes_no_time() -> None:
    schedule = Schedule(every=SECOND, anchor=NOW)

    assert last_occurrence(schedule, NOW, Instant(NOW + 36_500 * DAY)) == NOW + 36_500 * DAY


@given(schedules, st.integers(0, 300 * DAY))
def test_occurrences_rise_and_none_is_skipped_by_asking_in_steps(schedule: Schedule, start: int) -> None:
    found = first(schedule, 20, Instant(NOW + start))

    assert found == sorted(set(found))
    for one, two in pairwise(found):
        middle = Instant((one + two) // 2)
        assert next_occurrence(schedule, one) == two
        assert next_occurrence(schedule, middle) == two


@given(st.integers(0, HOUR), st.integers(0, 10**6))
def test_jitter_moves_later_by_no_more_than_asked_and_always_the_same(jitter: int, minutes: int) -> None:
    schedule = Schedule(every=MINUTE, jitter=Duration(jitter))
    nominal = Instant(NOW + minutes * MINUTE)
    run_id = occurrence_id(JOB, nominal)

    assert 0 <= due_at(schedule, nominal, run_id) - nominal <= jitter
    assert due_at(schedule, nominal, run_id) == due_at(schedule, nominal, RunId(UUID(int=run_id.int)))


def test_jitter_is_spread_over_all_of_it() -> None:
    """All retries in the same second was somebody's outage."""
    schedule = Schedule(every=MINUTE, jitter=Duration(10 * SECOND))
    moved = [due_at(schedule, NOW, occurrence_id(JobId(UUID(int=i)), NOW)) - NOW for i in range(1_000)]

    assert [sum(one // SECOND == second for one in moved) > 50 for second in range(10)] == [True] * 10


@pytest.mark.parametrize(
    ("schedule", "kind", "text"),
    [
        (Schedule(), Kind.NOW, "now"),
        (Schedule(at=NOW), Kind.AT, "once, at 2027-01-31T09:00:00.000Z"),
        (Schedule(every=Duration(90 * SECOND)), Kind.EVERY, "every 90s"),
    ],
)
def test_schedules_are_described(schedule: Schedule, kind: Kind, text: str) -> None:
    assert (schedule.kind, describe_schedule(schedule)) == (kind, text)
    assert schedule.recurring == (kind in (Kind.CRON, Kind.EVERY))


def test_cron_is_described_with_its_zone() -> None:
    text = describe_schedule(Schedule(cron="0 9 * * 1-5", timezone="Europe/Berlin"))

    assert text.endswith("(Europe/Berlin)")
    assert "09:00" in text


def test_an_interval_counts_from_a_whole_millisecond() -> None:
    """What the API prints of its occurrences is what they are, and none is early."""
    schedule = parse_schedule("every 1s", Instant(NOW + 1))

    assert first(schedule, 1) == [NOW + 1_000 + SECOND]
