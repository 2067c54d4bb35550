"""Large payloads, results and logs: a worker with object storage, which is sometimes away."""

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx2
import pytest
from tests.services.worker_loops import Stage, StagedCrew, crew_on, work

from oncue import Context
from oncue.api.application import Application
from oncue.domain.errors import StorageRefused, StorageUnavailable, StoreUnavailable
from oncue.domain.ids import KeyId, RunId
from oncue.domain.instants import DAY, MINUTE, SECOND, Duration
from oncue.domain.keys import key_hash, make_key
from oncue.domain.reference import Kind, Reference, read_reference
from oncue.domain.run import Claimed, RunView, State
from oncue.domain.run_parts import NOTES
from oncue.engines.port import Key, Role, StoredObject
from oncue.engines.port.history import LOG_INLINE
from oncue.executors import capture
from oncue.services.run_log import RunLog
from oncue.services.storage_cleaning import StorageCleaning
from oncue.settings import Settings
from oncue.storage.objects import ObjectStorage
from oncue.storage.open import open_storage
from oncue_conformance.store import Store

TEXT = "x" * 500  # more than is kept in the database here


class Talkative(Stage):
    """`noop` returns what it is given; `talk` writes lines."""

    first_words = ""

    async def noop(self, ctx: Context, text: str = "") -> Any:
        self.started.append(RunId(ctx.run_id))
        return text

    async def talk(self, ctx: Context, words: int = 1, length: int = 10, wait: bool = False) -> Any:
        print(self.first_words, end="")
        for number in range(words):
            ctx.log.info("%d %s", number, "y" * length)
            if number % 100 == 0:
                await asyncio.sleep(0)
        if wait:
            self.waiting.add(RunId(ctx.run_id))
            await self.go.wait()


