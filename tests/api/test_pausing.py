"""Pausing and resuming a job over REST."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.api.conftest import Desk, etag_of

from oncue.domain.ids import JobId
from oncue.domain.instants import HOUR, MINUTE, SECOND, rfc3339
from oncue.domain.run import State
from oncue.engines.port import Hint, Topic
from oncue.services.finishing import POLL_INTERVAL, Finishing
from oncue_conformance.cancelling import cut_off
from oncue_conformance.store import Store


async def act(desk: Desk, what: str, job: Any, body: Any = None, *, key: str = "ada") -> Any:
    answer = await desk.call("POST", f"/v1/jobs/{job['job_id']}/{what}", body, key=key)
    assert answer.status_code == 200, answer.text
    assert answer.headers["ETag"] == etag_of(job)
    return answer.json()


async def test_a_paused_job_starts_nothing_until_it_is_resumed(desk: Desk) -> None:
    store = desk.store
    job = await desk.create(schedule="every 1m")
    await store.plan(ahead=90 * SECOND)

    paused = await act(desk, "pause", job)
    assert (paused["status"], paused["next_run_at"]) == ("paused", None)
    store.advance(10 * MINUTE)
    await store.plan_all()
    assert await store.claimable() == []

    resumed = await act(desk, "resume", job)
    assert (resumed["status"], resumed["next_run_at"]) == ("active", rfc3339(store.at(MINUTE)))
    assert await desk.get(f"/jobs/{job['job_id']}") == resumed
    store.advance(MINUTE)
    await store.plan_all()
    assert len(await store.claimable()) == 1


async def test_pausing_again_or_resuming_what_is_not_paused_changes_nothing(desk: Desk) -> None:
    store = desk.store
    job = await desk.create(schedule="every 1m")
    before = await act(desk, "resume", job, {"missed": "all"})
    assert before == job
    store.advance(SECOND)
    paused = await act(desk, "pause", job)
    run_now = await desk.call("POST", f"/v1/jobs/{job['job_id']}/runNow")
    store.advance(SECOND)

    assert await act(desk, "pause", job) == paused
    assert [str(run_id) for run_id in await store.claimable()] == [run_now.json()["run_id"]]  # asked for by hand


@pytest.mark.parametrize(
    ("body", "runs"),
    [
        (None, []),
        ({}, []),
        ({"missed": "skip"}, []),
        ({"missed": "last"}, [3 * MINUTE]),
        ({"missed": "all"}, [MINUTE, 2 * MINUTE, 3 * MINUTE]),
    ],
)
async def test_what_was_missed_is_made_up_for_as_the_resume_says(desk: Desk, body: Any, runs: list[int]) -> None:
    store = desk.store
    start = store.now
    job = await desk.create(schedule="every 1m", overlap="allow")
    await act(desk, "pause", job)
    store.advance(200 * SECOND)

    await act(desk, "resume", job, body)

    found = (await desk.get(f"/jobs/{job['job_id']}/runs"))["runs"]
    assert sorted(run["scheduled_for"] for run in found) == [rfc3339(start + at) for at in runs]
    skipped = [
        one["count"]
        for one in (await desk.get(f"/jobs/{job['job_id']}/occurrences"))["occurrences"]
        if (one["outcome"], one["reason"]) == ("skipped", "paused")
    ]
    assert sum(skipped) == 3 - len(runs)


async def test_a_one_shot_is_held_and_let_go(desk: Desk) -> None:
    store = desk.store
    job = await desk.create(schedule=rfc3339(store.at(MINUTE)))
    assert (await act(desk, "pause", job))["status"] == "paused"
    store.advance(HOUR)
    assert await store.claimable() == []

    assert (await act(desk, "resume", job))["status"] == "active"
    assert [str(run_id) for run_id in await store.claimable()] == [job["job_id"]]


async def test_what_has_ended_or_begun_cannot_be_paused(desk: Desk) -> None:
    store = desk.store
    ended, begun, cancelled = [await desk.create() for _ in range(3)]
    await desk.call("DELETE", f"/v1/jobs/{cancelled['job_id']}")
    for run_id in await store.claimable():
        if str(run_id) == ended["job_id"]:
            await store.end(run_id, State.SUCCEEDED)
    await store.claim_due(await store.worker())

    for job, acts in ((ended, "pause resume"), (cancelled, "pause resume"), (begun, "pause")):
        for what in acts.split():
            answer = await desk.call("POST", f"/v1/jobs/{job['job_id']}/{what}")
            assert (answer.status_code, answer.headers["Content-Type"]) == (409, "application/problem+json")


@pytest.mark.parametrize("what", ["pause", "resume"])
async def test_only_who_may_change_a_job_pauses_and_resumes_it(desk: Desk, what: str) -> None:
    job = await desk.create(schedule="every 1m")
    if what == "resume":
        await act(desk, "pause", job)
    before = await desk.get(f"/jobs/{job['job_id']}")

    for thing, key, status in ((job["job_id"], "bob", 404), (uuid4(), "ada", 404), (job["job_id"], "viewer", 403)):
        assert (await desk.call("POST", f"/v1/jobs/{thing}/{what}", key=key)).status_code == status
    assert await desk.get(f"/jobs/{job['job_id']}") == before
    assert (await act(desk, what, job, key="root"))["user_id"] == "ada"


@pytest.mark.parametrize(
    ("body", "status", "path"),
    [
        ({"missed": "some"}, 422, "missed"),
        ({"missed": None}, 422, "missed"),
        ({"missed": "skip", "when": "now"}, 422, "when"),
        ([], 422, ""),
        (b"{", 400, None),
    ],
)
async def test_a_resume_that_cannot_be_understood_changes_nothing(
    desk: Desk, body: Any, status: int, path: str | None
) -> None:
    job = await desk.create(schedule="every 1m")
    await act(desk, "pause", job)

    answer = await desk.call("POST", f"/v1/jobs/{job['job_id']}/resume", body)

    named = [] if path is None else [path]
    assert (answer.status_code, [error["path"] for error in answer.json()["errors"]]) == (status, named)
    assert (await desk.get(f"/jobs/{job['job_id']}"))["status"] == "paused"


async def test_a_body_of_another_type_is_refused(desk: Desk) -> None:
    job = await desk.create(schedule="every 1m")

    answer = await desk.call("POST", f"/v1/jobs/{job['job_id']}/resume", b"{}", headers={"Content-Type": "text/plain"})

    assert answer.status_code == 415


async def test_a_job_that_moves_on_meanwhile_is_decided_on_anew(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planning between the look and the write makes the first write void."""
    store = desk.store
    job = await desk.create(schedule="every 1m")
    read, reads = store.engine.jobs.read, 0

    async def read_then_plan(*args: Any) -> Any:
        nonlocal reads
        found, reads = await read(*args), reads + 1
        if reads == 1:
            await store.plan(ahead=3 * MINUTE)
        return found

    monkeypatch.setattr(store.engine.jobs, "read", read_then_plan)

    assert (await act(desk, "pause", job))["status"] == "paused"
    store.advance(HOUR)
    assert await store.claimable() == []


