"""What became of every occurrence, over REST: ledger and runs as one list."""

from typing import Any
from uuid import uuid4

import msgspec
import pytest
from tests.api.conftest import Desk
from tests.test_docs import ROOT, table

from oncue.api import occurrence_heat
from oncue.domain.ids import JobId
from oncue.domain.instants import HOUR, MILLISECOND, MINUTE, SECOND, Duration, Instant, parse_instant, rfc3339
from oncue.domain.ledger import Entry
from oncue.domain.ledger import Outcome as LedgerOutcome
from oncue.domain.planning import GRACE
from oncue.domain.run import RunView, State
from oncue.engines.port import Page, RunQuery

API = ROOT / "docs" / "api.md"


async def occurrences(desk: Desk, job: Any, limit: int = 100) -> list[Any]:
    """All of them, page by page."""
    found: list[Any] = []
    token = ""
    for _ in range(200):
        page = await desk.get(f"/jobs/{job['job_id']}/occurrences?limit={limit}{token}")
        assert len(page["occurrences"]) <= limit
        found += page["occurrences"]
        if page["next_page_token"] is None:
            return found
        token = f"&page_token={page['next_page_token']}"
    raise AssertionError("a listing without an end")


async def run_due(desk: Desk) -> None:
    worker = await desk.store.worker()
    while runs := await desk.store.claim_due(worker):
        await desk.store.succeed(worker, *runs)


async def test_every_occurrence_is_told_with_its_fate(desk: Desk) -> None:
    store = desk.store
    start = store.now
    job = await desk.create(schedule="every 1m", catch_up="skip")
    await store.plan(ahead=2 * MINUTE)
    store.advance(MINUTE + GRACE)
    await run_due(desk)  # as late as is still in time
    store.advance(MINUTE + MILLISECOND)
    await run_due(desk)  # and a millisecond more
    store.advance(3 * MINUTE)
    await store.plan_all(ahead=2 * MINUTE)

    found = await occurrences(desk, job)

    minutes = {rfc3339(Instant(start + n * MINUTE)): n for n in range(10)}
    fields = [field for field, _ in table(API, "field of an occurrence", "meaning")]
    assert all(list(one) == fields for one in found)
    assert [(minutes[one["scheduled_for"]], one["outcome"], one["lag_ms"], one["count"]) for one in found] == [
        (7, "waiting", None, 1),
        (6, "waiting", None, 1),
        (3, "missed", None, 3),
        (2, "late", 2_001, 1),
        (1, "started", 2_000, 1),
    ]
    missed = found[2]
    assert (minutes[missed["until"]], missed["reason"], missed["run_id"]) == (5, "catch_up is skip", None)
    assert [one["until"] for one in found if one is not missed] == [None] * 4
    assert None not in [one["run_id"] for one in found if one is not missed]


async def test_what_was_caught_up_with_says_so(desk: Desk) -> None:
    job = await desk.create(schedule="every 1m")
    desk.store.advance(5 * MINUTE + 10 * SECOND)
    await desk.store.plan_all()
    await run_due(desk)

    started, coalesced = await occurrences(desk, job)

    assert (started["outcome"], started["reason"], started["lag_ms"]) == ("late", "catch_up", 10_000)
    assert (coalesced["outcome"], coalesced["count"], coalesced["run_id"]) == ("coalesced", 4, started["run_id"])


@pytest.mark.parametrize(
    ("end", "outcome", "reason"),
    [(State.CANCELLED, "skipped", "cancelled"), (State.EXPIRED, "missed", "expired"), (State.DEAD, "started", None)],
)
async def test_a_run_that_never_started_counts_as_what_it_came_to(
    desk: Desk, end: State, outcome: str, reason: str | None
) -> None:
    job = await desk.create(start_within="1m")
    await desk.store.end((await desk.store.claimable())[0], end)

    [found] = await occurrences(desk, job)

    assert (found["outcome"], found["reason"], found["run_id"]) == (outcome, reason, job["job_id"])


async def test_a_run_between_two_attempts_has_started(desk: Desk) -> None:
    job = await desk.create()
    worker = await desk.store.worker()
    [run] = await desk.store.claim_due(worker)
    assert (await occurrences(desk, job))[0]["outcome"] == "started"
    await desk.store.fail(worker, run)

    assert [(one["outcome"], one["lag_ms"]) for one in await occurrences(desk, job)] == [("started", 0)]


