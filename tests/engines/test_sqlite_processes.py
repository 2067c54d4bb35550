"""Several processes on one file: real ones, some of them killed."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import pytest

from oncue.clock import SystemClock
from oncue.domain.ids import ClassId, JobId
from oncue.domain.instants import Instant
from oncue.engines.port import Count, Hint, Topic
from oncue.engines.sqlite.engine import SqliteEngine
from oncue.engines.sqlite.signals import SqliteSignals
from oncue.settings import Settings

pytestmark = pytest.mark.kills
NOW = Instant(1_900_000_000_000_000)

COMMON = """
import asyncio, os, sys, threading
from oncue.domain.attempt import succeeded
from oncue.domain.change import only_run
from oncue.domain.ids import JobId, WorkerId, uuid7
from oncue.domain.instants import DAY, Duration, Instant
from oncue.domain.job import Job, Spec
from oncue.engines.port import Hint, NewJob, Topic, Worker
from oncue.engines.sqlite.engine import SqliteEngine
from oncue.settings import Settings

NOW = Instant(1_900_000_000_000_000)

def say(*what):
    print(*what, flush=True)

async def new_job(engine):
    uid = await engine.accounts.user("ada", NOW)
    job = Job(JobId(uuid7(NOW, os.urandom(10))), uid, Spec(task="noop"), b"1", NOW, NOW)
    [class_id] = await engine.jobs.intern([job.spec.class_key])
    return NewJob(job, class_id, run=only_run(job, class_id, NOW))
"""

Start = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/oncue.db"


@pytest.fixture
def start(url: str) -> Iterator[Start]:
    """Start a process that runs `async def main(engine)`; whatever is left of it is killed after the test."""
    started: list[subprocess.Popen[str]] = []

    def start(main: str) -> "subprocess.Popen[str]":
        body = textwrap.indent(textwrap.dedent(main), "    ")
        source = f"""{COMMON}
async def main():
    say("ready")
    sys.stdin.readline()
    engine = await SqliteEngine.open(Settings(engine={url!r}))
{body}
    await engine.close()

