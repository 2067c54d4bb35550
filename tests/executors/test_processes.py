"""Functions in processes of their own: what travels, what is contained, and what is left over (nothing)."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest
from tests.executors.working import (
    SOON,
    Remembered,
    alive_with,
    attempt,
    children,
    has_ended,
    open_descriptors,
    until,
)

from oncue.domain.errors import Conflict
from oncue.domain.instants import MILLISECOND, SECOND, Duration
from oncue.domain.placement import Resources
from oncue.executors import contained, warm
from oncue.executors.loading import load_tasks
from oncue.executors.output import Output
from oncue.executors.port import ProcessLost, TaskFailed, Work
from oncue.executors.processes import ProcessExecutor
from oncue.settings import Settings

pytestmark = pytest.mark.kills

FILE = str(Path(__file__).with_name("process_tasks.py"))
WITH_LIFESPAN = str(Path(__file__).with_name("lifespan_tasks.py"))
SETTINGS = Settings(tasks=(FILE,), kill_grace=Duration(200 * MILLISECOND), max_log_bytes=10_000)

# A worker that runs one task in a process, and is then killed.
OWNER = f"""
import asyncio, sys
from oncue.executors.processes import ProcessExecutor
from oncue.executors.loading import load_tasks
from oncue.settings import Settings
from tests.executors.working import attempt, Remembered

class Printing(Remembered):
    def write(self, text):
        print(text, flush=True)

async def main():
    settings = Settings(tasks=({FILE!r},))
    await ProcessExecutor(settings, 1).run(attempt(load_tasks(settings.tasks).get("stubborn"), None, Printing()))

asyncio.run(main())
"""

LEAVING = """
import os, threading, time
from oncue import Tasks
tasks, runs = Tasks(), 0
def fork():
    return os.fork() or time.sleep(600)
kept = {left}
@tasks.task("who", isolation="process")
def who(ctx):
    global runs
    runs += 1
    return {{"pid": os.getpid(), "runs": runs}}
