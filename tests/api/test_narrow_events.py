"""Streams that follow less than everything, and the events of workers, queues, dead letters and the pulse."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.api.conftest import Desk
from tests.api.streams import PATIENCE, Stream, streaming
from tests.api.test_events import hint, through
from tests.api.test_workers import add

from oncue.api.shared import watching
from oncue.domain.ids import RunId
from oncue.domain.instants import MINUTE, SECOND, Instant
from oncue.domain.run import State
from oncue.engines.port import Hint, Topic
from oncue_conformance.store import LEASE


@pytest.fixture(autouse=True)
async def closed(desk: Desk) -> AsyncIterator[None]:
    yield
    await desk.app.api.watching.close()


async def passes(desk: Desk) -> None:
    """Time for the next look at everything."""
    await desk.store.clock.advance(SECOND)


async def test_a_stream_of_one_job_tells_of_it_alone_however_busy_others_are(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its user's other runs are too many to be told: whoever follows everything has to read anew."""
    monkeypatch.setattr(watching, "MOST_TOLD", 3)
    store, worker = desk.store, await desk.store.worker()
    job, other = await desk.create(), await desk.create(schedule="every 1h")
    job_id, mine = RunId(UUID(job["job_id"])), None
    async with streaming(desk, query=f"job_id={job['job_id']}") as narrow, streaming(desk) as wide:
        for _ in range(3):
            await store.one_shots(5)
            runs = {run.run_id: run for run in await store.claim_due(worker)}
            mine = runs.pop(job_id, mine)
            await store.succeed(worker, *runs.values())
            await desk.call("POST", f"/v1/jobs/{other['job_id']}/pause")
            await hint(desk)
            assert (await wide.next("resync")).kind == "resync"
            await passes(desk)
        assert mine is not None
        await store.fail(worker, mine, retry=False)
        await hint(desk)
        told = [await narrow.next()]
        while told[-1].kind != "dead":
            told.append(await narrow.next())

    assert {one.data["job_id"] for one in told} == {job["job_id"]}, "a resync has no job"
    runs_told = [(one.kind, one.data.get("status")) for one in told if one.kind != "job"]  # its making may be told late
    assert runs_told == [("run", "running"), ("run", "dead"), ("dead", None)]


async def test_a_stream_of_one_job_tells_what_people_do_to_it_also_after_lost_hints(desk: Desk) -> None:
    job, other = await desk.create(schedule="every 1h"), await desk.create(schedule="every 1h")
    async with streaming(desk, "root", query=f"job_id={job['job_id']}") as narrow:
        for one in (other, job):
            await desk.call("POST", f"/v1/jobs/{one['job_id']}/pause")
        while (told := await narrow.next()).data["status"] != "paused":
            pass  # its making may be told late
        assert (told.kind, told.data["job_id"]) == ("job", job["job_id"])

        await desk.store.signals.send([Hint(Topic.CHANGED)])  # hints were lost
        assert ((await narrow.next()).kind, told.data["status"]) == ("job", "paused")


async def test_a_stream_of_one_run_tells_of_it_alone(desk: Desk) -> None:
    store, worker = desk.store, await desk.store.worker()
    mine, other = await store.one_shots(2)
    async with streaming(desk, query=f"run_id={mine}") as narrow:
        runs = {run.run_id: run for run in await store.claim_due(worker)}
        await hint(desk)
        started = await narrow.next()
        await store.succeed(worker, runs[other], runs[mine])
        await hint(desk)
        ended = await narrow.next()

    assert [(one.kind, one.data["run_id"], one.data["status"]) for one in (started, ended)] == [
        ("run", str(mine), "running"),
        ("run", str(mine), "succeeded"),
    ]