async def test_hints_follow_a_pause_and_a_resume(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waited behind what is held now may start, and after a resume what was held, and schedulers have work."""
    job = await desk.create(schedule="every 1m")
    sent: list[tuple[Hint, str]] = []

    async def send(hints: list[Hint]) -> None:
        status = (await desk.store.jobs.read(None, job_id)).job.status
        sent.extend((hint, status) for hint in hints)

    [row] = await desk.jobs()
    job_id = row.job.job_id
    monkeypatch.setattr(desk.store.engine.signals, "send", send)
    await act(desk, "pause", job)
    await act(desk, "resume", job)

    assert sent == [(Hint(Topic.RUNS), "paused"), (Hint(Topic.RUNS), "active"), (Hint(Topic.JOBS), "active")]


@pytest.mark.parametrize(("missed", "runs"), [("skip", 0), ("last", 1), ("all", 8)])
async def test_a_job_with_more_runs_than_one_step_holds_is_resumed_in_several(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, missed: str, runs: int
) -> None:
    small_steps(monkeypatch)
    store = desk.store
    job = await desk.create(schedule="every 1m", overlap="allow")
    await store.plan(ahead=8 * MINUTE)
    await act(desk, "pause", job)
    store.advance(8 * MINUTE + SECOND)

    resumed = await act(desk, "resume", job, {"missed": missed})

    assert resumed["status"] == "active"
    await finished(store)
    assert len(await store.claimable()) == runs
    assert sum(entry.count for entry in await store.ledger(UUID(job["job_id"]))) == 8 - runs
    await store.check_counts()


async def test_nothing_starts_after_a_pause_that_was_cut_off_and_others_finish_it(desk: Desk) -> None:
    store = desk.store
    job = await desk.create(schedule="every 1s", overlap="allow")
    await store.plan_all(ahead=1_200 * SECOND)
    store.advance(1_200 * SECOND)
    with cut_off(store.engine):
        answer = await desk.call("POST", f"/v1/jobs/{job['job_id']}/pause")
    assert answer.status_code == 503
    assert await store.claimable() != []
    assert await store.claim_due(await store.worker()) == []
    await act(desk, "pause", job)

    await finished(store)

    assert await store.claimable() == []


async def test_a_job_with_more_runs_than_one_step_holds_can_be_changed_and_nothing_old_starts(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_steps(monkeypatch)
    store = desk.store
    job = await desk.create(schedule="every 1m", overlap="allow", payload={"n": 1})
    await store.plan(ahead=16 * MINUTE)
    store.advance(14 * MINUTE)
    worker = await store.worker()

    answer = await desk.call("PATCH", f"/v1/jobs/{job['job_id']}", {"payload": {"n": 2}})
    at_once = await store.claim_due(worker)
    await finished(store)
    runs = await store.claim_due(worker)

    assert (answer.status_code, at_once) == (200, [])
    assert [run.payload for run in runs] == [b'{"n":2}'] * 14
    store.advance(2 * MINUTE)
    assert [run.payload for run in await store.claim_due(worker)] == [b'{"n":2}'] * 2
    snap = await store.snapshot(JobId(UUID(job["job_id"])))
    assert snap.cursor is not None
    assert snap.cursor.planned == 16
    await store.check_counts()


async def test_acts_upon_a_job_that_has_many_runs_come_one_after_the_other(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of them waits until all runs have followed the one before; in the end they follow all of them."""
    small_steps(monkeypatch)
    store = desk.store
    job = await desk.create(schedule="every 1m", overlap="allow", payload={"n": 1})
    await store.plan(ahead=16 * MINUTE)
    store.advance(16 * MINUTE)
    worker = await store.worker()

    await act(desk, "pause", job)
    job = (await desk.call("PATCH", f"/v1/jobs/{job['job_id']}", {"payload": {"n": 2}})).json()
    await act(desk, "resume", job, {"missed": "all"})
    await act(desk, "pause", job)
    await finished(store)
    assert await store.claim_due(worker) == []
    await act(desk, "resume", job, {"missed": "all"})
    await finished(store)

    assert [run.payload for run in await store.claim_due(worker)] == [b'{"n":2}'] * 16
    await store.check_counts()


def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that few runs are many."""
    for module in ("sqlite.jobs", "sqlite.nearby", "postgres.jobs"):
        monkeypatch.setattr(f"oncue.engines.{module}.MOST_READ", 3)
    for engine in ("sqlite", "postgres"):
        monkeypatch.setattr(f"oncue.engines.{engine}.following.BITE", 2)
    monkeypatch.setattr("oncue.engines.finishing.BITES_AT_ONCE", 1)


async def finished(store: Store) -> None:
    """As schedulers do it, a few bites at a time."""
    finishing = Finishing(store.engine, store.clock)
    while await finishing.run_once() != POLL_INTERVAL:
        pass