class Broken:
    """Object storage that is away, or refuses us, until it is mended."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.error: Exception | None = StorageUnavailable("away")
        for name in ("put", "get", "delete"):
            monkeypatch.setattr(ObjectStorage, name, self._breaking(getattr(ObjectStorage, name)))

    def _breaking(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def broken(*given: Any) -> Any:
            if self.error is not None:
                raise self.error
            return await call(*given)

        return broken


@pytest.fixture
def stage() -> Iterator[Talkative]:
    undo = capture.install()
    yield Talkative()
    undo()


def settings(folder: Path, **more: Any) -> dict[str, Any]:
    return {"data_dir": str(folder), "storage": (folder / "objects").as_uri(), "inline_cap": 200, **more}


async def until(store: Store, crew: StagedCrew, run_id: RunId, is_so: Callable[[RunView], bool]) -> RunView:
    """The run, once it is so; time passes meanwhile."""
    async with asyncio.timeout(60):
        while not is_so(view := await store.run(run_id)):
            await work(crew)
            await crew.attempts.run_once()
            await store.clock.advance(Duration(SECOND // 4))
            await asyncio.sleep(0.001)
    return view


async def ended(store: Store, crew: StagedCrew, run_id: RunId) -> RunView:
    return await until(store, crew, run_id, lambda view: view.state.final)


def objects(folder: Path) -> list[str]:
    return sorted(file.name for file in (folder / "objects" / "v1").rglob("*") if file.is_file())


async def with_large_payload(store: Store, folder: Path) -> RunId:
    """As the API stores it."""
    content = json.dumps({"text": TEXT}).encode()
    reference = Reference.to("v1/payload/1/2026-11-17/aa", content)
    new = await store.new_one_shot(payload=reference.encoded())
    row = StoredObject(reference.key, store.uid, new.job.job_id, Kind.PAYLOAD, reference.size)
    await store.objects.add([row], store.now)
    file = folder / "objects" / reference.key
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    await store.create(new)
    return RunId(new.job.job_id)


async def test_a_large_payload_comes_to_its_task_and_a_large_result_is_kept(
    store: Store, stage: Stage, tmp_path: Path
) -> None:
    run_id = await with_large_payload(store, tmp_path)
    crew = await crew_on(store, stage, **settings(tmp_path))

    view = await ended(store, crew, run_id)

    assert (view.state, read_reference(view.payload)) == (State.SUCCEEDED, read_reference(view.payload))
    kept = read_reference(view.result)
    assert kept is not None
    storage = open_storage(Settings(**settings(tmp_path)), store.clock)
    assert json.loads(await storage.get(kept)) == TEXT
    assert kept.key.startswith(f"v1/result/{store.uid}/")
    assert len(objects(tmp_path)) == 2


async def test_a_small_result_needs_no_object(store: Store, stage: Stage, tmp_path: Path) -> None:
    run_id = await store.one_shot()
    crew = await crew_on(store, stage, **settings(tmp_path))

    assert (await ended(store, crew, run_id)).result == b'""'
    assert objects(tmp_path) == []


async def test_without_its_payload_a_run_waits_and_uses_no_attempt(
    store: Store, stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id, broken = await with_large_payload(store, tmp_path), Broken(monkeypatch)
    crew = await crew_on(store, stage, **settings(tmp_path))
    now = store.now

    await work(crew)

    view = await store.run(run_id)
    assert (view.state, view.due, view.failures, view.losses) == (State.WAITING, now + 30 * SECOND, 0, 0)
    assert (stage.started, crew.attempts.capacity.used) == ([], dict.fromkeys(crew.attempts.capacity.used, 0))
    broken.error = None
    assert (await ended(store, crew, run_id)).state is State.SUCCEEDED
    assert store.now >= now + 30 * SECOND


async def test_a_payload_that_is_lost_fails_its_run_for_good(store: Store, stage: Stage, tmp_path: Path) -> None:
    run_id = await with_large_payload(store, tmp_path)
    for file in (tmp_path / "objects").rglob("aa"):
        file.write_bytes(b"something else")
    crew = await crew_on(store, stage, **settings(tmp_path))

    view = await ended(store, crew, run_id)

    assert (view.state, view.error_type, view.failures) == (State.DEAD, "PayloadLost", 1)


async def large_result(store: Store) -> RunId:
    return await store.one_shot(payload=json.dumps({"text": TEXT}).encode())


async def test_while_storage_is_away_a_result_is_kept_and_its_slot_is_free(
    store: Store, stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id, broken = await large_result(store), Broken(monkeypatch)
    crew = await crew_on(store, stage, **settings(tmp_path, inline_cap=400))

    await until(store, crew, run_id, lambda _: bool(len(crew.large_results)))
    for _ in range(20):
        await store.clock.advance(Duration(SECOND))
        await asyncio.sleep(0.001)
    assert (await store.run(run_id)).state is State.RUNNING
    assert (crew.busy, len(crew.attempts), sum(crew.attempts.capacity.used.values())) == (True, 0, 0)

    broken.error = None
    view = await ended(store, crew, run_id)
    kept = read_reference(view.result)
    assert kept is not None
    assert (view.state, view.failures, [kept.key.split("/")[-1]]) == (State.SUCCEEDED, 0, objects(tmp_path))


@pytest.mark.parametrize("error", [StorageUnavailable("away"), StorageRefused("the key is wrong")])
async def test_after_its_patience_a_run_succeeds_without_its_result_which_follows_later(
    store: Store, stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    run_id, broken = await large_result(store), Broken(monkeypatch)
    broken.error = error
    crew = await crew_on(store, stage, **settings(tmp_path, inline_cap=400, storage_patience=Duration(MINUTE)))

    view = await ended(store, crew, run_id)

    assert view.state is State.SUCCEEDED
    lost = read_reference(view.result)
    assert lost is not None
    assert (lost.key, lost.size) == ("", len(TEXT) + 2)
    await crew.spool.run_once()
    assert len(list((tmp_path / "spool").iterdir())) == 1

    broken.error = None
    await crew.spool.run_once()
    kept = read_reference((await store.run(run_id)).result)
    assert kept is not None
    assert json.loads(await open_storage(Settings(**settings(tmp_path)), store.clock).get(kept)) == TEXT
    assert list((tmp_path / "spool").iterdir()) == []


async def test_whoever_ends_waits_no_longer_for_storage(
    store: Store, stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await large_result(store)
    Broken(monkeypatch)
    crew = await crew_on(store, stage, **settings(tmp_path, inline_cap=400))
    await until(store, crew, run_id, lambda _: bool(len(crew.large_results)))

    crew.large_results.hurry()

    view = await ended(store, crew, run_id)
    assert (view.state, len(list((tmp_path / "spool").iterdir()))) == (State.SUCCEEDED, 1)


async def test_a_damaged_file_of_the_spool_is_not_attached(
    store: Store, stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id, broken = await large_result(store), Broken(monkeypatch)
    crew = await crew_on(store, stage, **settings(tmp_path, inline_cap=400, storage_patience=Duration(MINUTE)))
    await ended(store, crew, run_id)
    [file] = (tmp_path / "spool").iterdir()
    file.write_bytes(file.read_bytes()[:-1])

    broken.error = None
    await crew.spool.run_once()

    lost = read_reference((await store.run(run_id)).result)
    assert lost is not None
    assert (lost.key, list((tmp_path / "spool").iterdir()), objects(tmp_path)) == ("", [], [])


async def test_the_cleaner_deletes_what_nothing_refers_to_and_nothing_else(
    store: Store, stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await with_large_payload(store, tmp_path)
    crew = await crew_on(store, stage, **settings(tmp_path))
    await ended(store, crew, run_id)
    storage = open_storage(Settings(**settings(tmp_path)), store.clock)
    await store.objects.add([StoredObject("v1/left", store.uid, store.new_id(), Kind.RESULT, 1)], store.now)
    await storage.put("v1/left", b"1")
    cleaning = StorageCleaning(store.engine, storage, store.clock)
    store.advance(DAY)
    before = objects(tmp_path)

    broken = Broken(monkeypatch)
    await cleaning.run_once()
    broken.error = None
    assert objects(tmp_path) == before
    store.advance(MINUTE)
    await cleaning.run_once()
    assert set(before) - set(objects(tmp_path)) == {"left"}
    store.advance(2 * DAY)
    assert (await store.objects.look(store.now)).unused == ()


# ---------------------------------------------------------------------------------------------------------------- logs


@pytest.fixture
def app(store: Store, tmp_path: Path) -> Application:
    """The API on the same store and storage."""
    return Application(store.engine, store.clock, Settings(**settings(tmp_path)))


@pytest.fixture
async def reader(store: Store, app: Application) -> AsyncIterator[httpx2.AsyncClient]:
    """Somebody with a key."""
    secret = make_key(store.chance.randbytes(32))
    await store.accounts.add_key(Key(KeyId(store.new_id()), key_hash(secret), store.uid, "ada", Role.MEMBER, store.now))
    headers = {"Authorization": f"Bearer {secret}"}
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app), base_url="http://oncue", headers=headers
    ) as client:
        yield client


async def talked(store: Store, crew: StagedCrew, **how: int) -> RunId:
    run_id = await store.one_shot(task="talk", payload=json.dumps(how).encode())
    assert (await ended(store, crew, run_id)).state is State.SUCCEEDED
    return run_id


async def stored(crew: StagedCrew) -> None:
    """Until all logs are: the end of a run does not wait for long, and the clock runs fast here."""
    async with asyncio.timeout(60):
        while crew.reporting.storing:
            await crew.reporting.run_once()
            await asyncio.sleep(0.01)


async def test_a_long_log_goes_on_in_storage_and_is_read_as_one(
    store: Store, stage: Stage, tmp_path: Path, reader: httpx2.AsyncClient
) -> None:
    crew = await crew_on(store, stage, **settings(tmp_path))
    run_id = await talked(store, crew, words=4_000, length=1_000)
    await stored(crew)

    log = (await reader.get(f"/v1/runs/{run_id}/logs")).text

    assert [line.split()[2] for line in log.splitlines()] == [str(number) for number in range(4_000)]
    assert len(objects(tmp_path)) == 4  # each of a megabyte
    last = (await reader.get(f"/v1/runs/{run_id}/logs", params={"tail": 2})).text
    assert last == "".join(log.splitlines(keepends=True)[-2:])
    rest = (await reader.get(f"/v1/runs/{run_id}/logs", params={"after": len(log) - 100})).text
    assert rest == log[-100:]


async def test_a_log_beyond_the_cap_is_cut_with_a_note_and_its_end_is_kept(
    store: Store, stage: Stage, tmp_path: Path, reader: httpx2.AsyncClient
) -> None:
    """17 MiB, with the default cap."""
    crew = await crew_on(store, stage, **settings(tmp_path))
    run_id = await talked(store, crew, words=1_200, length=15_000)
    await stored(crew)

    log = (await reader.get(f"/v1/runs/{run_id}/logs")).text

    assert "… the log is longer than 16777216 bytes" in log
    assert "bytes were left out here" in log
    assert " 1199 yyy" in log
    assert log.endswith("y\n")
    assert 16 << 20 < len(log.encode()) < (16 << 20) + (64 << 10) + 500


async def test_the_cap_counts_the_text_of_all_starts_of_a_run(
    store: Store, stage: Stage, tmp_path: Path, reader: httpx2.AsyncClient
) -> None:
    """Catches counting what is compressed: a log that repeats itself would have the whole cap at each start."""
    crew = await crew_on(store, stage, **settings(tmp_path, max_log_bytes=1_000_000))
    run_id = await talked(store, crew, words=800, length=1_000)
    await stored(crew)
    run = await store.run(run_id)

    log = RunLog(cast(Claimed, SimpleNamespace(run_id=run_id, uid=run.uid, token=2)), crew.reporting)
    log.write(b"z\n")
    await log.store(last=True)
    for _ in range(800):
        log.write(b"z" * 999 + b"\n")
    await log.store(last=True)

    text = (await reader.get(f"/v1/runs/{run_id}/logs")).text
    assert "bytes were left out here" in text
    assert 1_000_000 < len(text.encode()) < 1_000_000 + (64 << 10) + 1_000


async def test_the_end_of_a_log_is_kept_although_nothing_is_written_for_a_while_before_the_end(
    store: Store, stage: Stage, tmp_path: Path, reader: httpx2.AsyncClient
) -> None:
    crew = await crew_on(store, stage, **settings(tmp_path, max_log_bytes=1_000_000))
    run_id = await store.one_shot(task="talk", payload=b'{"words": 300, "length": 5000, "wait": true}')
    await work(crew)
    async with asyncio.timeout(60):
        while not objects(tmp_path):
            await crew.reporting.run_once()
            await store.clock.advance(Duration(6 * SECOND))
            await asyncio.sleep(0.01)
    assert " 299 y" not in (await reader.get(f"/v1/runs/{run_id}/logs")).text
    stage.go.set()
    await ended(store, crew, run_id)

    log = ""
    async with asyncio.timeout(60):  # the end of a run does not wait for its log for long, and the clock runs fast here
        while "bytes were left out here" not in log:
            await stored(crew)
            await asyncio.sleep(0.01)
            log = (await reader.get(f"/v1/runs/{run_id}/logs")).text
    assert " 299 y" in log


async def test_the_end_of_a_log_is_kept_although_a_part_is_being_stored_when_its_run_ends(
    store: Store, stage: Stage, tmp_path: Path, reader: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches asking only whether text waits to be stored: none does while a part is on its way."""
    put, on_its_way, arrives = ObjectStorage.put, asyncio.Event(), asyncio.Event()

    async def slow(*given: Any) -> None:
        on_its_way.set()
        await arrives.wait()
        await put(*given)

    monkeypatch.setattr(ObjectStorage, "put", slow)
    crew = await crew_on(store, stage, **settings(tmp_path, max_log_bytes=1_000_000))
    run_id = await store.one_shot(task="talk", payload=b'{"words": 300, "length": 5000, "wait": true}')
    await work(crew)
    async with asyncio.timeout(60):
        while not on_its_way.is_set():
            await crew.reporting.run_once()
            await store.clock.advance(Duration(6 * SECOND))
            await asyncio.sleep(0.01)

    stage.go.set()
    async with asyncio.timeout(60):
        while list(crew.attempts):  # its end waits for storage, but not for long
            await store.clock.advance(SECOND)
            await asyncio.sleep(0.001)
    arrives.set()

    await ended(store, crew, run_id)
    await stored(crew)
    assert " 299 y" in (await reader.get(f"/v1/runs/{run_id}/logs")).text