async def test_a_stream_has_the_types_that_were_asked_for(desk: Desk) -> None:
    store, worker = desk.store, await desk.store.worker()
    async with streaming(desk, query="types=job") as jobs, streaming(desk, query="types=dead,queue") as dead:
        await store.fail(worker, await store.claim_one(worker, await store.one_shot(max_retries=0)), retry=False)
        await hint(desk)
        letter = await dead.next()
        assert await through(desk, jobs) == []
        made = (await desk.create(schedule="every 1h"))["job_id"]
        assert (await jobs.next()).data["job_id"] == made
        last = letter.id
        await store.end(await store.one_shot(), State.SUCCEEDED)
        await store.fail(worker, await store.claim_one(worker, await store.one_shot(max_retries=0)), retry=False)
        await hint(desk)
        second = await dead.next()
    async with streaming(desk, last=last, query="types=dead") as resumed:
        assert await resumed.next() == second

    assert (letter.kind, second.kind) == ("dead", "dead")
    assert letter.data.keys() >= {"run_id", "job_id", "task", "error_type", "fingerprint"}
    shown = await desk.get(f"/runs/{letter.data['run_id']}")
    assert letter.data == {name: shown[name] for name in letter.data}


async def changes(stream: Stream, kind: str, n: int) -> list[Any]:
    return [(await stream.next(kind)).data for _ in range(n)]


async def test_workers_are_told_of_as_they_come_drain_fall_silent_and_go(desk: Desk) -> None:
    store = desk.store
    there = await add(desk)
    async with streaming(desk, query="types=worker") as stream:
        joined = await add(desk)
        await passes(desk)
        first = await stream.next()
        await desk.call("POST", f"/v1/workers/{there}/drain", key="root")
        await passes(desk)
        second = await stream.next()
        await desk.call("POST", f"/v1/workers/{there}/resume", key="root")
        await passes(desk)
        third = await stream.next()
        store.advance(LEASE + SECOND)
        await store.beat(joined)
        await passes(desk)
        fourth = await stream.next()
        await store.fleet.leave(there)
        await passes(desk)
        fifth = await stream.next()

    told = [first, second, third, fourth, fifth]
    assert [(one.data["worker_id"], one.data["change"], one.data["status"]) for one in told] == [
        (str(joined), "joined", "active"),
        (str(there), "draining", "draining"),
        (str(there), "active", "active"),
        (str(there), "no_heartbeat", "no_heartbeat"),
        (str(there), "left", None),
    ]


async def test_queues_are_told_of_to_whoever_may_see_them(desk: Desk) -> None:
    await desk.create(queue="hers")
    await desk.create(queue="his", key="bob")
    await add(desk)  # offers q and default
    queues = ("oncue", "his", "hers", "q")
    async with streaming(desk, query="types=queue") as ada, streaming(desk, "root", query="types=queue") as root:
        for act, change in (("pause", "paused"), ("resume", "resumed")):
            for queue in queues:
                await desk.call("POST", f"/v1/queues/{queue}/{act}", key="root")
            await passes(desk)
            assert [(one["name"], one["change"]) for one in await changes(ada, "queue", 2)] == [
                ("hers", change),
                ("q", change),
            ]
            everything = await changes(root, "queue", 4)
            assert [one["name"] for one in everything] == sorted(queues)
            assert {one["paused_since"] is None for one in everything} == {act == "resume"}


