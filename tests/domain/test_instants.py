"""Instants: read strictly, rounded up, printed one way."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncue.domain.errors import Invalid
from oncue.domain.instants import MILLISECOND, SECOND, Instant, instant, moment, parse_instant, rfc3339

DAY_ONE = parse_instant("2027-01-31T09:00:00Z")


@pytest.mark.parametrize(
    ("text", "later"),
    [
        ("2027-01-31T09:00:00Z", 0),
        ("2027-01-31t09:00:00z", 0),
        ("2027-01-31 09:00:00Z", 0),
        ("2027-01-31T09:00:00.0Z", 0),
        ("2027-01-31T09:00:00+00:00", 0),
        ("2027-01-31T09:00:00-00:00", 0),
        ("2027-01-31T14:30:00+05:30", 0),
        ("2027-01-30T23:00:00-10:00", 0),
        ("2027-02-01T08:59:00+23:59", 0),
        ("2027-01-31T09:00:00.25Z", 250),
        ("2027-01-31T09:00:00.001Z", 1),
        ("2027-01-31T09:00:00.000000001Z", 1),
        ("2027-01-31T09:00:00.0010001Z", 2),
        ("2027-01-31T09:00:00.999999999Z", 1_000),
        ("2027-01-31T08:59:59.9999Z", 0),
    ],
)
def test_an_instant_with_an_offset_is_read_and_rounded_up(text: str, later: int) -> None:
    assert parse_instant(text) == DAY_ONE + later * MILLISECOND


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2027-01-31T09:00:00",  # naive: nine o'clock where?
        "2027-01-31",
        "2027-01-31T09:00Z",
        "2027-W05-7T09:00:00Z",
        "2027-031T09:00:00Z",
        "20270131T090000Z",
        "2027-01-31T24:00:00Z",
        "2027-01-31T23:59:60Z",
        "2027-01-31T09:60:00Z",
        "2027-02-29T09:00:00Z",
        "2027-13-01T09:00:00Z",
        "2027-00-01T09:00:00Z",
        "2027-01-31T09:00:00+24:00",
        "2027-01-31T09:00:00+05:60",
        "2027-01-31T09:00:00+0530",
        "2027-01-31T09:00:00+05",
        "2027-01-31T09:00:00+05:30:15",
        "2027-01-31T09:00:00.Z",
        "2027-01-31T09:00:00,5Z",
        "2027-01-31T09:00:00.0000000001Z",
        "0001-01-01T00:00:00Z",
        "0001-01-01T00:00:00+23:59",
        "0000-01-01T00:00:00Z",
        "1969-12-31T23:59:59Z",
        "2200-01-01T00:00:00Z",
        "9999-12-31T23:59:59-23:59",
        "12027-01-31T09:00:00Z",
        " 2027-01-31T09:00:00Z",
        "2027-01-31T09:00:00Z\n",
        "2027-01-31T09:00:00Z[UTC]",
        "٢٠٢٧-01-31T09:00:00Z",
        "1e9",
        "1900000000",
        "2027-01-31T09:00:00Z" * 10_000,
    ],
)
def test_anything_else_is_refused_by_name(text: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_instant(text, "schedule.at")

    [problem] = refused.value.problems
    assert (problem.path, problem.code) == ("schedule.at", "bad_instant")
    assert len(problem.message) < 200


instants = st.integers(0, 7_258_118_399_999_999).map(Instant)  # 1970 to 2199


@given(instants)
def test_a_datetime_and_back_loses_nothing(at: Instant) -> None:
    assert instant(moment(at)) == at


@given(instants, st.integers(-23 * 60, 23 * 60))
def test_the_offset_of_a_datetime_does_not_matter(at: Instant, minutes: int) -> None:
    elsewhere = moment(at).astimezone(timezone(timedelta(minutes=minutes)))

    assert instant(elsewhere) == at


@given(instants)
def test_what_is_printed_is_read_back_to_the_millisecond(at: Instant) -> None:
    assert parse_instant(rfc3339(at)) == at // MILLISECOND * MILLISECOND


@given(st.datetimes(datetime(1971, 1, 1), datetime(2198, 12, 31), timezones=st.just(UTC)))
def test_what_is_due_is_never_early_and_less_than_a_millisecond_late(when: datetime) -> None:
    late = parse_instant(when.isoformat(timespec="microseconds")) - instant(when)

    assert 0 <= late < MILLISECOND


def test_a_naive_datetime_is_no_instant() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        instant(datetime(2027, 1, 31))


def test_printed_in_utc_with_milliseconds() -> None:
    assert rfc3339(Instant(DAY_ONE + 7 * MILLISECOND + 999)) == "2027-01-31T09:00:00.007Z"
    assert rfc3339(Instant(0)) == "1970-01-01T00:00:00.000Z"
    assert DAY_ONE % SECOND == 0