@pytest.mark.parametrize("limit", [2, 100])
async def test_what_has_not_ended_comes_first(desk: Desk, limit: int) -> None:
    """A run that takes long, or is held, is not buried under what came later."""
    store = desk.store
    job = await desk.create(schedule="every 1m", overlap="allow")
    await store.plan(ahead=3 * MINUTE)
    store.advance(MINUTE)
    await store.claim_due(await store.worker())
    store.advance(MINUTE)
    await run_due(desk)

    found = await occurrences(desk, job, limit)

    times = [one["scheduled_for"] for one in found]
    assert [one["outcome"] for one in found] == ["waiting", "started", "started"]
    assert times[0] > times[2] > times[1]


async def test_runs_by_hand_are_no_occurrences(desk: Desk) -> None:
    job = await desk.create(schedule="every 1h")
    await desk.call("POST", f"/v1/jobs/{job['job_id']}/runNow")

    assert await occurrences(desk, job) == []


async def a_life(desk: Desk) -> Any:
    """A job with runs and stretches of the ledger in turn, a run by hand among them, and one that has not ended."""
    store = desk.store
    job = await desk.create(schedule="every 1m", catch_up="skip")
    for step in range(6):
        store.advance((1 + step % 3) * MINUTE)
        await store.plan_all(ahead=MINUTE)
        await run_due(desk)
        if step == 3:
            await desk.call("POST", f"/v1/jobs/{job['job_id']}/runNow")
            await run_due(desk)
    store.advance(30 * SECOND)
    return job


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
async def test_pages_of_any_size_have_everything_once_and_in_order(desk: Desk, limit: int) -> None:
    job = await a_life(desk)

    found = await occurrences(desk, job, limit)

    assert found == await occurrences(desk, job)
    assert {one["outcome"] for one in found} >= {"waiting", "started", "missed"}
    times = [one["until"] or one["scheduled_for"] for one in found]
    assert times == sorted(times, reverse=True)
    assert sum(one["count"] for one in found) == 12 + 1  # every minute until now, and the one planned ahead
    assert [one for one in found if (one["until"] is not None) != (one["count"] > 1)] == []


