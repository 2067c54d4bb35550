"""How the last runs of jobs ended, as sums and as strips."""

import pytest
from tests.api.conftest import Desk

from oncue.api import counts
from oncue.domain import attempt
from oncue.domain.instants import MILLISECOND, MINUTE


async def three_ends(desk: Desk) -> str:
    """A job with two successes of 100 and 300 ms, each 10 ms late, then a dead run."""
    store = desk.store
    job_id = str((await desk.create(schedule="every 1m", max_retries=0))["job_id"])
    worker = await store.worker()
    for took in (100, 300, None):
        await store.plan_all(ahead=MINUTE)
        store.advance(MINUTE - store.now % MINUTE + 10 * MILLISECOND)
        [run] = await store.claim_due(worker)
        started = store.now
        store.advance((took or 0) * MILLISECOND)
        if took is None:
            await store.fail(worker, run, retry=False)
        else:
            await store.settle(worker, attempt.succeeded(run, started, store.now, None))
    return job_id


async def test_a_job_has_sums_over_its_last_runs(desk: Desk) -> None:
    job_id = await three_ends(desk)
    runs = (await desk.get(f"/runs?job_id={job_id}&status=dead,succeeded"))["runs"]

    found = await desk.get(f"/jobs/{job_id}/stats")

    assert found == {
        "job_id": job_id,
        "runs": 3,
        "since": runs[-1]["end_time"],
        "outcomes": {"succeeded": 2, "dead": 1, "cancelled": 0, "expired": 0},
        "success_rate": 0.6667,
        "duration_ms": {"p50": 100, "p95": 300, "max": 300},
        "lag_ms": {"p50": 10, "p95": 10, "max": 10},
    }
    assert (await desk.get(f"/jobs/{job_id}/stats?last=1"))["outcomes"]["dead"] == 1
    never = await desk.create(schedule="every 1h")
    assert (await desk.get(f"/jobs/{never['job_id']}/stats"))["success_rate"] is None
    for last in ("0", "1001", "x", "-1"):
        answer = await desk.call("GET", f"/v1/jobs/{job_id}/stats?last={last}")
        assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, "last")


async def test_listed_jobs_have_their_last_ends_if_asked_for(desk: Desk) -> None:
    job_id, never = await three_ends(desk), (await desk.create(schedule="0 0 1 1 *"))["job_id"]
    runs = (await desk.get(f"/runs?job_id={job_id}&status=dead,succeeded"))["runs"]

    jobs = {job["job_id"]: job["recent"] for job in (await desk.get("/jobs?recent=2"))["jobs"]}

    names = ("run_id", "status", "scheduled_for", "start_time", "end_time", "duration_ms", "lag_ms")
    assert jobs == {job_id: [{name: run[name] for name in names} for run in runs[:2]], never: []}
    assert {job["recent"] for job in (await desk.get("/jobs"))["jobs"]} == {None}
    assert (await desk.call("GET", "/v1/jobs?recent=51")).status_code == 422


async def test_counts_say_when_there_may_be_more(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        await desk.create(schedule="every 1h")
    await desk.dead()

    found = await desk.get("/counts")
    monkeypatch.setattr(counts, "MOST", 2)
    capped = await desk.get("/counts")

    assert found["jobs"]["active"] == {"n": 3, "at_least": False}
    assert (found["runs"]["dead"], found["dead_letters"]) == ({"n": 1, "at_least": False},) * 2
    assert capped["jobs"]["active"] == {"n": 2, "at_least": True}
    assert capped["dead_letters"] == {"n": 1, "at_least": False}
    assert (await desk.get("/counts", key="bob"))["jobs"]["active"]["n"] == 0
    assert (await desk.get("/counts", key="root"))["jobs"]["active"]["n"] == 2