asyncio.run(main())
"""
        process = subprocess.Popen(
            [sys.executable, "-c", source], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, process_group=0
        )
        started.append(process)
        assert heard(process) == "ready"
        return process

    yield start
    for process in started:
        with suppress(ProcessLookupError):  # its group may outlive it
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def heard(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def go(*processes: "subprocess.Popen[str]") -> None:
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()


async def test_several_open_an_empty_folder_at_once(start: Start) -> None:
    processes = [start("await engine.accounts.user('ada', NOW)") for _ in range(5)]
    go(*processes)

    assert [process.wait(20) for process in processes] == [0] * 5


async def test_several_write_as_fast_as_they_can_and_never_find_it_locked(start: Start, url: str) -> None:
    everything = """
        worker = WorkerId(uuid7(NOW, os.urandom(10)))
        await engine.fleet.register(Worker(worker, "w", "h", Duration(DAY), NOW, NOW), NOW)
        for _ in range(40):
            await asyncio.gather(*[engine.jobs.create([await new_job(engine)], NOW) for _ in range(5)])
            peeked = await engine.running.peek([1], Instant(0), NOW, 10)
            claimed = await engine.running.claim(worker, [run.run_id for run in peeked], NOW)
            ended = [succeeded(run, NOW, NOW, None) for run in claimed]
            assert not (await engine.running.settle(worker, ended, NOW)).lost
            await engine.fleet.beat(worker, NOW)
    """
    processes = [start(everything) for _ in range(3)]
    go(*processes)
    assert [process.wait(30) for process in processes] == [0] * 3

    engine = await SqliteEngine.open(Settings(engine=url))
    counted = {counter.what: counter.n for counter in await engine.history.counters()}
    left = await engine.running.peek([ClassId(1)], Instant(0), NOW, 1_000)
    await engine.close()
    assert counted[Count.CREATED] == 600
    assert counted[Count.SUCCEEDED] == 600 - len(left)


@pytest.mark.parametrize("forked", [False, True], ids=["alone", "with a forked child"])
async def test_who_is_killed_in_its_turn_does_not_keep_it(start: Start, url: str, forked: bool) -> None:
    process = start(f"""
        def never_end(db):
            if {forked} and os.fork() == 0:
                threading.Event().wait()
            db.execute("insert into users (user_id, created_at) values ('never', 0)")
            say("holding")
            threading.Event().wait()
        await engine._store.write(never_end)
    """)
    go(process)
    assert heard(process) == "holding"

    engine = asyncio.create_task(SqliteEngine.open(Settings(engine=url)))
    await asyncio.sleep(0)
    assert not engine.done()
    process.kill()

    assert await (await engine).accounts.user("ada", NOW) == 1
    await (await engine).close()


async def test_an_acknowledged_job_survives_a_kill(start: Start, url: str) -> None:
    process = start("""
        while True:
            job = await new_job(engine)
            await engine.jobs.create([job], NOW)
            say(job.job.job_id)
    """)
    go(process)
    acknowledged = [JobId(UUID(heard(process))) for _ in range(30)]
    process.kill()
    acknowledged += [JobId(UUID(line)) for line in process.communicate()[0].split() if len(line) == 36]

    engine = await SqliteEngine.open(Settings(engine=url))
    found = [await engine.jobs.read(None, job_id) for job_id in acknowledged]
    await engine.close()
    assert None not in found


async def test_a_disk_that_is_full_for_a_while(start: Start, url: str) -> None:
    process = start("""
        import resource, signal
        from oncue.domain.errors import StoreUnavailable
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        await engine.jobs.create([await new_job(engine)], NOW)
        job = await new_job(engine)
        resource.setrlimit(resource.RLIMIT_FSIZE, (64 * 1024, limit[1]))
        refused = []
        while len(refused) < 3:
            try:
                await engine.jobs.create([await new_job(engine)], NOW)
            except StoreUnavailable as away:
                refused.append(str(away))
        say(refused[-1])
        say(len(await engine.running.peek([1], Instant(0), NOW, 1_000)) > 0)
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        say((await engine.jobs.create([job], NOW))[0].outcome.name)
    """)
    go(process)

    assert "is unavailable" in heard(process)
    assert [heard(process), heard(process)] == ["True", "NEW"]
    assert process.wait(20) == 0


class TestSignals:
    async def test_a_hint_reaches_other_processes_and_oneself(self, start: Start, tmp_path: Path) -> None:
        process = start("""
            async for hint in engine.signals.listen():
                say(hint.topic, hint.due, hint.target)
                if hint.due:
                    break
        """)
        go(process)
        assert [heard(process) for _ in Topic] == [f"{topic} None None" for topic in Topic]
        signals = SqliteSignals(tmp_path / "oncue.db", SystemClock())
        mine = signals.listen()
        greetings = [await anext(mine) for _ in Topic]

        await signals.send(
            [Hint(Topic.RUNS, Instant(9)), Hint(Topic.RUNS, Instant(7)), Hint(Topic.CHANGED, target="me")]
        )

        assert {hint.topic for hint in greetings} == set(Topic)
        assert [await anext(mine), await anext(mine)] == [
            Hint(Topic.RUNS, Instant(7)),
            Hint(Topic.CHANGED, target="me"),
        ]
        assert heard(process) == "runs 7 None"
        await signals.close()
        assert [hint async for hint in mine] == []

    async def test_who_was_killed_is_forgotten(self, start: Start, tmp_path: Path) -> None:
        process = start("""
            async for hint in engine.signals.listen():
                say(hint.topic)
        """)
        go(process)
        assert heard(process)
        process.kill()
        process.wait()
        signals = SqliteSignals(tmp_path / "oncue.db", SystemClock())
        folder = signals.folder
        assert len(list(folder.iterdir())) == 1

        await signals.send([Hint(Topic.RUNS)])
        await signals.close()

        assert list(folder.iterdir()) == []

    async def test_a_long_path_is_no_problem(self, tmp_path: Path) -> None:
        signals = SqliteSignals(tmp_path / ("long" * 40) / "oncue.db", SystemClock())
        mine = signals.listen()
        for _ in Topic:
            await anext(mine)

        await signals.send([Hint(Topic.JOBS, Instant(1))])

        assert await anext(mine) == Hint(Topic.JOBS, Instant(1))
        await signals.close()
        assert [hint async for hint in mine] == []

    async def test_where_no_socket_can_be_made_one_is_told_to_look_and_hears_nothing(self, tmp_path: Path) -> None:
        (tmp_path / "oncue.db.signals").write_text("in the way")
        signals = SqliteSignals(tmp_path / "oncue.db", SystemClock())
        mine = signals.listen()

        assert {(await anext(mine)).topic for _ in Topic} == set(Topic)
        await signals.send([Hint(Topic.JOBS)])
        await signals.close()

        assert [hint async for hint in mine] == []
