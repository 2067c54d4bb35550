"""The built-in task `command`: what it gives a program, what it keeps from it, and how each end is told."""

import asyncio
import os
import tracemalloc
from typing import Any

import msgspec
import pytest
from tests.executors.working import JOB, RUN, SOON, Remembered, alive_with, attempt, open_descriptors, until

from oncue.domain.instants import MILLISECOND, SECOND, Duration
from oncue.domain.placement import Resources
from oncue.executors.command import command_task
from oncue.executors.functions import LoopExecutor
from oncue.executors.port import TaskFailed
from oncue.settings import Settings
from oncue.tasks import Isolation

SETTINGS = Settings(
    kill_grace=Duration(200 * MILLISECOND), max_log_bytes=10_000, process_open_files=64, process_memory_mb=512
)


async def run(*argv: str, reports: Remembered | None = None, **given: Any) -> dict[str, object]:
    resources = given.pop("resources", None)
    timeout = given.pop("timeout", Duration(60 * SECOND))
    payload = msgspec.json.encode({"argv": argv, **given})
    work = attempt(command_task(SETTINGS), payload, reports, resources=resources, timeout=timeout)
    result = await asyncio.create_task(LoopExecutor(1 << 20).run(work))
    decoded: dict[str, object] = msgspec.json.decode(result or b"null")
    return decoded


async def failure(*argv: str, **given: Any) -> tuple[str, str, bool]:
    with pytest.raises(TaskFailed) as failed:
        await run(*argv, **given)
    return failed.value.kind, str(failed.value), failed.value.retry


def test_it_runs_in_the_loop_takes_a_place_of_a_process_and_is_for_whom_the_settings_say() -> None:
    task = command_task(Settings(command_roles=("admin", "member")))

    assert (task.name, task.isolation, task.takes) == ("command", Isolation.LOOP, Isolation.PROCESS)
    assert task.roles == ("admin", "member")


class TestWhatItSays:
    async def test_the_result_is_the_end_of_the_output_and_both_streams_are_logged(self) -> None:
        reports = Remembered()
        result = await run("sh", "-c", "echo out; echo err >&2", reports=reports)

        assert result == {"exit_code": 0, "output": "out\n"}
        assert sorted(reports.text.split()) == ["err", "out"]

    async def test_only_the_last_four_kibibytes_are_the_result(self) -> None:
        result = await run("sh", "-c", "seq 1 5000")

        assert len(str(result["output"])) == 4_096
        assert str(result["output"]).endswith("4999\n5000\n")

    async def test_what_is_no_text_is_replaced(self) -> None:
        assert (await run("printf", r"\377ok"))["output"] == "\ufffdok"

    async def test_characters_are_whole_although_pieces_are_not(self) -> None:
        reports = Remembered()
        await run("sh", "-c", r"printf '\303'; sleep 0.05; printf '\244'", reports=reports)

        assert reports.text == "ä"

    async def test_it_is_logged_as_it_comes(self) -> None:
        reports = Remembered()
        running = asyncio.create_task(run("sh", "-c", "echo early; exec sleep 600", reports=reports))
        await until(lambda: reports.text == "early\n")
        await cancel(running)

    async def test_stdin_is_what_the_job_gives_and_otherwise_empty(self) -> None:
        assert (await run("cat", stdin="hey"))["output"] == "hey"
        assert (await run("cat"))["output"] == ""


