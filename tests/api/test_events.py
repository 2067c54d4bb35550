"""Changes as they happen, over REST."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from tests.api.conftest import Desk
from tests.api.streams import PATIENCE, Event, Stream, streaming

from oncue.api import events
from oncue.api.http import server
from oncue.api.http.address import take_address
from oncue.api.http.auth import TRUSTED_FOR
from oncue.api.serving import serving
from oncue.api.shared import event_channel, outcome, watching
from oncue.api.shared.outcome import Changed
from oncue.api.shared.outcome import Changes as ApiChanges
from oncue.domain.errors import StoreUnavailable
from oncue.domain.ids import JobId, UserNumber
from oncue.domain.instants import HOUR, MINUTE, SECOND, rfc3339
from oncue.domain.run import State
from oncue.engines.port import Hint, Topic
from oncue.services.changes import PAUSE, Changes
from oncue.settings import Settings


@pytest.fixture(autouse=True)
async def closed(desk: Desk) -> AsyncIterator[None]:
    yield
    await desk.app.api.watching.close()


async def hint(desk: Desk, *users: UserNumber) -> None:
    """As workers do after what they wrote."""
    await desk.store.signals.send([Hint(Topic.CHANGED, target=str(uid)) for uid in users or (desk.store.uid,)])


async def through(desk: Desk, stream: Stream) -> list[Event]:
    """All events up to a job's that is made now: what else was on its way has come by then."""
    marker = (await desk.create(schedule="every 1h"))["job_id"]
    seen = []
    while (event := await stream.next()).data.get("job_id") != marker:
        seen.append(event)
    return seen


async def test_a_run_is_told_of_from_its_start_to_its_end(desk: Desk) -> None:
    store = desk.store
    run_id = await store.one_shot()
    worker = await store.worker()
    async with streaming(desk) as stream:
        run = await store.claim_one(worker, run_id)
        await hint(desk)
        started = await stream.next("run")
        await store.succeed(worker, run)
        await hint(desk)
        ended = await stream.next("run")

    assert (stream.status, stream.headers[b"content-type"]) == (200, b"text/event-stream; charset=utf-8")
    assert stream.headers[b"cache-control"] == b"no-store"
    assert (started.data["run_id"], started.data["status"]) == (str(run_id), "running")
    assert (ended.data["status"], ended.data["end_time"]) == ("succeeded", rfc3339(store.now))
    shown = await desk.get(f"/runs/{run_id}")
    assert ended.data == {name: shown[name] for name in ended.data}
    assert "result" not in ended.data


async def test_an_attempt_that_failed_is_told_of_as_retrying(desk: Desk) -> None:
    """It is neither among those that run nor among those that ended."""
    store = desk.store
    worker = await store.worker()
    run = await store.claim_one(worker, await store.one_shot())
    async with streaming(desk) as stream:
        await store.fail(worker, run)
        await hint(desk)

        assert (await stream.next("run")).data["status"] == "retrying"


async def test_what_people_do_to_jobs_is_told(desk: Desk) -> None:
    async with streaming(desk) as stream:
        job = await desk.create(schedule="every 1h", name="backup")
        made = await stream.next("job")
        await desk.call("POST", f"/v1/jobs/{job['job_id']}/pause")
        paused = await stream.next("job")

    names = ("job_id", "name", "task", "status", "next_run_at", "updated_at", "version")
    assert made.data == {name: job[name] for name in names}
    assert (paused.data["job_id"], paused.data["status"]) == (job["job_id"], "paused")


async def test_everybody_hears_of_their_own_and_administrators_of_all(desk: Desk) -> None:
    store = desk.store
    async with (
        streaming(desk, "ada") as ada,
        streaming(desk, "viewer") as viewer,
        streaming(desk, "root") as root,
        streaming(desk, "bob") as bob,
    ):
        await store.end(await store.one_shot(), State.SUCCEEDED)
        await hint(desk)
        for stream in (ada, viewer, root):
            await stream.next("run")
        hers = await desk.create(schedule="every 1h")
        for stream in (ada, viewer, root):
            assert (await stream.next("job")).data["job_id"] == hers["job_id"]
        his = await desk.create(schedule="every 1h", key="bob")
        assert (await bob.next("job")).data["job_id"] == his["job_id"]
        assert (await root.next("job")).data["job_id"] == his["job_id"]
        assert await through(desk, ada) == []


