"""Times as people write them: with an offset, local to a zone, or counted from now."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncue.domain.cron import DstFold, DstGap
from oncue.domain.errors import Invalid
from oncue.domain.instants import Instant, moment, parse_instant, rfc3339
from oncue.domain.time_input import is_relative, parse_time
from oncue.domain.zones import zone

NOW = Instant(parse_instant("2027-01-31T09:00:00Z") + 1)
BERLIN = zone("Europe/Berlin")


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2027-01-31T09:00:00.0001Z", "2027-01-31T09:00:00.001Z"),
        ("2027-01-31 10:00+01:00", "2027-01-31T09:00:00.000Z"),
        (" 2027-07-31 09:00 ", "2027-07-31T07:00:00.000Z"),
        ("2027-01-31t09:00:30.25", "2027-01-31T08:00:30.250Z"),
        ("now", "2027-01-31T09:00:00.001Z"),
        ("in 10m", "2027-01-31T09:10:00.001Z"),
        ("in  PT1H", "2027-01-31T10:00:00.001Z"),
        ("in 0s", "2027-01-31T09:00:00.001Z"),
        ("10m ago", "2027-01-31T08:50:00.001Z"),
        ("2027-03-28 02:00", "2027-03-28T01:00:00.000Z"),  # the gap, 02:00 to 03:00: right after it
        ("2027-03-28 02:59:59.999", "2027-03-28T01:00:00.000Z"),
        ("2027-03-28 03:00", "2027-03-28T01:00:00.000Z"),
        ("2027-10-31 02:30", "2027-10-31T00:30:00.000Z"),  # comes twice: the first time
        ("2027-10-31 03:00", "2027-10-31T02:00:00.000Z"),
    ],
)
def test_a_time_is_understood_in_its_zone(text: str, at: str) -> None:
    assert rfc3339(parse_time(text, NOW, zone=BERLIN)) == at


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("tomorrow", "bad_instant", '"in 10m" or "10m ago"'),
        ("", "bad_instant", "2027-01-31T09:00:00Z"),
        ("2027-01-31", "bad_instant", "is not a time"),
        ("2027-01-31 24:00", "bad_instant", "2027-01-31T24:00:00Z"),
        ("2027-02-30 09:00", "bad_instant", "not a real instant"),
        ("2027-01-31 09:00 CET", "bad_instant", "is not a time"),
        ("٢٠٢٧-01-31 09:00", "bad_instant", "is not a time"),
        ("in a while", "bad_instant", "is not a time"),
        ("in 10", "bad_duration", "30s"),
        ("in -10m", "bad_duration", "30s"),
        ("in 99999d", "bad_duration", "3660d"),
        ("1month ago", "bad_duration", "30s"),
        ("x" * 5_000, "bad_instant", "is not a time"),
    ],
)
def test_another_text_is_refused_with_an_example(text: str, code: str, said: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_time(text, NOW, "from", zone=BERLIN)
    [problem] = refused.value.problems
    assert (problem.path, problem.code) == ("from", code)
    assert said in problem.message
    assert len(problem.message) < 200


def test_a_local_time_needs_a_zone_and_one_instant() -> None:
    with pytest.raises(Invalid, match="needs a time zone, like Europe/Berlin, or an offset, like 2027-01-31T09:00:00Z"):
        parse_time("2027-01-31 09:00", NOW)
    with pytest.raises(Invalid, match="2027-03-28 02:30 in Europe/Berlin does not exist"):
        parse_time("2027-03-28 02:30", NOW, zone=BERLIN, gap=DstGap.SKIP)
    with pytest.raises(Invalid, match="2027-10-31 02:30 in Europe/Berlin comes twice"):
        parse_time("2027-10-31 02:30", NOW, zone=BERLIN, fold=DstFold.BOTH)
    assert rfc3339(parse_time("2027-03-28 03:00", NOW, zone=BERLIN, gap=DstGap.SKIP)) == "2027-03-28T01:00:00.000Z"


@given(
    st.datetimes(datetime(1971, 1, 1), datetime(2198, 1, 1), timezones=st.just(UTC)),
    st.sampled_from(["Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca"]),
)
def test_a_local_time_is_the_first_instant_that_shows_it(at: datetime, name: str) -> None:
    """Whatever clocks show at an instant, parsing that gives the instant, or in a fold the hour before."""
    here, at = zone(name), at.replace(microsecond=0)
    shown = at.astimezone(here)
    found = moment(parse_time(f"{shown:%Y-%m-%d %H:%M:%S}", NOW, zone=here))
    assert found <= at
    assert found.astimezone(here).replace(tzinfo=None) == shown.replace(tzinfo=None)
    assert found == at or (shown.fold == 1 and at - found < timedelta(days=2))


@pytest.mark.parametrize(
    ("text", "relative"), [("in 10m", True), ("10m ago", True), ("now", True), ("2027-01-31 09:00", False)]
)
def test_a_text_that_counts_from_now_is_known(text: str, relative: bool) -> None:
    assert is_relative(text) is relative
