"""A run gets the secrets that it names, in every executor, and nothing that comes out of it has them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.executors.working import Remembered, attempt

from oncue.domain.secret_refs import SecretAccess
from oncue.executors import capture
from oncue.executors.command import command_task
from oncue.executors.functions import LoopExecutor
from oncue.executors.http import http_task
from oncue.executors.loading import load_tasks
from oncue.executors.port import Executor, TaskFailed
from oncue.executors.processes import ProcessExecutor
from oncue.executors.secrets import SecretSource, WithSecrets
from oncue.executors.threads import ThreadExecutor
from oncue.settings import Settings
from oncue.tasks import Isolation, Task

VALUE = "planted-4f9a-value-of-a-secret"
NAMED = {"secret": "token"}
FILE = str(Path(__file__).with_name("secret_tasks.py"))
SETTINGS = Settings(tasks=(FILE,), http_allow=("127.0.0.1/32",), allow_commands=True)
EVERYWHERE = [
    "loop",
    "thread",
    pytest.param("process", marks=pytest.mark.kills),
    pytest.param("async process", marks=[pytest.mark.kills, pytest.mark.long]),
]


class Runner:
    """Runs tasks as a worker does, and remembers what they reported."""

    def __init__(self, executors: dict[Isolation, Executor], source: SecretSource) -> None:
        self._executors = executors
        self._source = source
        self.reports = Remembered()

    async def run(self, task: Task, **payload: Any) -> Any:
        executor = WithSecrets(self._executors[task.isolation], self._source, SecretAccess("alice"))
        work = attempt(task, msgspec.json.encode(payload), self.reports)
        undo = capture.install()
        try:
            result = await asyncio.create_task(executor.run(work))
        finally:
            undo()
        return None if result is None else msgspec.json.decode(result)

    async def failure(self, task: Task, **payload: Any) -> TaskFailed:
        with pytest.raises(TaskFailed) as failed:
            await self.run(task, **payload)
        return failed.value


@pytest.fixture
async def runner(tmp_path: Path) -> AsyncIterator[Runner]:
    (tmp_path / "alice").mkdir()
    (tmp_path / "alice" / "token").write_text(VALUE + "\n")
    processes, threads = ProcessExecutor(SETTINGS, 1), ThreadExecutor(10_000)
    executors: dict[Isolation, Executor] = {
        Isolation.LOOP: LoopExecutor(10_000),
        Isolation.THREAD: threads,
        Isolation.PROCESS: processes,
    }
    yield Runner(executors, SecretSource(str(tmp_path), {}))
    await processes.close()
    await threads.close()


@pytest.fixture(params=EVERYWHERE)
def task(request: pytest.FixtureRequest) -> Task:
    found = load_tasks(SETTINGS.tasks).get(request.param)
    assert found is not None
    return found


async def test_a_task_gets_the_value_and_its_result_is_masked(runner: Runner, task: Task) -> None:
    assert await runner.run(task, token=NAMED) == {"token": "•••", "length": len(VALUE)}


@pytest.mark.parametrize("how", ["print", "log"])
async def test_its_log_is_masked(runner: Runner, task: Task, how: str) -> None:
    await runner.run(task, token=NAMED, how=how)

    assert "it is •••" in runner.reports.text
    assert VALUE[:9] not in runner.reports.text
    assert VALUE[9:] not in runner.reports.text


async def test_half_of_a_value_at_the_end_of_a_log_is_masked(runner: Runner, task: Task) -> None:
    await runner.run(task, token=NAMED, how="half")

    assert runner.reports.text == "half of it: •••"


@pytest.mark.parametrize("how", ["raise", "raise long", "raise short"])
async def test_its_error_is_masked_also_where_it_is_cut(runner: Runner, task: Task, how: str) -> None:
    failed = await runner.failure(task, token=NAMED, how=how)

    assert failed.kind == "ValueError"
    assert "•••" in str(failed)
    for part in (VALUE[:8], VALUE[-8:]):
        assert part not in str(failed) + failed.trace + failed.traceback + runner.reports.text
    assert (failed.path, "•••" in failed.traceback) == ("builtins.ValueError", True)


async def test_a_checkpoint_with_a_secret_is_refused(runner: Runner, task: Task) -> None:
    failed = await runner.failure(task, token=NAMED, how="checkpoint")

    assert "contains the value of a secret" in str(failed)
    assert runner.reports.saved == []
    assert VALUE not in str(failed)


async def test_progress_is_reported(runner: Runner, task: Task) -> None:
    await runner.run(task, token=NAMED, how="progress")

    assert runner.reports.told == [b'{"done":1,"total":2}']


async def test_a_process_does_not_find_it_in_its_environment(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor do other tasks in that of the worker: tests/processes/test_named_secrets.py."""
    task = load_tasks(SETTINGS.tasks).get("process")
    assert task is not None
    monkeypatch.setenv("ONCUE_SECRET_TOKEN", VALUE)
    assert await runner.run(task, token=NAMED, how="environment") == []


