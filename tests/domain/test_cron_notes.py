"""What people and the ledger are told about days on which the clock is changed."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import pytest
from tests.domain.cron_oracle import at

from oncue.domain.cron import DstFold, DstGap, next_after, parse_cron
from oncue.domain.cron.text import note_on, skipped_between, swallowed
from oncue.domain.instants import NEVER, Instant

BERLIN, APIA = ZoneInfo("Europe/Berlin"), ZoneInfo("Pacific/Apia")
GAP = at("2027-03-28 01:00")
JUMP = "(clocks go forward from 02:00 to 03:00)"


@pytest.mark.parametrize(
    ("text", "note", "further"),
    [
        ("30 2 * * *", f"02:30 does not exist on 2027-03-28 {JUMP}; runs right after the gap", 0),
        ("15 30 2 * * *", f"02:30:15 does not exist on 2027-03-28 {JUMP}; runs right after the gap", 0),
        ("0,30 2 * * *", f"02:00 and 1 more do not exist on 2027-03-28 {JUMP}; runs once, right after the gap", 1),
        ("* 30 2 * * *", f"02:30 and 59 more do not exist on 2027-03-28 {JUMP}; runs once, right after the gap", 59),
        ("0 2,3 * * *", f"02:00 does not exist on 2027-03-28 {JUMP}; runs once, together with 03:00", 1),
        ("0 3 * * *", None, 0),  # on time
        ("*/30 * * * *", None, 0),  # a wildcard job misses nothing
    ],
)
def test_a_run_after_the_gap_says_what_it_stands_for(text: str, note: str | None, further: int) -> None:
    cron = parse_cron(text)
    assert next_after(cron, BERLIN, Instant(GAP - 1)) == GAP
    assert note_on(cron, BERLIN, GAP) == note
    assert swallowed(cron, BERLIN, GAP) == further


def test_ordinary_days_have_no_note() -> None:
    cron = parse_cron("30 2 * * *")
    for day in ("2027-03-27 01:30", "2027-03-29 00:30", "2026-10-24 00:30", "2026-10-26 01:30"):
        assert note_on(cron, BERLIN, at(day)) is None
        assert swallowed(cron, BERLIN, at(day)) == 0


def test_the_two_passes_are_told_apart() -> None:
    for text in ("30 2 * * *", "30 * * * *"):
        cron = parse_cron(text)
        first = next_after(cron, BERLIN, at("2026-10-25 00:00"), fold=DstFold.BOTH)
        second = next_after(cron, BERLIN, first or Instant(0), fold=DstFold.BOTH)
        assert (first, second) == (at("2026-10-25 00:30"), at("2026-10-25 01:30"))
        assert note_on(cron, BERLIN, at("2026-10-25 00:30")) == "first of the two 02:30s"
        assert note_on(cron, BERLIN, at("2026-10-25 01:30")) == "second of the two 02:30s"
        assert note_on(cron, BERLIN, at("2026-10-25 02:30")) is None


def test_the_second_pass_begins_with_no_gap() -> None:
    cron, second = parse_cron("0 2 * * *"), at("2026-10-25 01:00")
    assert next_after(cron, BERLIN, at("2026-10-25 00:00"), fold=DstFold.BOTH) == second
    assert note_on(cron, BERLIN, second) == "second of the two 02:00s"
    assert swallowed(cron, BERLIN, second) == 0


def test_a_whole_day_that_does_not_exist() -> None:
    cron, gap = parse_cron("0 9 * * *"), at("2011-12-30 10:00")
    assert note_on(cron, APIA, gap) == (
        "09:00 does not exist on 2011-12-30 (clocks go forward from 00:00 to 2011-12-31 00:00); "
        "runs right after the gap"
    )
    every_second = parse_cron("0-59 0-59 0-23 * * *")
    assert swallowed(every_second, APIA, gap) == 86_400  # the day, and the midnight after it is the run itself
    assert note_on(parse_cron("0 9 31 12 *"), APIA, gap) is None


def test_skip_leaves_a_trace() -> None:
    cron = parse_cron("0,30 2 * * *")
    (lost,) = skipped_between(cron, BERLIN, at("2027-03-27 12:00"), at("2027-03-29 00:00"))
    assert (lost.at, lost.count) == (GAP, 2)
    assert lost.note == f"02:00 and 1 more do not exist on 2027-03-28 {JUMP}; skipped"
    assert note_on(cron, BERLIN, GAP, DstGap.SKIP) is None
    assert swallowed(parse_cron("0 2,3 * * *"), BERLIN, GAP, DstGap.SKIP) == 0


def test_what_is_skipped_is_counted_once_whatever_the_cuts() -> None:
    """The planner asks for (previous, this], again and again: a gap belongs to exactly one of them."""
    cron = parse_cron("30 2 * * *")
    assert skipped_between(cron, BERLIN, Instant(GAP - 1), GAP)
    assert not skipped_between(cron, BERLIN, GAP, at("2027-06-01 00:00"))
    assert not skipped_between(cron, BERLIN, at("2027-03-01 00:00"), Instant(GAP - 1))
    assert len(skipped_between(cron, BERLIN, at("2021-01-01 00:00"), at("2031-01-01 00:00"))) == 10
    assert len(skipped_between(cron, BERLIN, Instant(-NEVER), NEVER)) > 200  # and it ends
    assert not skipped_between(parse_cron("30 2 * * *", years=(2026,)), BERLIN, GAP, NEVER)
    assert not skipped_between(parse_cron("*/30 * * * *"), BERLIN, at("2021-01-01 00:00"), at("2031-01-01 00:00"))
    assert not skipped_between(parse_cron("30 5 * * *"), BERLIN, at("2021-01-01 00:00"), at("2031-01-01 00:00"))