async def test_a_log_that_storage_does_not_take_follows_later(
    store: Store, stage: Stage, tmp_path: Path, reader: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Broken(monkeypatch)
    crew = await crew_on(store, stage, **settings(tmp_path))
    run_id = await talked(store, crew, words=500, length=1_000)

    broken.error = None
    await stored(crew)
    assert len((await reader.get(f"/v1/runs/{run_id}/logs")).text.splitlines()) == 500


async def is_complete(reader: httpx2.AsyncClient, run_id: RunId) -> bool:
    path = f"/v1/runs/{run_id}/logs"
    after = (await reader.get(path, params={"format": "json"})).json()["next_after"]
    delayed = (await reader.get(path)).headers.get("Log-Delayed")
    assert (after is None) == (delayed is None)
    return after is None


async def test_until_storage_takes_a_log_its_beginning_can_be_read_and_it_is_not_complete(
    store: Store, stage: Stage, tmp_path: Path, reader: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Broken(monkeypatch)
    crew = await crew_on(store, stage, **settings(tmp_path))
    run_id = await talked(store, crew, words=4_000, length=1_000)

    path = f"/v1/runs/{run_id}/logs"
    beginning = (await reader.get(path)).content
    assert (len(beginning), await is_complete(reader, run_id)) == (LOG_INLINE, False)

    broken.error = None
    await stored(crew)
    log = (await reader.get(path)).content
    assert (len(log.splitlines()), log[:LOG_INLINE], await is_complete(reader, run_id)) == (4_000, beginning, True)


async def test_the_beginning_of_a_log_ends_between_two_characters(
    store: Store, stage: Talkative, tmp_path: Path, reader: httpx2.AsyncClient
) -> None:
    crew = await crew_on(store, stage, **settings(tmp_path))
    stage.first_words = "x" + "€" * 100_000
    undo = capture.install()
    try:
        run_id = await talked(store, crew, words=0)
    finally:
        undo()
    await stored(crew)

    parts = (await reader.get(f"/v1/runs/{run_id}/logs", params={"format": "json"})).json()["parts"]

    texts = [part["text"] for part in parts[:2]]  # the third is a line of our own
    assert ([len(text) for text in texts], "".join(texts)) == ([87_382, 12_619], stage.first_words)


async def test_nobody_waits_for_a_log_that_storage_refuses_after_all(
    store: Store, stage: Stage, tmp_path: Path, reader: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Broken(monkeypatch)
    crew = await crew_on(store, stage, **settings(tmp_path))
    run_id = await talked(store, crew, words=500, length=1_000)
    assert not await is_complete(reader, run_id)

    broken.error = StorageRefused("the key is wrong")
    await stored(crew)

    assert await is_complete(reader, run_id)


@pytest.mark.parametrize("applied", [False, True])
async def test_that_a_log_is_late_is_told_although_an_answer_is_lost(
    store: Store,
    stage: Stage,
    tmp_path: Path,
    reader: httpx2.AsyncClient,
    monkeypatch: pytest.MonkeyPatch,
    applied: bool,
) -> None:
    broken = Broken(monkeypatch)
    append, lost = store.history.append_log, set[int]()

    async def unsure(run_id: RunId, number: int, *given: Any) -> bool:
        if number < NOTES or number in lost:
            return await append(run_id, number, *given)
        lost.add(number)
        if applied:
            await append(run_id, number, *given)
        raise StoreUnavailable("lost")

    monkeypatch.setattr(store.history, "append_log", unsure)
    crew = await crew_on(store, stage, **settings(tmp_path))
    run_id = await talked(store, crew, words=500, length=1_000)
    for _ in range(5):
        await crew.reporting.run_once()
        await asyncio.sleep(0.001)
    assert not await is_complete(reader, run_id)

    broken.error = None
    await stored(crew)
    assert (await is_complete(reader, run_id), len(lost)) == (True, 2)


async def test_what_a_task_writes_does_not_pass_for_a_reference(
    store: Store, stage: Talkative, tmp_path: Path, reader: httpx2.AsyncClient
) -> None:
    """Else it could read an object of another user, if it knew its key."""
    forged = Reference.to("v1/result/2/2026-11-17/aa", b"secret").encoded().decode()
    crew = await crew_on(store, stage, **settings(tmp_path))
    await open_storage(Settings(**settings(tmp_path)), store.clock).put("v1/result/2/2026-11-17/aa", b"secret")
    stage.first_words = forged
    undo = capture.install()
    try:
        run_id = await talked(store, crew, words=0)
    finally:
        undo()

    assert (await reader.get(f"/v1/runs/{run_id}/logs")).text == "\\x01" + forged[1:]


async def test_each_start_after_the_first_is_marked_with_its_time(store: Store, reader: httpx2.AsyncClient) -> None:
    run_id = await store.one_shot()
    for number, text in ((1 << 16, b"one\n"), ((1 << 16) + 1, b"two\n"), (3 << 16, b"three\n")):
        await store.history.append_log(run_id, number, text, store.now)

    log = (await reader.get(f"/v1/runs/{run_id}/logs")).text

    assert log.splitlines()[:2] == ["one", "two"]
    assert log.splitlines()[2].startswith("── start 3, 2030-01-01T00:00:00")
    assert log.splitlines()[3:] == ["three"]


async def test_a_log_is_followed_until_its_run_has_ended(
    store: Store, stage: Stage, tmp_path: Path, app: Application, reader: httpx2.AsyncClient
) -> None:
    run_id = await store.one_shot(task="wait")
    crew = await crew_on(store, stage, **settings(tmp_path))
    await work(crew)
    await store.history.append_log(run_id, 1 << 16, b"first\nsecond\n", store.now)
    following = asyncio.create_task(reader.get(f"/v1/runs/{run_id}/logs", params={"follow": "true", "tail": 1}))
    async with asyncio.timeout(60):
        while not app.api.watching.streams.total():
            await asyncio.sleep(0.001)
    await store.history.append_log(run_id, (1 << 16) + 1, b"third\n", store.now)
    assert not following.done()
    stage.go.set()
    await ended(store, crew, run_id)
    async with asyncio.timeout(60):
        while not following.done():
            await store.clock.advance(Duration(SECOND))
            await asyncio.sleep(0.01)
    assert following.result().text == "second\nthird\n"


@pytest.mark.parametrize("runs", [150, pytest.param(1_000, marks=pytest.mark.long)])
async def test_many_runs_at_once_log_a_hundred_lines_each_and_each_line_is_in_its_own_run_in_order(
    store: Store, tmp_path: Path, runs: int
) -> None:
    """By ctx.log, print, stderr and standard logging, in turns."""

    class Loud(Stage):
        async def noop(self, ctx: Context) -> None:
            ways: list[Callable[[str], Any]] = [
                lambda line: ctx.log.info(line),
                lambda line: print(line),
                lambda line: print(line, file=sys.stderr),
                lambda line: logging.getLogger("mine").warning(line),
            ]
            for number in range(100):
                ways[number % 4](f"{ctx.run_id} {number}")
                await asyncio.sleep(0)

    undo = capture.install()
    try:
        run_ids = await store.one_shots(runs, -SECOND)
        crew = await crew_on(store, Loud(), concurrency=1_000, **settings(tmp_path))
        async with asyncio.timeout(120):
            while await store.claimable() or crew.busy:
                await crew.worker.run_once()
                await crew.reporting.run_once()
                await crew.settling.run_once()
                await asyncio.sleep(0)
    finally:
        undo()
    for run_id in run_ids:
        lines = (await store.log(run_id)).decode().splitlines()
        assert [line.split()[-2:] for line in lines] == [[str(run_id), str(number)] for number in range(100)]
