"""When a schedule fires, asked for over REST."""

from typing import Any

import pytest
from tests.api.conftest import Desk

from oncue.domain.instants import MINUTE, rfc3339

IN_BERLIN = {"cron": "30 2 * * *", "timezone": "Europe/Berlin"}
BEFORE_THE_GAP = "2027-03-27T12:00:00Z"
GONE = "02:30 does not exist on 2027-03-28 (clocks go forward from 02:00 to 03:00)"


async def preview(desk: Desk, schedule: Any, **how: Any) -> Any:
    answer = await desk.call("POST", "/v1/schedules/preview", {"schedule": schedule, **how})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_what_comes_next_is_shown_and_nothing_is_stored(desk: Desk) -> None:
    shown = await preview(desk, IN_BERLIN, count=2, after="2027-01-01T00:00:00+01:00")

    assert shown == {
        "description": "at 02:30 every day (Europe/Berlin)",
        "occurrences": [
            {"at": "2027-01-01T01:30:00.000Z", "local": "2027-01-01T02:30:00.000+01:00", "note": None},
            {"at": "2027-01-02T01:30:00.000Z", "local": "2027-01-02T02:30:00.000+01:00", "note": None},
        ],
        "skipped": [],
    }
    assert await desk.nothing_stored()


async def test_a_time_that_daylight_saving_jumps_over_is_noted(desk: Desk) -> None:
    [shifted] = (await preview(desk, IN_BERLIN, count=1, after=BEFORE_THE_GAP))["occurrences"]
    assert (shifted["at"], shifted["note"]) == ("2027-03-28T01:00:00.000Z", f"{GONE}; runs right after the gap")

    skipping = await preview(desk, {**IN_BERLIN, "dst_gap": "skip"}, count=1, after=BEFORE_THE_GAP)
    assert [one["at"] for one in skipping["occurrences"]] == ["2027-03-29T00:30:00.000Z"]
    assert skipping["skipped"] == [f"{GONE}; skipped"]


async def test_ten_from_now_on_unless_told_otherwise(desk: Desk) -> None:
    """As a job that was made now would run."""
    expected = [rfc3339(desk.store.at(i * MINUTE)) for i in range(1, 1_001)]

    usual = await preview(desk, "every 1m", after=None)
    many = await preview(desk, "every 1m", count=1_000)

    assert [one["at"] for one in usual["occurrences"]] == expected[:10]
    assert [one["at"] for one in many["occurrences"]] == expected


async def test_no_more_are_shown_than_would_run(desk: Desk) -> None:
    assert len((await preview(desk, {"every": "1m", "max_runs": 3}))["occurrences"]) == 3
    assert len((await preview(desk, {"every": "1m", "end_at": rfc3339(desk.store.at(2 * MINUTE))}))["occurrences"]) == 2
    assert len((await preview(desk, "now"))["occurrences"]) == 1


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ({}, ["schedule"]),
        ({"schedule": None}, ["schedule"]),
        ({"schedule": "61 * * * *"}, ["schedule.cron"]),
        ({"schedule": {"cron": "0 9 * * *", "timezone": "Europe/Berlim"}}, ["schedule.timezone"]),
        ({"schedule": {"cron": "0 9 * * *", "zone": "UTC"}}, ["schedule.zone"]),
        ({"schedule": "now", "count": 0}, ["count"]),
        ({"schedule": "now", "count": 1_001}, ["count"]),
        ({"schedule": "now", "count": True}, ["count"]),
        ({"schedule": "now", "count": None}, ["count"]),
        ({"schedule": "now", "after": "tomorrow"}, ["after"]),
        ({"schedule": "now", "after": 5}, ["after"]),
        ({"schedule": "now", "before": BEFORE_THE_GAP}, ["before"]),
        ({"schedule": 5, "count": "5", "after": "2027-01-01T00:00:00"}, ["schedule", "count", "after"]),
    ],
)
async def test_what_is_wrong_is_named(desk: Desk, body: Any, paths: list[str]) -> None:
    answer = await desk.call("POST", "/v1/schedules/preview", body)

    assert (answer.status_code, [error["path"] for error in answer.json()["errors"]]) == (422, paths)