async def test_an_administrators_deed_reaches_the_owner(desk: Desk) -> None:
    job = await desk.create(schedule="every 1h")
    async with streaming(desk) as stream:
        await desk.call("DELETE", f"/v1/jobs/{job['job_id']}", key="root")
        while (told := await stream.next("job")).data["status"] != "cancelled":
            pass  # its making may be told late

    assert told.data["job_id"] == job["job_id"]


async def test_what_was_so_before_is_not_told(desk: Desk) -> None:
    store = desk.store
    worker = await store.worker()
    await store.claim_one(worker, await store.one_shot())
    await store.end(await store.one_shot(), State.SUCCEEDED)
    async with streaming(desk) as stream:
        await hint(desk)
        store.advance(SECOND)
        await hint(desk)

        assert await through(desk, stream) == []


async def test_without_any_hint_a_change_is_found_all_the_same(desk: Desk) -> None:
    store = desk.store
    run_id = await store.one_shot()
    async with streaming(desk) as stream:
        await store.end(run_id, State.DEAD)
        await store.clock.advance(SECOND)

        assert (await stream.next("run")).data["status"] == "dead"


async def test_an_end_that_is_written_late_is_told(desk: Desk) -> None:
    """Long after the instant at which it ended, as after an outage."""
    store = desk.store
    worker = await store.worker()
    run = await store.claim_one(worker, await store.one_shot())
    ended_at = store.now
    async with streaming(desk) as stream:
        await store.clock.advance(HOUR)
        await through(desk, stream)
        late = store.failure(worker, run, retry=False)
        await store.settle(worker, type(late)(run, State.SUCCEEDED, ended_at, started_at=ended_at))
        await hint(desk)

        assert (await stream.next("run")).data["status"] == "succeeded"


async def test_however_often_a_run_changes_it_is_told_of_a_few_times_a_second(desk: Desk) -> None:
    store = desk.store
    worker = await store.worker()
    run = await store.claim_one(worker, await store.one_shot())
    loop = asyncio.get_running_loop()
    async with streaming(desk) as stream:
        began = loop.time()
        for done in range(100):
            await store.running.save(worker, run, progress=b'{"done":%d,"total":100}' % done)
            await hint(desk)
        seen = [event for event in await through(desk, stream) if event.kind == "run"]
        took = loop.time() - began

    assert 1 <= len(seen) <= took / watching.SCAN_INTERVAL + 1
    assert seen[-1].data["progress"] == {"done": 99, "total": 100}


async def test_whoever_comes_back_misses_nothing(desk: Desk) -> None:
    async with streaming(desk) as stream:
        first = (await desk.create(schedule="every 1h"))["job_id"]
        heard = await stream.next("job")
    second = (await desk.create(schedule="every 1h"))["job_id"]
    async with streaming(desk, "viewer") as other:  # watches the same things: knows when the second was told
        await through(desk, other)
    async with streaming(desk, last=heard.id) as again, streaming(desk, last=stream.first_id) as from_the_start:
        assert (await again.next()).data["job_id"] == second
        assert [(await from_the_start.next()).data["job_id"] for _ in range(2)] == [first, second]


@pytest.mark.parametrize("last", ["0", "", "x-1", "{name}-99", "{name}--1", "{name}-²"])
async def test_whoever_comes_back_to_what_is_not_kept_is_told_to_read_anew(desk: Desk, last: str) -> None:
    async with streaming(desk) as stream:
        name = stream.first_id.partition("-")[0]
    if "²" in last:
        last = last.encode("utf-8").decode("latin-1")
    async with streaming(desk, last=last.replace("{name}", name)) as again:
        resync = await again.next()
        assert resync.kind == "resync"
        assert await through(desk, again) == []
    async with streaming(desk, last=resync.id) as after:
        assert (await after.next()).kind == "job"