async def test_a_pulse_comes_every_second_to_whoever_asked_for_it(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    store = desk.store
    worker = await store.worker()
    asked: list[Any] = []
    read = store.history.pulse

    async def pulse(uid: Any, *how: Any) -> Any:
        asked.append(uid)
        return await read(uid, *how)

    monkeypatch.setattr(store.engine.history, "pulse", pulse)
    await store.one_shots(6)
    await store.one_shot(uid=store.stranger)
    desk.app.api.watching._pulse_at = Instant(store.clock.monotonic() + SECOND)  # when all of them are there
    async with (
        streaming(desk, "root", query="pulse=true&types=pulse") as root,
        streaming(desk, "root", query="types=pulse") as again,
        streaming(desk, query="pulse=true&types=dead") as ada,
        streaming(desk, "bob"),
    ):
        await passes(desk)
        first = (await root.next("pulse")).data
        mine = (await ada.next("pulse")).data
        assert first == (await again.next("pulse")).data
        runs = [run for run in await store.claim_due(worker) if run.uid == store.uid]
        await store.succeed(worker, *runs[:3])
        await store.fail(worker, runs[3], retry=False)
        await store.maintenance.roll_up()
        await passes(desk)
        second = (await root.next("pulse")).data
        while (hers := (await ada.next("pulse")).data)["at"] != second["at"]:
            pass

    assert set(asked) == {None, store.uid}
    assert asked.count(None) == asked.count(store.uid), "one computation for all administrators"
    assert (first["due"], first["running"], first["dead_letters"]) == (7, 0, 0)
    assert (mine["due"], mine["lag_p99_ms"], mine["started_per_second"]) == (6, None, None)
    rates = [f"{name}_per_second" for name in ("started", "succeeded", "failed", "dead")]
    assert [second[name] for name in rates] == [7, 3, 1, 1]
    assert [hers[name] for name in rates] == [6, 3, 1, 1]
    assert [second[name] for name in ("due", "running", "more", "dead_letters")] == [0, 3, False, 1]
    assert (hers["running"], hers["dead_letters"], hers["lag_p50_ms"]) == (2, 1, None)
    assert second["lag_p50_ms"] is not None


async def test_without_a_reader_nothing_is_read(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither pulses, once nobody asks for them, nor anything else a minute after the last stream has ended."""
    asked: list[str] = []
    for part, verb in (("history", "pulse"), ("fleet", "workers"), ("lists", "recent"), ("lists", "recent_of_job")):
        real = getattr(getattr(desk.store.engine, part), verb)

        async def counted(*given: Any, real: Any = real, verb: str = verb) -> Any:
            asked.append(verb)
            return await real(*given)

        monkeypatch.setattr(getattr(desk.store.engine, part), verb, counted)
    job = await desk.create(schedule="every 1h")
    async with streaming(desk, "root", query="types=pulse") as root:
        await root.next("pulse")
    async with streaming(desk, query=f"job_id={job['job_id']}"):
        asked.clear()
        async with asyncio.timeout(PATIENCE):
            while asked.count("recent_of_job") < 3:
                await passes(desk)
                await asyncio.sleep(0.01)  # looks are a quarter of a real second apart
        assert "pulse" not in asked
    watched = desk.app.api.watching
    async with asyncio.timeout(PATIENCE):
        while watched._channels:
            await desk.store.clock.advance(MINUTE)
            await asyncio.sleep(0.01)
    asked.clear()
    for _ in range(5):
        await passes(desk)
    assert asked == []
    assert not watched._fleet.looked


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("types=", "types"),
        ("types=run,nonsense", "types"),
        ("types=run&types=job", "types"),
        ("pulse=yes", "pulse"),
        ("job_id=1", "job_id"),
        ("run_id=%00", "run_id"),
        ("other=1", "other"),
        ("job_id={0}&run_id={0}", "run_id"),
        ("job_id={0}&types=worker", "types"),
        ("job_id={0}&pulse=true", "pulse"),
    ],
)
async def test_a_bad_question_names_its_parameter(desk: Desk, query: str, path: str) -> None:
    job = await desk.create()

    answer = await desk.call("GET", f"/v1/events?{query.format(job['job_id'])}")

    assert (answer.status_code, [error["path"] for error in answer.json()["errors"]]) == (422, [path])


async def test_jobs_and_runs_of_others_look_like_missing_ones(desk: Desk) -> None:
    theirs = (await desk.create(key="bob"))["job_id"]
    for which in ("job_id", "run_id"):
        async with asyncio.timeout(PATIENCE):  # a stream does not end
            answers = [await desk.call("GET", f"/v1/events?{which}={one}") for one in (theirs, uuid4())]
        assert [answer.status_code for answer in answers] == [404, 404]
        assert answers[0].json() == answers[1].json()