class TestEnvironment:
    async def environment(self, **given: Any) -> dict[str, str]:
        output = str((await run("env", **given))["output"])
        return dict(line.partition("=")[::2] for line in output.splitlines())

    async def test_nothing_of_ours_but_what_every_program_needs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        secrets = ["ONCUE_ENGINE", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "DATABASE_URL", "MY_TOKEN", "WHATEVER"]
        for name in secrets:
            monkeypatch.setenv(name, "secret")
        monkeypatch.setenv("LC_TIME", "C.UTF-8")
        seen = await self.environment()

        assert "secret" not in seen.values()
        assert seen["PATH"] == os.environ["PATH"]
        assert seen["LC_TIME"] == "C.UTF-8"

    async def test_what_the_job_gives_and_who_the_run_is(self) -> None:
        seen = await self.environment(env={"GREETING": "hello", "ONCUE_RUN_ID": "forged"})

        assert seen["GREETING"] == "hello"
        assert seen.pop("ONCUE_WARDEN")  # by which its processes are found
        assert {name: value for name, value in seen.items() if name.startswith("ONCUE_")} == {
            "ONCUE_RUN_ID": str(RUN),
            "ONCUE_JOB_ID": str(JOB),
            "ONCUE_ATTEMPT": "1",
            "ONCUE_SCHEDULED_FOR": "1970-01-01T00:00:00.000Z",
            "ONCUE_IDEMPOTENCY_KEY": str(RUN),
        }

    async def test_limits_are_the_jobs_or_the_workers(self) -> None:
        limits = ("sh", "-c", "ulimit -d; ulimit -n; ulimit -t")
        asked = Resources(memory_mb=256, cpu_milli=1_500)
        cpus = os.cpu_count() or 1

        theirs = await run(*limits, resources=asked, timeout=Duration(3 * SECOND))
        ours = await run(*limits, timeout=Duration(2 * SECOND))
        assert str(theirs["output"]).split() == [str(256 * 1024), "64", "5"]
        assert str(ours["output"]).split() == [str(512 * 1024), "64", str(2 * cpus)]


class TestFailures:
    async def test_an_exit_code_with_the_last_line_of_what_it_complained(self) -> None:
        kind, message, retry = await failure("sh", "-c", "echo first >&2; echo out of luck >&2; exit 3")

        assert (kind, message, retry) == ("ExitCode", "sh ended with exit code 3: out of luck", True)

    async def test_a_signal(self) -> None:
        kind, message, _ = await failure("sh", "-c", "kill -9 $$")

        assert (kind, message) == (
            "Signal",
            "sh ended with signal 9 (KILL): out of memory, or killed by another process",
        )

    @pytest.mark.parametrize(
        ("argv", "given", "kind", "said"),
        [
            (["no-such-program"], {}, "CommandNotFound", "no-such-program could not start: No such file"),
            (["/etc/passwd"], {}, "CommandNotFound", "Permission denied"),
            ([], {}, "BadCommand", "argv is empty"),
            ([""], {}, "BadCommand", "argv is empty"),
            (["echo", "a\0b"], {}, "BadCommand", "NUL"),
            (["echo"], {"env": {"A": "a\0b"}}, "BadCommand", "NUL"),
            (["echo"], {"env": {"A=B": "c"}}, "BadCommand", "is not a valid name of a variable"),
            (["echo"], {"cwd": "/no/such/folder"}, "BadCommand", "cwd '/no/such/folder'"),
            (["echo"], {"cwd": "a\0b"}, "BadCommand", "NUL"),
            (["echo", "x" * 200_000], {}, "BadCommand", "too long"),
            (["echo"], {"shell": True}, "BadPayload", "shell"),
        ],
    )
    async def test_what_can_never_work_is_not_tried_again(
        self, argv: list[str], given: dict[str, object], kind: str, said: str
    ) -> None:
        before = open_descriptors()
        told = await failure(*argv, **given)

        assert (told[0], told[2]) == (kind, False)
        assert said in told[1]
        assert open_descriptors() <= before


@pytest.mark.kills
class TestContainment:
    async def test_a_command_is_stopped_with_all_it_started(self) -> None:
        mark = f"marked-{os.getpid()}-command"
        script = "trap '' TERM; setsid sleep 600 </dev/null >/dev/null 2>&1 & echo ready; while :; do sleep 600; done"
        reports = Remembered()
        running = asyncio.create_task(run("sh", "-c", script, env={"MARK": mark}, reports=reports))
        await until(lambda: reports.text)
        await cancel(running)

        assert alive_with(mark) == set()

    async def test_endless_output_does_not_fill_memory(self) -> None:
        reports = Remembered()
        tracemalloc.start()
        running = asyncio.create_task(run("yes", reports=reports))
        await until(lambda: len(reports.text) >= SETTINGS.max_log_bytes)
        tracemalloc.reset_peak()
        for _ in range(200):
            await asyncio.sleep(0.001)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        await cancel(running)

        assert peak < 20 << 20

    async def test_nothing_is_left_open_after_many_runs(self) -> None:
        await run("true")
        before = open_descriptors()
        for _ in range(20):
            await run("true")

        assert open_descriptors() <= before


async def cancel(running: asyncio.Task[dict[str, object]]) -> None:
    running.cancel()
    async with asyncio.timeout(SOON):
        with pytest.raises(asyncio.CancelledError):
            await running