async def test_an_unknown_secret_fails_the_attempt_without_a_retry(runner: Runner, task: Task) -> None:
    failed = await runner.failure(task, token={"secret": "other"})

    assert (failed.kind, failed.retry) == ("SecretMissing", False)
    assert "no secret 'other': looked for alice/other in secrets_dir" in str(failed)


async def test_a_run_does_not_find_the_secrets_of_the_run_before(runner: Runner, task: Task) -> None:
    await runner.run(task, token=NAMED)
    runner._source = SecretSource("/nonexistent", {})

    assert (await runner.failure(task, token=NAMED)).kind == "SecretMissing"


async def test_a_payload_that_does_not_fit_is_a_bad_payload(runner: Runner, task: Task) -> None:
    failed = await runner.failure(task, token=VALUE)

    assert failed.kind == "BadPayload"
    assert VALUE not in str(failed)


def test_the_schema_says_that_it_is_a_secret(task: Task) -> None:
    schema = msgspec.json.decode(task.schema())

    assert schema["$defs"]["Payload"]["properties"]["token"] == {"$ref": "#/$defs/Secret"}
    assert "The name of a secret" in schema["$defs"]["Secret"]["description"]


# -------------------------------------------------------------------------------------------------------------- command


@pytest.fixture
def command() -> Task:
    return command_task(SETTINGS)


def shell(text: str) -> list[str]:
    return ["sh", "-c", text]


async def test_a_command_finds_it_in_its_environment_only(runner: Runner, command: Task) -> None:
    look = (
        'tr "\\0" "\\n" < /proc/$PPID/environ | grep -c "^TOKEN="; tr "\\0" " " < /proc/$PPID/cmdline; echo ${#TOKEN}'
    )
    result = await runner.run(command, argv=shell(look), env={"TOKEN": NAMED, "PLAIN": "x"})

    count, cmdline_and_length = result["output"].splitlines()
    assert count == "0"
    assert cmdline_and_length.endswith(f" {len(VALUE)}")
    assert "•••" not in cmdline_and_length


async def test_what_a_command_writes_is_masked_wherever_it_is_cut(runner: Runner, command: Task) -> None:
    slowly = 'printf "%.9s" "$TOKEN"; sleep 0.2; printf "%s\\n" "${TOKEN#?????????}"; echo "$TOKEN" >&2; echo $PLAIN'
    result = await runner.run(command, argv=shell(slowly), env={"TOKEN": NAMED, "PLAIN": "plain"})

    assert result == {"exit_code": 0, "output": "•••\nplain\n"}
    assert VALUE[:9] not in runner.reports.text
    assert VALUE[9:] not in runner.reports.text
    assert runner.reports.text.count("•••") == 2


async def test_the_end_of_its_output_does_not_begin_inside_of_a_value(runner: Runner, command: Task) -> None:
    result = await runner.run(
        command, argv=shell('for i in $(seq 400); do printf %s "$TOKEN"; done'), env={"TOKEN": NAMED}
    )

    assert set(result["output"]) <= {"•", "\N{REPLACEMENT CHARACTER}"}


async def test_the_error_of_a_command_is_masked(runner: Runner, command: Task) -> None:
    failed = await runner.failure(command, argv=shell('echo "bad $TOKEN" >&2; exit 3'), env={"TOKEN": NAMED})

    assert (failed.kind, str(failed)) == ("ExitCode", "sh ended with exit code 3: bad •••")


async def test_a_value_that_no_environment_takes_is_not_told(runner: Runner, command: Task, tmp_path: Path) -> None:
    (tmp_path / "alice" / "token").write_text("12345678\0" + VALUE)
    failed = await runner.failure(command, argv=["true"], env={"TOKEN": NAMED})

    assert str(failed) == "env: the value of 'TOKEN' contains a NUL character"


async def test_a_job_cannot_change_the_ids_by_a_secret(runner: Runner, command: Task) -> None:
    result = await runner.run(command, argv=shell("echo $ONCUE_RUN_ID"), env={"ONCUE_RUN_ID": NAMED})

    assert result["output"].strip() == "00000000-0000-0000-0000-000000000001"


async def test_much_in_the_environment_is_a_clear_failure(runner: Runner, command: Task, tmp_path: Path) -> None:
    (tmp_path / "alice" / "token").write_text("x" * 60_001)
    failed = await runner.failure(command, argv=["true"], env={"TOKEN": NAMED})

    assert (failed.kind, failed.retry) == ("BadCommand", False)
    assert "more than 60000 bytes" in str(failed)


# ----------------------------------------------------------------------------------------------------------------- http


