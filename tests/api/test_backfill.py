"""Making up for past occurrences over REST."""

import asyncio
from typing import Any
from uuid import uuid4

import pytest
from tests.api.conftest import Desk

from oncue.domain.instants import DAY, HOUR, MINUTE, SECOND, rfc3339
from oncue.domain.run import State, Trigger
from oncue.engines.port import Hint, Topic
from oncue_conformance.store import only

HOURLY = "0 * * * *"


def stretch(desk: Desk, start: int, end: int) -> dict[str, str]:
    """From so long before now to so long before now."""
    return {"from": rfc3339(desk.store.at(-start)), "to": rfc3339(desk.store.at(-end))}


async def backfill(desk: Desk, job: Any, body: Any, key: str = "ada") -> list[str]:
    answer = await desk.call("POST", f"/v1/jobs/{job['job_id']}/backfill", body, key=key)
    assert answer.status_code == 202, answer.text
    run_ids: list[str] = answer.json()["run_ids"]
    return run_ids


async def test_past_occurrences_run_in_their_order_one_at_a_time(desk: Desk) -> None:
    """`from` belongs to the stretch, `to` does not. The job's lane holds for them, and no overlap takes them away."""
    store = desk.store
    job = await desk.create(schedule=HOURLY, overlap="skip", payload={"a": 1})

    run_ids = await backfill(desk, job, stretch(desk, 4 * HOUR, HOUR))

    store.advance(SECOND)
    worker, order = await store.worker(), []
    while runs := await store.claim_due(worker):
        order.append(only(runs))
        await store.decide_overlaps()
        await store.succeed(worker, *runs)
    assert [str(run.run_id) for run in order] == run_ids
    assert [run.nominal for run in order] == [store.at(-SECOND - i * HOUR) for i in (4, 3, 2)]
    assert {(run.trigger, run.payload) for run in order} == {(Trigger.BACKFILL, b'{"a":1}')}
    after = await desk.get(f"/jobs/{job['job_id']}")
    assert (after["version"], after["next_run_at"], after["status"]) == (1, job["next_run_at"], "active")


async def test_occurrences_that_wait_tell_that_a_backfill_asked_for_them(desk: Desk) -> None:
    job = await desk.create(schedule=HOURLY)
    await backfill(desk, job, stretch(desk, 3 * HOUR, HOUR))

    found = (await desk.get(f"/jobs/{job['job_id']}/occurrences"))["occurrences"]

    assert [(one["outcome"], one["reason"]) for one in found] == [("waiting", "backfill")] * 2


async def test_asked_for_again_it_gives_the_same_runs_and_none_twice(desk: Desk) -> None:
    """Whatever became of them meanwhile, and also where two stretches overlap."""
    store = desk.store
    job = await desk.create(schedule=HOURLY, overlap="allow")
    first = await backfill(desk, job, stretch(desk, 4 * HOUR, 0))
    store.advance(SECOND)
    worker = await store.worker()
    done, failed, _, _ = await store.claim_due(worker)
    await store.succeed(worker, done)
    await store.fail(worker, failed, retry=False)

    again = await backfill(desk, job, {"from": rfc3339(store.at(-4 * HOUR - SECOND)), "to": rfc3339(store.now)})

    assert len(set(first)) == 4
    assert again[:4] == first
    assert len(again) == 5  # the full hour that has struck since
    assert len(await store.runs()) == 5


async def test_what_has_run_by_its_schedule_is_run_anew(desk: Desk) -> None:
    store = desk.store
    job = await desk.create(schedule=HOURLY)
    store.advance(HOUR)
    await store.plan_all()
    worker = await store.worker()
    await store.succeed(worker, *await store.claim_due(worker))

    [again] = await backfill(desk, job, stretch(desk, MINUTE, -SECOND))

    [run] = [run for run in await store.runs() if not run.state.final]
    [ended] = [run for run in await store.runs() if run.state.final]
    assert (str(run.run_id), run.nominal) == (again, ended.nominal)


async def test_only_what_is_past_is_made_up_for(desk: Desk) -> None:
    """A caller's clock may be ahead of ours; the schedule's own occurrence is not taken from it."""
    store = desk.store
    store.advance(30 * SECOND)
    job = await desk.create(schedule="every 10s", overlap="allow")
    store.advance(25 * SECOND)

    run_ids = await backfill(desk, job, stretch(desk, MINUTE, -MINUTE))

    assert len(run_ids) == 2