async def test_a_slow_reader_is_told_to_read_anew_and_costs_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_channel, "KEPT", 5)
    async with streaming(desk) as slow, streaming(desk) as quick:
        await through(desk, quick)
        slow.reading.clear()
        for _ in range(4):
            await through(desk, quick)
            await through(desk, quick)
        slow.reading.set()
        kinds = [(await slow.next()).kind for _ in range(3)]
        latest = (await desk.create(schedule="every 1h"))["job_id"]

        assert "resync" in kinds
        while (await slow.next()).data.get("job_id") != latest:
            pass


async def test_too_many_changes_at_once_are_one_call_to_read_anew(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "MOST_TOLD", 5)
    store = desk.store
    worker = await store.worker()
    await store.one_shots(6)
    async with streaming(desk) as stream:
        await store.succeed(worker, *await store.claim_due(worker))
        await hint(desk)

        assert Counter(event.kind for event in await through(desk, stream)) == {"resync": 1}
        await store.clock.advance(MINUTE)
        await store.end(await store.one_shot(), State.SUCCEEDED)
        await hint(desk)
        assert (await stream.next("run")).data["status"] == "succeeded"


async def test_a_batch_of_jobs_is_a_call_to_read_anew(desk: Desk) -> None:
    async with streaming(desk) as stream, streaming(desk, "bob") as bob:
        jobs = [{"task": "mark", "schedule": "every 1h"}] * 3
        assert (await desk.call("POST", "/v1/jobs/batch", {"jobs": jobs})).status_code == 201

        assert (await stream.next()).kind == "resync"
        his = await desk.create(schedule="every 1h", key="bob")
        assert (await bob.next("job")).data["job_id"] == his["job_id"]


async def test_hints_that_were_missed_are_a_call_to_read_anew(desk: Desk) -> None:
    """After a gap in the connection the engine hints at every topic without saying what."""
    async with streaming(desk) as stream:
        await desk.store.signals.send([Hint(Topic.CHANGED)])

        assert (await stream.next()).kind == "resync"