class Echo:
    """Answers with what it was sent, and with `status`."""

    def __init__(self) -> None:
        self.got = ""
        self.status = 200
        self.headers = f"ETag: {VALUE}\r\n"
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next((int(line[15:]) for line in head.lower().split("\r\n") if line.startswith("content-length:")), 0)
        self.got = head + (await reader.readexactly(length)).decode()
        body = self.got.encode()
        writer.write(f"HTTP/1.1 {self.status} X\r\n{self.headers}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()
        writer.close()


@asynccontextmanager
async def echoing() -> AsyncIterator[Echo]:
    echo = Echo()
    server = await asyncio.start_server(echo.serve, "127.0.0.1", 0)
    echo.port = server.sockets[0].getsockname()[1]
    try:
        yield echo
    finally:
        server.close()
        await server.wait_closed()


@pytest.fixture
def http() -> Task:
    return http_task(SETTINGS)


async def test_headers_and_body_of_a_call_have_it_and_the_result_has_not(runner: Runner, http: Task) -> None:
    async with echoing() as echo:
        body = {"a": [NAMED, {"secret": "x", "more": 1}], "b": NAMED}
        headers = {"Authorization": NAMED, "X-Plain": "plain"}
        result = await runner.run(http, url=f"http://127.0.0.1:{echo.port}/", method="POST", headers=headers, body=body)

    assert f"Authorization: {VALUE}\r\n" in echo.got
    assert echo.got.endswith(f'{{"a":["{VALUE}",{{"secret":"x","more":1}}],"b":"{VALUE}"}}')
    assert VALUE not in str(result)
    assert result["headers"]["etag"] == "•••"
    assert "X-Plain: plain" in result["body"]


async def test_letters_beyond_ascii_are_masked_in_headers_which_are_read_as_latin_1(
    runner: Runner, http: Task, tmp_path: Path
) -> None:
    value = "planted-größe-value"
    (tmp_path / "alice" / "token").write_text(value)
    async with echoing() as echo:
        echo.headers = f"ETag: {value}\r\n"
        result = await runner.run(http, url=f"http://127.0.0.1:{echo.port}/", headers={"X-Token": NAMED})

    assert f"X-Token: {value}\r\n" in echo.got
    assert result["headers"]["etag"] == "•••"


async def test_an_answer_is_masked_before_it_is_cut(runner: Runner, http: Task) -> None:
    async with echoing() as echo:
        echo.status, echo.headers = 302, f"Location: http://x/{'y' * 175}{VALUE}\r\n"
        headers = {"Authorization": NAMED}
        failed = await runner.failure(http, url=f"http://127.0.0.1:{echo.port}/", headers=headers)

    assert "yyy•••: GET / HTTP/1.1" in str(failed)


async def test_a_whole_body_may_be_a_secret(runner: Runner, http: Task) -> None:
    async with echoing() as echo:
        await runner.run(http, url=f"http://127.0.0.1:{echo.port}/", method="POST", body=NAMED)

    assert echo.got.endswith(f"\r\n\r\n{VALUE}")


async def test_a_url_may_be_a_secret_and_is_not_told(runner: Runner, http: Task, tmp_path: Path) -> None:
    async with echoing() as echo:
        (tmp_path / "alice" / "token").write_text(f"http://127.0.0.1:{echo.port}/hooks/T01/zzzzzz?key={VALUE}\n")
        result = await runner.run(http, url=NAMED)
        echo.status = 400
        failed = await runner.failure(http, url=NAMED)

    assert echo.got.startswith(f"GET /hooks/T01/zzzzzz?key={VALUE} HTTP/1.1\r\n")
    for said in (str(result), str(failed)):
        assert VALUE not in said
        assert "zzzzzz" not in said
    assert str(failed).startswith("GET http://•••")


@pytest.mark.parametrize(
    "url", ["http://10.0.0.15/hook", "http://169.254.169.254/latest", "http://0x7f.2/", "ftp://x/"]
)
async def test_the_guard_judges_the_secret_url(runner: Runner, http: Task, tmp_path: Path, url: str) -> None:
    (tmp_path / "alice" / "token").write_text(url)
    failed = await runner.failure(http, url=NAMED)

    assert (failed.kind, failed.retry) == ("AddressRefused", False)
    assert not any(part in str(failed) for part in ("10.0.0.15", "169.254", "127.0", "0x7f"))


async def test_a_host_of_a_secret_url_is_not_told(runner: Runner, http: Task, tmp_path: Path) -> None:
    (tmp_path / "alice" / "token").write_text("http://planted.invalid/hook")
    failed = await runner.failure(http, url=NAMED)

    assert failed.kind == "HttpError"
    assert "planted" not in str(failed)


@pytest.mark.parametrize("inside", ["\r\nX-Injected: 1", "\nX: 1", "\r", "\0"])
async def test_a_value_cannot_inject_headers(runner: Runner, http: Task, tmp_path: Path, inside: str) -> None:
    async with echoing() as echo:
        (tmp_path / "alice" / "token").write_bytes((VALUE + inside + "end").encode())
        failed = await runner.failure(http, url=f"http://127.0.0.1:{echo.port}/", headers={"X-Token": NAMED})

    assert echo.got == ""
    assert (failed.kind, failed.retry) == ("BadHeader", False)
    assert str(failed) == "payload.headers: 'X-Token' contains characters that are not allowed in a header"