"""


@pytest.fixture
async def processes() -> AsyncIterator[ProcessExecutor]:
    executor = ProcessExecutor(SETTINGS, 2)
    yield executor
    await executor.close()
    assert children() == set()


async def run(executor: ProcessExecutor, name: str, payload: object = None, **given: Any) -> Any:
    result = await executor.run(work(name, payload, **given))
    return None if result is None else msgspec.json.decode(result)


def work(name: str, payload: object = None, **given: Any) -> Work:
    task = load_tasks([FILE]).get(name)
    assert task is not None
    return attempt(task, None if payload is None else msgspec.json.encode(payload), **given)


class TestWhatTravels:
    @pytest.fixture(scope="class")
    async def processes(self) -> AsyncIterator[ProcessExecutor]:
        """One for all of them: what it is when another test made use of it is for the others to try."""
        executor = ProcessExecutor(SETTINGS, 2)
        yield executor
        await executor.close()

    async def test_arguments_and_results(self, processes: ProcessExecutor) -> None:
        assert await run(processes, "add", {"a": 1, "b": 2}) == 3

    async def test_an_async_function_and_its_checkpoint(self, processes: ProcessExecutor) -> None:
        reports = Remembered()

        assert await run(processes, "add_async", {"a": 1, "b": 2}, reports=reports) == 3
        assert reports.saved == [b'{"a":1}']

    async def test_a_function_that_takes_no_context_gets_none(self, processes: ProcessExecutor) -> None:
        assert await run(processes, "double", {"a": 2}) == 4
        assert await run(processes, "double_async", {"a": 3}) == 6

    @pytest.mark.parametrize("name", ["plain", "in_loop"])
    async def test_the_lifespan_of_its_set_is_around_the_run(self, name: str) -> None:
        settings, reports = Settings(tasks=(WITH_LIFESPAN,)), Remembered()
        processes, task = ProcessExecutor(settings, 1), load_tasks([WITH_LIFESPAN]).get(name)
        assert task is not None
        try:
            assert await processes.run(attempt(task, None, reports)) == b"true"
        finally:
            await processes.close()

        assert reports.text.split() == ["begins", "runs", "ends"]

    async def test_jobs_that_its_code_enqueues(self, processes: ProcessExecutor) -> None:
        reports = Remembered()
        first, second = (str(UUID(int=number)) for number in (1, 2))

        assert await run(processes, "pass_on", {"a": 2}, reports=reports) == first
        assert await run(processes, "pass_on_async", {"a": 3}, reports=reports) == ["scheduled", first, second]
        jobs = [job for asked in reports.submitted for job in msgspec.json.decode(asked)["jobs"]]
        assert jobs == [
            {"task": "double", "payload": {"a": 2}},
            {"task": "double", "queue": "later", "payload": {"a": 3}, "schedule": "in 10m"},
            {"task": "double", "payload": {"a": 3}},
            {"task": "double", "payload": {"a": 4}},
        ]

    async def test_a_refused_job_is_an_error_in_its_code(self, processes: ProcessExecutor) -> None:
        class Refusing(Remembered):
            async def submit(self, asked: bytes) -> tuple[UUID, ...]:
                raise Conflict("not today")

        with pytest.raises(TaskFailed, match="not today"):
            await run(processes, "pass_on", {"a": 2}, reports=Refusing())

    async def test_what_its_task_does_not_retry_is_not_retried(self, processes: ProcessExecutor) -> None:
        with pytest.raises(TaskFailed) as failed:
            await run(processes, "look_up", {"key": "unknown"})

        assert (failed.value.kind, failed.value.retry) == ("KeyError", False)

    async def test_prints_subprocesses_raw_writes_and_the_logger_land_in_the_log(
        self, processes: ProcessExecutor
    ) -> None:
        reports = Remembered()

        assert await run(processes, "talk", reports=reports, checkpoint=b'{"kept":1}') == {"kept": 1}
        *others, logged = reports.text.splitlines()
        assert others == ["printed", "by a subprocess", "raw"]
        assert logged.endswith("Z INFO logged")

    async def test_all_that_was_said_is_in_the_log_when_the_result_is_there(
        self, processes: ProcessExecutor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Output, "_readable", Output._stop_listening)  # a loop that never gets round to it
        reports = Remembered()
        await run(processes, "talk", reports=reports)

        assert len(reports.text.splitlines()) == 4

    async def test_what_one_run_says_is_not_in_the_next_ones_log(self, processes: ProcessExecutor) -> None:
        await run(processes, "talk", reports=Remembered())
        second = Remembered()
        await run(processes, "add", {"a": 1, "b": 2}, reports=second)

        assert second.text == ""

    async def test_progress_the_newest_at_least_and_not_all_of_a_hundred_thousand(
        self, processes: ProcessExecutor
    ) -> None:
        reports = Remembered()
        await run(processes, "report", {"times": 100_000}, reports=reports)

        assert reports.told[-1] == b'{"done":100000,"total":100000}'
        assert len(reports.told) < 1_000
        assert reports.saved == [b'{"at":100000}']

    async def test_a_checkpoint_that_is_refused_is_told_to_the_run(self, processes: ProcessExecutor) -> None:
        class Refusing(Remembered):
            async def save(self, stored: bytes) -> None:
                raise Conflict("another's by now")

        with pytest.raises(TaskFailed, match="another's by now") as failed:
            await run(processes, "report", {"times": 1}, reports=Refusing())
        assert failed.value.kind == "Conflict"

    @pytest.mark.parametrize(
        ("how", "kind", "retry", "after"),
        [
            ("plain", "ValueError", True, None),
            ("no_retry", "NoRetry", False, None),
            ("retry_after", "RetryAfter", True, 30 * SECOND),
            ("retry_after_timedelta", "RetryAfter", True, 40 * SECOND),
            ("exit", "SystemExit", True, None),
        ],
    )
    async def test_failures_with_what_they_ask_for(
        self, processes: ProcessExecutor, how: str, kind: str, retry: bool, after: int | None
    ) -> None:
        with pytest.raises(TaskFailed) as failed:
            await run(processes, "fail", {"how": how})

        assert (failed.value.kind, failed.value.retry, failed.value.after) == (kind, retry, after)

    async def test_a_failure_tells_where_in_the_users_code(self, processes: ProcessExecutor) -> None:
        with pytest.raises(TaskFailed, match=r'^no such thing\n\nTraceback[^\n]*\n  File "[^"]*process_tasks.py'):
            await run(processes, "fail", {"how": "plain"})
        with pytest.raises(TaskFailed) as failed:
            await run(processes, "fail", {"how": "plain"})
        assert "process_tasks.py" in failed.value.traceback
        assert failed.value.path == f"builtins.{failed.value.kind}"

    async def test_a_payload_that_does_not_fit_fails_for_good(self, processes: ProcessExecutor) -> None:
        with pytest.raises(TaskFailed) as failed:
            await run(processes, "add", {"a": 1})

        assert (failed.value.kind, failed.value.retry) == ("BadPayload", False)

    async def test_tasks_that_cannot_be_loaded_fail_the_run_and_say_why(self, tmp_path: Path) -> None:
        broken = tmp_path / "broken_tasks.py"
        broken.write_text("raise RuntimeError('half written')")
        executor = ProcessExecutor(Settings(tasks=(str(broken),)), 1)

        with pytest.raises(TaskFailed, match="half written"):
            await executor.run(work("add", {"a": 1, "b": 2}))
        await executor.close()


class TestReuse:
    async def test_each_run_is_a_copy_of_a_process_that_is_kept(self, processes: ProcessExecutor) -> None:
        first, second = await run(processes, "who"), await run(processes, "who")

        assert first["template"] == second["template"]
        assert first["pid"] != second["pid"]
        assert second["runs"] == 1

    async def test_a_failure_does_not_cost_the_process(self, processes: ProcessExecutor) -> None:
        first = await run(processes, "who")
        with pytest.raises(TaskFailed):
            await run(processes, "fail", {"how": "exit"})

        assert (await run(processes, "who"))["template"] == first["template"]

    async def test_one_with_another_memory_limit_is_replaced(self, processes: ProcessExecutor) -> None:
        sizes = [Resources(memory_mb=size) for size in (300, 400, 300)]
        first, second, third = [(await run(processes, "who", resources=size))["template"] for size in sizes]

        assert first == third != second
        await run(processes, "who", resources=Resources(memory_mb=500))
        await until(lambda: len(children()) == 2)  # the oldest made room

    async def test_a_run_that_must_be_alone_gets_a_fresh_one_used_once(self, processes: ProcessExecutor) -> None:
        usual = (await run(processes, "who"))["template"]
        seen = [msgspec.json.decode(await processes.run_alone(work("who")) or b"")["template"] for _ in range(2)]

        assert len({usual, *seen}) == 3
        assert (await run(processes, "who"))["template"] == usual

    @pytest.mark.parametrize(
        "left", ["threading.Thread(target=time.sleep, args=(600,), daemon=True).start()", "open(__file__)", "fork()"]
    )
    async def test_where_a_fork_would_not_do_each_run_gets_a_fresh_one(self, left: str, tmp_path: Path) -> None:
        file = tmp_path / "leaving_tasks.py"
        file.write_text(LEAVING.format(left=left))
        executor = ProcessExecutor(msgspec.structs.replace(SETTINGS, tasks=(str(file),)), 1)
        seen = [msgspec.json.decode(await executor.run(work("who")) or b"") for _ in range(2)]

        assert seen[0]["pid"] != seen[1]["pid"]
        assert [who["runs"] for who in seen] == [1, 1]
        await executor.close()
        assert children() == set()

    async def test_one_that_was_killed_while_idle_is_not_used(self, processes: ProcessExecutor) -> None:
        os.kill((await run(processes, "who"))["template"], signal.SIGKILL)
        await until(lambda: children() == set())

        assert await run(processes, "add", {"a": 1, "b": 2}) == 3

    async def test_one_that_died_this_moment_is_not_used(self, processes: ProcessExecutor) -> None:
        """Before the loop could notice."""
        os.kill((await run(processes, "who"))["template"], signal.SIGKILL)
        while not all(has_ended(pid) for pid in children()):
            pass

        assert await run(processes, "add", {"a": 1, "b": 2}) == 3

    async def test_no_more_run_at_once_than_there_is_room_for(self, processes: ProcessExecutor) -> None:
        await asyncio.gather(*(run(processes, "add", {"a": 1, "b": 2}) for _ in range(10)))

        assert len(children()) == 2

    async def test_the_process_imports_no_server_and_no_driver(self, processes: ProcessExecutor) -> None:
        imported = set(await run(processes, "imported"))

        assert "oncue.context" in imported
        assert not imported & {"starlette", "asyncpg", "apsw", "httpx2", "httpcore2", "rich", "click"}

    async def test_nothing_is_left_open_after_many_runs(self, processes: ProcessExecutor) -> None:
        await run(processes, "who")
        before = open_descriptors()
        for number in range(20):
            if number % 10 == 0:
                await processes.run_alone(work("who"))
            else:
                await run(processes, "who")

        await until(lambda: open_descriptors() <= before)
        assert len(children()) == 1


class TestApart:
    """What one run leaves behind is not there when the next one starts, and cannot reach it."""

    @pytest.mark.parametrize("how", ["leave", "twist"])
    async def test_threads_children_and_whatever_else_a_process_can_keep(
        self, processes: ProcessExecutor, how: str
    ) -> None:
        fresh = await run(processes, "look")
        second = Remembered()
        await run(processes, how, {"mark": "the first"})
        found = await run(processes, "look", {"seconds": 0.3}, reports=second)

        assert found == fresh
        assert second.text == "of the second\n"
        assert (second.saved, second.told) == ([], [])

    async def test_an_asyncio_task(self, processes: ProcessExecutor) -> None:
        second = Remembered()
        await run(processes, "leave_async", {"mark": "the first"})
        await run(processes, "polite_for_a_while", reports=second)

        assert second.text == "of the second\n"
        assert second.saved == []

    async def test_nothing_of_a_run_is_alive_when_its_result_is_there(self, processes: ProcessExecutor) -> None:
        assert has_ended(await run(processes, "leave", {"mark": "the first"}))

    async def test_copies_and_programs_of_a_run_end_by_signals(self, processes: ProcessExecutor) -> None:
        assert await run(processes, "end_copies") == [-signal.SIGTERM, -signal.SIGINT]

    async def test_a_run_starts_where_the_worker_was_started(
        self, processes: ProcessExecutor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        here = str(Path.cwd())
        monkeypatch.chdir(tmp_path)  # as a task in a thread of the worker might

        assert (await run(processes, "look"))["folder"] == here

    async def test_what_is_ours_is_not_in_its_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("ONCUE_ENGINE", "ONCUE_API_KEY", "OTEL_EXPORTER_OTLP_HEADERS", "PGPASSWORD"):
            monkeypatch.setenv(name, "geheim")
        monkeypatch.setenv("SHOP_DATABASE", "theirs")
        settings = msgspec.structs.replace(SETTINGS, engine="postgresql://oncue@db/oncue")
        executor = ProcessExecutor(settings, 1)
        found = msgspec.json.decode(await executor.run(work("environment")) or b"")
        await executor.close()

        assert found["SHOP_DATABASE"] == "theirs"
        assert "geheim" not in str(found)


class TestWardens:
    """A task may do to its warden whatever it likes: the run ends, and nothing of it stays."""

    @pytest.mark.parametrize("again", [False, True])
    async def test_one_that_is_stopped(
        self, processes: ProcessExecutor, monkeypatch: pytest.MonkeyPatch, again: bool
    ) -> None:
        monkeypatch.setattr(contained, "WARDEN_TIMEOUT", 0.3)
        mark = f"marked-{os.getpid()}-stopped"
        monkeypatch.setenv("MARK", mark)
        reports = Remembered()
        payload = {"number": int(signal.SIGSTOP), "again": again}
        running = asyncio.create_task(run(processes, "against_warden", payload, reports=reports))
        await until(lambda: "ready" in reports.text)
        await cancel(running)

        await until(lambda: alive_with(mark) == set())
        assert await run(processes, "add", {"a": 1, "b": 2}) == 3

    async def test_one_that_is_killed(self, processes: ProcessExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
        mark = f"marked-{os.getpid()}-killed"
        monkeypatch.setenv("MARK", mark)
        with pytest.raises(ProcessLost):
            await run(processes, "against_warden", {"number": int(signal.SIGKILL)})

        await until(lambda: alive_with(mark) == set())
        assert await run(processes, "add", {"a": 1, "b": 2}) == 3


class TestHarm:
    @pytest.mark.parametrize(
        ("how", "said"),
        [
            ("exit", "the process ended with exit code 3"),
            ("kill", r"the process ended with signal 9 \(KILL\): out of memory, or killed by another process"),
            ("close", "closed its connection to the worker"),
        ],
    )
    async def test_a_process_that_falls_silent_is_lost_and_the_next_run_gets_another(
        self, processes: ProcessExecutor, how: str, said: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(warm, "LAST_WORDS", 0.2)
        with pytest.raises(ProcessLost, match=said):
            await run(processes, "end", {"how": how})

        assert await run(processes, "add", {"a": 1, "b": 2}) == 3

    @pytest.mark.parametrize("words", ["hello", "[" * 5_000, '{"type":"progress","stored":"bm8ganNvbg=="}'])
    async def test_a_process_that_says_what_nobody_understands_is_lost(
        self, processes: ProcessExecutor, words: str
    ) -> None:
        with pytest.raises(ProcessLost, match="sent an invalid message"):
            await run(processes, "babble", {"words": words})

        assert await run(processes, "add", {"a": 1, "b": 2}) == 3

    async def test_a_task_that_forks_and_returns_twice_answers_once(self, processes: ProcessExecutor) -> None:
        assert await run(processes, "fork") is True
        assert await run(processes, "add", {"a": 1, "b": 2}) == 3

    async def test_a_memory_bomb_fails_and_its_neighbour_lives(self, processes: ProcessExecutor) -> None:
        reports = Remembered()
        neighbour = asyncio.create_task(run(processes, "polite", reports=reports))
        await until(lambda: "ready" in reports.text)

        with pytest.raises(TaskFailed) as failed:
            await run(processes, "hog", resources=Resources(memory_mb=200))
        assert failed.value.kind == "MemoryError"
        assert not neighbour.done()
        await cancel(neighbour)

    async def test_a_run_with_endless_output_can_be_stopped_and_others_go_on(self, processes: ProcessExecutor) -> None:
        reports = Remembered()
        running = asyncio.create_task(run(processes, "flood", reports=reports))
        await until(lambda: len(reports.text) >= SETTINGS.max_log_bytes)
        await run(processes, "add", {"a": 1, "b": 2})
        await cancel(running)

    async def test_who_ignores_term_is_killed_after_the_grace_with_all_it_started(
        self, processes: ProcessExecutor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        mark = f"marked-{os.getpid()}-stubborn"
        monkeypatch.setenv("MARK", mark)
        reports = Remembered()
        running = asyncio.create_task(run(processes, "stubborn", reports=reports))
        await until(lambda: "ready" in reports.text)
        assert len(alive_with(mark)) == 4  # the warden, the process that waits for runs, the run's, its grandchild
        await cancel(running)

        assert alive_with(mark) == set()

    @pytest.mark.parametrize(("name", "said"), [("polite", "told to stop"), ("polite_async", "told to stop: True")])
    async def test_a_stopped_function_is_told_and_may_say_a_last_word(self, name: str, said: str) -> None:
        patient = ProcessExecutor(msgspec.structs.replace(SETTINGS, kill_grace=Duration(60 * SECOND)), 1)
        reports = Remembered()
        running = asyncio.create_task(run(patient, name, reports=reports))
        await until(lambda: "ready" in reports.text)
        await cancel(running)

        assert reports.text.splitlines() == ["ready", said]
        assert reports.saved == ([b'"half"'] if name == "polite" else [])
        await patient.close()

    async def test_a_run_can_be_stopped_at_any_moment_of_its_start(
        self, processes: ProcessExecutor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        mark = f"marked-{os.getpid()}-early"
        monkeypatch.setenv("MARK", mark)
        await processes.run_alone(work("who"))  # a loop opens some things once, with its first process
        await processes.close()
        before = open_descriptors()
        for steps in range(12):
            running = asyncio.create_task(run(processes, "polite"))
            for _ in range(steps):
                await asyncio.sleep(0)
            await cancel(running)

        await until(lambda: alive_with(mark) == set())
        assert children() == set()
        await until(lambda: open_descriptors() <= before)

    def test_when_the_worker_is_killed_nothing_it_started_remains(self) -> None:
        mark = f"marked-{os.getpid()}-owner"
        owner = subprocess.Popen(
            [sys.executable, "-c", OWNER],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "MARK": mark},
            cwd=Path(__file__).parents[2],
        )
        assert owner.stdout is not None
        assert owner.stdout.readline() == "ready\n"
        assert len(alive_with(mark)) == 5
        owner.kill()
        owner.communicate()

        asyncio.run(until(lambda: alive_with(mark) == set()))


async def cancel(running: asyncio.Task[object]) -> None:
    running.cancel()
    async with asyncio.timeout(SOON):
        with pytest.raises(asyncio.CancelledError):
            await running
