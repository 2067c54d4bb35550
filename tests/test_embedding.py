"""The whole system in this process, as a notebook or a script uses it."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event
from threading import enumerate as threads

import pytest

import oncue
from oncue.client import RunFailed
from oncue.tasks.lifespan import LifespanFailed


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("ONCUE_URL", "http://127.0.0.1:9")  # where nobody listens
    return tmp_path


@asynccontextmanager
async def resources() -> AsyncIterator[str]:
    yield "shared"


def left_in(folder: Path) -> list[Path]:
    return list(folder.glob("oncue-embedded-*"))


tasks = oncue.Tasks(lifespan=resources)
stuck, go_on = Event(), Event()
LARGE = "x" * 300_000  # goes to object storage


@tasks.task
async def hello(ctx: oncue.Context[str], name: str = "world") -> str:
    return f"{ctx.state} {name}"


@tasks.task(isolation="process", queue="heavy", labels=["gpu"])
def double(number: int) -> int:
    return 2 * number


@tasks.task
async def parent() -> str:
    run = await hello.enqueue(name="child")
    return str(run.run_id)


@tasks.task(max_retries=0)
async def fails() -> None:
    raise ValueError("no money")


@tasks.task
def waits() -> None:
    stuck.set()
    go_on.wait(60)


async def test_handles_work_without_a_server_until_the_block_ends(folder: Path) -> None:
    async with oncue.embedded(tasks) as client:
        assert await hello.run(name="you") == "shared you"
        assert await double.run(number=4) == 8
        assert (await client.jobs.create(task="double", payload={"number": 1})).warnings == ()
        assert len(await hello.run(name=LARGE)) > len(LARGE)
        assert hello.sync.run(name="sync") == "shared sync", "although it blocks the loop of the caller"
        assert await asyncio.to_thread(asyncio.run, hello.run(name="loop")) == "shared loop", "an event loop of its own"
        child = await client.runs.wait(await parent.run(), timeout=60)
        assert child.result == "shared child"
        with pytest.raises(RunFailed, match="no money"):
            await fails.run()
        job = await hello.schedule(oncue.every("1s"))
        async with asyncio.timeout(60):
            while not (await client.jobs.get(job)).last_run:
                await asyncio.sleep(0.05)
        assert "<table" in job._repr_html_()
        await waits.enqueue()
        await asyncio.to_thread(stuck.wait, 60)

    go_on.set()
    assert left_in(folder) == []
    assert "oncue embedded" not in {thread.name for thread in threads()}
    assert (tasks.clients._connected, tasks.clients._given) == (None, None)


async def test_what_keeps_it_from_starting_is_raised_and_nothing_is_left(folder: Path) -> None:
    @asynccontextmanager
    async def broken() -> AsyncIterator[None]:
        raise OSError("no database")
        yield

    other = oncue.Tasks(lifespan=broken)
    other.task("x")(double.function)

    with pytest.raises(LifespanFailed, match="no database"):
        async with oncue.embedded(other):
            pass

    assert left_in(folder) == []


async def test_it_can_be_cancelled_while_it_starts(folder: Path) -> None:
    entered, cancelled = Event(), Event()

    @asynccontextmanager
    async def slow() -> AsyncIterator[None]:
        entered.set()
        await asyncio.to_thread(cancelled.wait, 60)
        yield

    other = oncue.Tasks(lifespan=slow)
    other.task("x")(double.function)

    async def opened() -> None:
        async with oncue.embedded(other):
            pytest.fail("it has not started")

    opening = asyncio.create_task(opened())
    assert await asyncio.to_thread(entered.wait, 60)
    opening.cancel()
    asyncio.get_running_loop().call_later(0.1, cancelled.set)  # when it is being stopped

    with pytest.raises(asyncio.CancelledError):
        await opening
    assert left_in(folder) == []
