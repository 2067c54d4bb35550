"""Durations: a number and a unit, or ISO 8601 without months and years."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncue.domain.errors import Invalid
from oncue.domain.fields import duration
from oncue.domain.instants import (
    DAY,
    HOUR,
    LONGEST,
    MICROSECOND,
    MILLISECOND,
    MINUTE,
    SECOND,
    Duration,
    parse_duration,
    show_duration,
)


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("250ms", 250 * MILLISECOND),
        ("30s", 30 * SECOND),
        ("5m", 5 * MINUTE),
        ("2h", 2 * HOUR),
        ("7d", 7 * DAY),
        ("1w", 7 * DAY),
        ("1.5h", 90 * MINUTE),
        ("0.25s", 250 * MILLISECOND),
        ("007s", 7 * SECOND),
        ("PT1H", HOUR),
        ("PT1H30M", 90 * MINUTE),
        ("P1DT2H3M4.5S", DAY + 2 * HOUR + 3 * MINUTE + 4_500 * MILLISECOND),
        ("P1D", DAY),
        ("P2W", 14 * DAY),
        ("PT0.000001S", MICROSECOND),
        ("PT90M", 90 * MINUTE),
        ("3660d", LONGEST),
    ],
)
def test_what_people_and_machines_write_is_read(text: str, length: int) -> None:
    assert parse_duration(text, least=MICROSECOND) == length


@pytest.mark.parametrize(
    "text",
    [
        *("", "5", "s", "5 s", "5S", "-5s", "+5s", "5s ", "5s\n", "1e3s", ".5s", "5.s", "1,5s", "5us", "5y", "5mo"),
        *("1h30m", "P", "PT", "P1", "P1M", "P1Y", "P1D1W", "P1W2D", "PT1.5H", "PT1S1M", "P-1D", "pt1h", "P1DT"),
        *("٥s", "infinity", "9" * 5_000 + "s", "P" + "9" * 5_000 + "D"),
    ],
)
def test_what_is_not_a_duration_is_refused_by_name(text: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_duration(text, "timeout")

    [problem] = refused.value.problems
    assert (problem.path, problem.code) == ("timeout", "bad_duration")


@pytest.mark.parametrize("number", [600, "600", 1.5])
def test_a_number_is_shown_with_its_unit(number: float | str) -> None:
    with pytest.raises(Invalid, match=f'; {number} seconds is "{number}s"$'):
        duration()(number, "timeout")


@pytest.mark.parametrize("text", ["0s", "0ms", "999ms", "PT0S", "3661d", "999999999999w", "P999999D"])
def test_what_is_too_short_or_too_long_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="must be between 1s and 3660d"):
        parse_duration(text, least=SECOND)


def test_zero_may_be_allowed() -> None:
    assert parse_duration("0s", least=Duration(0)) == 0


@pytest.mark.parametrize(
    ("length", "text"),
    [(0, "0s"), (90 * SECOND, "90s"), (HOUR, "1h"), (25 * HOUR, "25h"), (14 * DAY, "14d"), (1_500, "1.5ms")],
)
def test_a_length_is_shown_as_short_as_exact(length: int, text: str) -> None:
    assert show_duration(Duration(length)) == text


@given(st.integers(1, LONGEST).map(Duration))
def test_what_is_shown_is_read_back_exactly(length: Duration) -> None:
    assert parse_duration(show_duration(length), least=MICROSECOND) == length