async def test_many_streams_are_one_subscription_and_one_look(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    listen, subscriptions, looks = desk.store.engine.signals.listen, 0, Counter[object]()
    recent = desk.store.engine.lists.recent

    def counted(*how: Any) -> Any:
        nonlocal subscriptions
        subscriptions += 1
        return listen(*how)

    async def look(uid: UserNumber | None, *how: Any) -> Any:
        looks[uid] += 1
        return await recent(uid, *how)

    monkeypatch.setattr(desk.store.engine.signals, "listen", counted)
    monkeypatch.setattr(desk.store.engine.lists, "recent", look)
    async with streaming(desk) as one, streaming(desk) as two, streaming(desk, "viewer") as three:
        await desk.store.end(await desk.store.one_shot(), State.SUCCEEDED)
        await hint(desk)
        for stream in (one, two, three):
            await stream.next("run")

    assert (subscriptions, looks) == (1, {desk.store.uid: 2})


async def test_a_stream_ends_within_a_second_after_its_key_is_revoked(desk: Desk) -> None:
    """It asks again by itself: nothing is told of meanwhile, and its next sign of life is a simulated 15 s away."""
    store = desk.store
    [key] = [key for key in await store.accounts.keys() if key.user_id == "bob"]
    async with streaming(desk, "bob") as stream, streaming(desk) as other:
        await store.accounts.revoke(key.key_id, store.now)
        await store.clock.advance(TRUSTED_FOR)
        await stream.end()
        assert await through(desk, other) == []
    assert TRUSTED_FOR / SECOND + events.KEY_CHECK_INTERVAL < 1


async def test_streams_end_when_the_server_stops(desk: Desk) -> None:
    async with streaming(desk) as one, streaming(desk, "bob") as two:
        await desk.app.api.watching.close()
        await one.end()
        await two.end()

    assert not [task for task in asyncio.all_tasks() if "Watching" in repr(task)]


async def test_a_sign_of_life_comes_when_nothing_happens(desk: Desk) -> None:
    async with streaming(desk) as stream:
        await desk.store.clock.advance(15 * SECOND)

        assert await stream.part() == b": still here"


async def test_an_outage_ends_no_stream_and_loses_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    store = desk.store
    run_id = await store.one_shot()
    tried = asyncio.Event()

    async def away(*_: Any) -> Any:
        tried.set()
        raise StoreUnavailable("away")

    async with streaming(desk) as stream:
        with monkeypatch.context() as outage:
            outage.setattr(store.engine.lists, "recent", away)
            outage.setattr(store.engine.accounts, "key", away)
            await store.end(run_id, State.SUCCEEDED)
            await store.clock.advance(SECOND)
            await tried.wait()
        await store.clock.advance(SECOND)

        assert (await stream.next("run")).data["run_id"] == str(run_id)


async def test_nothing_goes_on_when_nobody_has_watched_for_a_while(desk: Desk) -> None:
    store = desk.store
    async with streaming(desk):
        going = {task for task in asyncio.all_tasks() if "Watching" in repr(task)}
    assert len(going) == 2
    await store.clock.advance(2 * MINUTE)
    async with asyncio.timeout(60):
        await asyncio.wait(going)

    async with streaming(desk) as stream:
        assert await through(desk, stream) == []


@pytest.mark.parametrize("key", ["nobody's", "bob"])
async def test_a_stream_is_refused_as_any_call_is(desk: Desk, key: str) -> None:
    path, status = ("/v1/events", 401) if key != "bob" else ("/v1/events?all=true", 422)

    assert (await desk.call("GET", path, key=key)).status_code == status


async def test_its_head_has_no_end_to_wait_for(desk: Desk) -> None:
    answer = await desk.call("HEAD", "/v1/events")

    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "text/event-stream; charset=utf-8")
    for wrong, status in ((f"job_id={uuid4()}", 404), ("types=all", 422)):
        assert (await desk.call("HEAD", f"/v1/events?{wrong}")).status_code == status


async def test_workers_hint_at_changes_a_few_times_a_second(desk: Desk) -> None:
    """However many batches there are; what came in between is not forgotten."""
    sent: list[list[Hint]] = []

    class Signals:
        async def send(self, hints: Any) -> None:
            sent.append(list(hints))

    ada, bob = UserNumber(1), UserNumber(2)
    changes = Changes(Signals(), desk.store.clock)
    await changes.of([])
    await changes.of([bob, ada, bob])
    for _ in range(100):
        await changes.of([ada])
    await desk.store.clock.advance(PAUSE)
    await changes.of([bob])

    assert sent == [[Changed(ada).hint(), Changed(bob).hint()]] * 2


async def test_hints_of_many_jobs_become_one(desk: Desk) -> None:
    job_ids = [JobId(desk.store.new_id()) for _ in range(30)]
    sent: list[Hint] = []
    done = asyncio.Event()

    async def send(hints: Any) -> None:
        sent.extend(hints)
        done.set()

    changes = ApiChanges(send)
    for job_id in job_ids:
        changes.note(Changed(UserNumber(1), job_id))
    changes.note(Changed(UserNumber(2), job_ids[0]))
    async with asyncio.timeout(60):
        await done.wait()

    assert sent[-1] == Changed(UserNumber(2), job_ids[0]).hint()
    assert sent[0] == Changed(UserNumber(1), jobs=True).hint()
    assert len(sent) < 15