async def test_a_short_page_of_runs_puts_nothing_out_of_order(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine may give fewer than there are, and say that there is more."""
    job = await a_life(desk)
    expected = await occurrences(desk, job)
    lists = desk.store.engine.lists
    real = lists.runs

    async def runs(query: RunQuery) -> Page[RunView]:
        return await real(msgspec.structs.replace(query, limit=min(query.limit, 2)))

    monkeypatch.setattr(lists, "runs", runs)

    assert await occurrences(desk, job) == expected


async def test_a_page_token_of_another_job_is_refused(desk: Desk) -> None:
    jobs = [await desk.create(schedule="every 1m") for _ in range(2)]
    await desk.store.plan(ahead=3 * MINUTE)
    page = await desk.get(f"/jobs/{jobs[0]['job_id']}/occurrences?limit=1")
    token = page["next_page_token"]

    for path in (
        f"{jobs[1]['job_id']}/occurrences?page_token={token}",
        f"{jobs[0]['job_id']}/occurrences?page_token=x",
    ):
        assert (await desk.call("GET", f"/v1/jobs/{path}")).status_code == 422


async def test_the_occurrences_of_another_users_job_are_not_told(desk: Desk) -> None:
    job = await desk.create(schedule="every 1h")
    desk.store.advance(HOUR)
    await desk.store.plan_all()

    assert (await desk.call("GET", f"/v1/jobs/{job['job_id']}/occurrences", key="bob")).status_code == 404
    assert len((await desk.get(f"/jobs/{job['job_id']}/occurrences", key="root"))["occurrences"]) == 1


def rfc_window(start: int, end: int) -> str:
    return f"start_time={rfc3339(Instant(start))}&end_time={rfc3339(Instant(end))}"


@pytest.mark.parametrize("limit", [1, 2, 100])
async def test_a_window_has_what_was_scheduled_for_then(desk: Desk, limit: int) -> None:
    job = await a_life(desk)
    every = await occurrences(desk, job)
    instants = sorted(parse_instant(one["scheduled_for"]) for one in every)
    start, end = instants[2], instants[-2]

    found, token = list[Any](), ""
    while token is not None:
        path = f"/jobs/{job['job_id']}/occurrences?limit={limit}&{rfc_window(start, end)}{token}"
        page = await desk.get(path)
        found += page["occurrences"]
        token = page["next_page_token"] and f"&page_token={page['next_page_token']}"

    assert found == [
        one
        for one in every
        if parse_instant(one["scheduled_for"]) < end and parse_instant(one["until"] or one["scheduled_for"]) >= start
    ]
    assert 0 < len(found) < len(every)


async def test_a_window_is_checked_and_other_users_jobs_look_missing(desk: Desk) -> None:
    job = await desk.create(schedule="every 1m")
    now = desk.store.now

    refused = await desk.call("GET", f"/v1/jobs/{job['job_id']}/occurrences?{rfc_window(now, now)}")
    assert (refused.status_code, refused.json()["errors"][0]["path"]) == (422, "end_time")
    for query, path in (("from=x", "from"), ("step=1ms", "step"), (f"to={rfc3339(now)}&from={rfc3339(now)}", "to")):
        refused = await desk.call("GET", f"/v1/jobs/{job['job_id']}/occurrences/heat?{query}")
        assert (refused.status_code, refused.json()["errors"][0]["path"]) == (422, path)
    for call in ("occurrences", "occurrences/heat"):
        assert (await desk.call("GET", f"/v1/jobs/{job['job_id']}/{call}", key="bob")).status_code == 404
        assert (await desk.call("GET", f"/v1/jobs/{job['job_id']}/{call}", key="viewer")).status_code == 200


async def test_heat_counts_outcomes_in_steps(desk: Desk) -> None:
    job = await a_life(desk)
    every = await occurrences(desk, job)

    whole = await desk.get(f"/jobs/{job['job_id']}/occurrences/heat?step=1d&to={rfc3339(desk.store.at(HOUR))}")
    by_minute = await desk.get(f"/jobs/{job['job_id']}/occurrences/heat?step=1m&to={rfc3339(desk.store.at(HOUR))}")

    sums = {name: sum(one["count"] for one in every if one["outcome"] == name) for name in occurrence_heat.OUTCOMES}
    assert whole["looked_back_to"] is by_minute["looked_back_to"] is None
    for found in (whole, by_minute):
        assert {name: sum(one[name] for one in found["buckets"]) for name in sums} == sums
    assert len(whole["buckets"]) == 1
    assert [sum(one[name] for name in sums) for one in by_minute["buckets"]] == [1] * 13  # an occurrence a minute
    past = await desk.get(f"/jobs/{job['job_id']}/occurrences/heat")
    assert sum(one["waiting"] for one in past["buckets"]) == 0  # which is to come


async def test_heat_says_how_far_it_looked(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """By when runs ended: one that took long may have been scheduled for much earlier."""
    job = await a_life(desk)
    monkeypatch.setattr(occurrence_heat, "MOST_LOOKED_AT", 4)
    monkeypatch.setattr(occurrence_heat, "AT_ONCE", 2)
    page = await desk.get(f"/jobs/{job['job_id']}/runs?limit=4")
    query = f"step=1m&to={rfc3339(desk.store.at(HOUR))}"

    found = await desk.get(f"/jobs/{job['job_id']}/occurrences/heat?{query}")
    recent = await desk.get(f"/jobs/{job['job_id']}/occurrences/heat?{query}&from={rfc3339(desk.store.at(-SECOND))}")

    assert found["looked_back_to"] == page["runs"][-1]["end_time"]
    assert recent["looked_back_to"] is None


@pytest.mark.parametrize(
    ("first", "last", "n", "window", "expected"),
    [
        (0, 3, 4, (0, 10), {0: 2, 2: 2}),
        (0, 9, 4, (0, 10), {0: 1, 2: 1, 6: 1, 8: 1}),
        (0, 3, 4, (1, 3), {0: 1, 2: 1}),
        (0, 100, 101, (98, 200), {98: 2, 100: 1}),
        (5, 5, 3, (0, 10), {4: 3}),
        (0, 3, 4, (4, 9), {}),
    ],
)
def test_a_time_range_is_spread_over_its_steps(
    first: int, last: int, n: int, window: tuple[int, int], expected: dict[int, int]
) -> None:
    entry = Entry(JobId(uuid4()), Instant(first), Instant(last), n, LedgerOutcome.MISSED, "")
    counts: occurrence_heat.Counts = {}

    occurrence_heat._spread(entry, Instant(window[0]), Instant(window[1]), Duration(2), counts)

    assert {at: tally["missed"] for at, tally in counts.items()} == expected