async def test_ten_thousand_are_made_at_once_and_one_more_is_refused(desk: Desk) -> None:
    job = await desk.create(schedule="* * * * *")

    answer = await desk.call("POST", f"/v1/jobs/{job['job_id']}/backfill", stretch(desk, 10_001 * MINUTE, 0))
    assert (answer.status_code, [error["path"] for error in answer.json()["errors"]]) == (422, ["to"])
    assert await desk.store.runs() == []

    made = await backfill(desk, job, stretch(desk, 10_000 * MINUTE, 0))
    assert len(made) == 10_000
    assert await backfill(desk, job, stretch(desk, 10_000 * MINUTE, 0)) == made
    assert (await desk.store.counts())["created"] == 10_000


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ({}, ["from", "to"]),
        ({"from": "2029-01-01T00:00:00Z"}, ["to"]),
        ({"from": None, "to": "2029-01-01T00:00:00Z"}, ["from"]),
        ({"from": "2029-01-01T00:00:00", "to": "yesterday"}, ["from", "to"]),
        ({"from": 1, "to": ["2029-01-01T00:00:00Z"]}, ["from", "to"]),
        ({"from": "2029-01-01T00:00:00Z", "to": "2029-01-01T00:00:00Z"}, ["to"]),
        ({"from": "2029-01-02T00:00:00Z", "to": "2029-01-01T00:00:00Z"}, ["to"]),
        ({"from": "2029-12-31T00:00:00Z", "to": "2030-01-01T00:02:00Z"}, ["to"]),
        ({"from": "2029-12-31T00:00:00Z", "to": "2029-12-31T02:00:00Z", "limit": 1}, ["limit"]),
    ],
)
async def test_a_stretch_that_is_wrong_makes_nothing(desk: Desk, body: Any, paths: list[str]) -> None:
    job = await desk.create(schedule=HOURLY)

    answer = await desk.call("POST", f"/v1/jobs/{job['job_id']}/backfill", body)

    assert (answer.status_code, [error["path"] for error in answer.json()["errors"]]) == (422, paths)
    assert await desk.store.runs() == []


async def test_what_runs_once_or_has_ended_has_no_past_to_make_up_for(desk: Desk) -> None:
    store = desk.store
    once = await desk.create(schedule=rfc3339(store.at(DAY)))
    cancelled = await desk.create(schedule=HOURLY)
    await desk.call("DELETE", f"/v1/jobs/{cancelled['job_id']}")
    finished = await desk.create(schedule={"cron": HOURLY, "max_runs": 1})
    store.advance(HOUR)
    await store.plan_all()
    assert (await desk.get(f"/jobs/{finished['job_id']}"))["status"] == "finished"
    before = await store.runs()

    for job in (once, cancelled, finished):
        answer = await desk.call("POST", f"/v1/jobs/{job['job_id']}/backfill", stretch(desk, DAY, 0))
        assert (answer.status_code, answer.headers["Content-Type"]) == (409, "application/problem+json")
    assert await store.runs() == before


async def test_only_who_may_change_a_job_backfills_it(desk: Desk) -> None:
    job = await desk.create(schedule=HOURLY)
    body = stretch(desk, HOUR, 0)

    for thing, key, status in ((job["job_id"], "bob", 404), (uuid4(), "ada", 404), (job["job_id"], "viewer", 403)):
        assert (await desk.call("POST", f"/v1/jobs/{thing}/backfill", body, key=key)).status_code == status
    assert await desk.store.runs() == []
    assert len(await backfill(desk, job, body, key="root")) == 1
    [run] = await desk.store.runs()
    assert run.uid == desk.store.uid


async def test_a_job_that_is_edited_meanwhile_is_decided_on_anew(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    store = desk.store
    job = await desk.create(schedule=HOURLY)
    read, reads = store.engine.jobs.read, 0

    async def read_then_edit(*args: Any) -> Any:
        nonlocal reads
        found, reads = await read(*args), reads + 1
        if reads == 1:
            assert await store.edit(found.job.job_id, payload=b'{"new":true}')
        return found

    monkeypatch.setattr(store.engine.jobs, "read", read_then_edit)
    await backfill(desk, job, stretch(desk, HOUR, 0))

    store.advance(SECOND)
    assert only(await store.claim_due(await store.worker())).payload == b'{"new":true}'


async def test_workers_are_told_when_the_runs_are_there(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    job = await desk.create(schedule=HOURLY)
    sent: list[tuple[Hint, int]] = []

    async def send(hints: list[Hint]) -> None:
        there = len(await desk.store.runs())
        sent.extend((hint, there) for hint in hints)

    monkeypatch.setattr(desk.store.engine.signals, "send", send)
    await backfill(desk, job, stretch(desk, 2 * HOUR, 0))

    assert (Hint(Topic.RUNS, due=desk.store.now), 2) in sent


async def test_two_callers_at_once_make_each_run_once(desk: Desk) -> None:
    job = await desk.create(schedule=HOURLY)
    body = stretch(desk, 50 * HOUR, 0)

    one, other = await asyncio.gather(backfill(desk, job, body), backfill(desk, job, body))

    assert one == other
    assert {(run.state, run.trigger) for run in await desk.store.runs()} == {(State.WAITING, Trigger.BACKFILL)}
    assert len(await desk.store.runs()) == 50


async def test_a_job_that_has_not_begun_has_a_past_too(desk: Desk) -> None:
    """Whoever starts a job next year may want last year's figures now."""
    job = await desk.create(schedule={"cron": HOURLY, "start_at": rfc3339(desk.store.at(DAY))})

    assert len(await backfill(desk, job, stretch(desk, 4 * HOUR, HOUR))) == 3