async def test_the_first_hint_goes_at_once_and_those_after_it_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcome, "PAUSE", PATIENCE)  # so long the second one waits
    sent: list[list[Hint]] = []
    done = asyncio.Event()

    async def send(hints: Any) -> None:
        sent.append(list(hints))
        done.set()

    changes = ApiChanges(send)
    changes.note(Changed(UserNumber(1)))
    async with asyncio.timeout(PATIENCE / 2):
        await done.wait()
    changes.note(Changed(UserNumber(2)))
    for _ in range(10):
        await asyncio.sleep(0)

    assert sent == [[Changed(UserNumber(1)).hint()]]


async def test_a_hint_begins_a_scan_at_once_and_the_next_one_waits(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "SCAN_INTERVAL", 2 * PATIENCE)  # no stream is waited for as long
    store, worker, looking = desk.store, await desk.store.worker(), desk.app.api.watching
    scans = list[None]()
    monkeypatch.setattr(looking, "_forget", lambda: scans.append(None))  # it follows each scan
    async with streaming(desk) as stream:
        await store.claim_one(worker, await store.one_shot())
        await hint(desk)
        assert (await stream.next("run")).data["status"] == "running"

        await hint(desk)
        async with asyncio.timeout(PATIENCE):
            while not looking._hinted.is_set():  # a scan would clear it
                await asyncio.sleep(0.001)

        assert len(scans) == 1


async def test_what_changes_right_after_a_hint_is_told_without_another(desk: Desk) -> None:
    """Workers leave out the hint of an end that comes shortly after the start. Time stands still: no scan is due."""
    store, worker = desk.store, await desk.store.worker()
    run_id = await store.one_shot()
    async with streaming(desk) as stream:
        run = await store.claim_one(worker, run_id)
        await hint(desk)
        assert (await stream.next("run")).data["status"] == "running"

        await store.succeed(worker, run)

        assert (await stream.next("run")).data["status"] == "succeeded"


async def test_a_stream_over_a_socket_ends_at_once_when_the_server_stops(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "LAST_ANSWERS", PATIENCE)  # so long it would wait for a stream that does not end
    store, loop = desk.store, asyncio.get_running_loop()
    async with httpx2.AsyncClient(verify=False, headers={"Authorization": f"Bearer {desk.keys['ada']}"}) as client:
        settings = Settings(port=0)
        door = take_address(settings)
        async with serving(store.engine, store.clock, settings, door, asyncio.Event()) as url:
            request = client.build_request("GET", f"{url}/v1/events")
            answer = await client.send(request, stream=True)
            lines = answer.aiter_lines()
            assert (await anext(lines)).startswith("id: ")
            await client.post(f"{url}/v1/jobs", json={"task": "mark", "schedule": "every 1h"})
            while await anext(lines) != "event: job":
                pass
            began = loop.time()
        took = loop.time() - began
        left = [line async for line in lines]
        await answer.aclose()

    assert took < PATIENCE / 2
    assert left[-1] == ""  # to its proper end, not cut off


async def test_an_attempt_that_fails_sooner_than_anybody_looks_is_told_of(desk: Desk) -> None:
    store, worker = desk.store, await desk.store.worker()
    async with streaming(desk) as stream:
        for attempt in (1, 2):
            [run] = await store.claim_due(worker) if attempt > 1 else await store.claim(worker, await store.one_shot())
            await store.fail(worker, run)
            await store.signals.send([Hint(Topic.CHANGED, target=str(store.uid))])
            told = (await stream.next("run")).data

            assert (told["run_id"], told["status"]) == (str(run.run_id), "retrying")
            assert (told["attempt_number"], told["error_message"]) == (attempt, "it broke")
            store.advance(MINUTE)


async def test_a_user_has_so_many_streams_at_a_time(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MOST_STREAMS", 2)
    async with streaming(desk), streaming(desk, "bob"):
        async with streaming(desk, "viewer"):  # ada's, too
            refused = await desk.call("GET", "/v1/events")
            assert (refused.status_code, "Retry-After" in refused.headers) == (429, True)
        async with streaming(desk) as another:
            assert another.status == 200
    assert not +desk.app.api.watching.streams
