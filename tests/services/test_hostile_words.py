"""Whatever user code says, its run ends with an outcome that tells what happened, and its neighbours do not notice."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote, unquote

import msgspec
import pytest
from tests.services import hostile
from tests.services.hostile import ERRORS, FORGED, NUMBERS, VALUES, WORDS

from oncue import Context, Tasks
from oncue.api import views
from oncue.domain.attempt import LONGEST_TRACEBACK
from oncue.domain.ids import RunId
from oncue.domain.instants import MINUTE, Duration
from oncue.domain.placement import Offer, Resources
from oncue.domain.run import RunView, State, read_attempts
from oncue.executors import capture
from oncue.executors.command import command_task
from oncue.executors.functions import LoopExecutor
from oncue.executors.http import http_task
from oncue.executors.port import Executor
from oncue.executors.processes import ProcessExecutor
from oncue.executors.threads import ThreadExecutor
from oncue.services.execution import Execution
from oncue.services.worker_loops import WorkerLoops, places
from oncue.settings import Settings
from oncue.tasks import Isolation
from oncue.testing.conformance import Store

NEIGHBOURS = 20
SETTINGS = Settings(
    storage="memory:///",
    max_result_bytes=256 * 1024,
    tasks=(str(Path(hostile.__file__)),),
    processes=2,
    threads=8,
    http_allow=("127.0.0.1/32",),
)
Case = tuple[str, str]

CASES: list[Case] = [
    *(("error", what) for what in ERRORS),
    *(("result", what) for what in VALUES),
    *(("checkpoint", what) for what in VALUES),
    *(("print", what) for what in WORDS),
    *(("log", what) for what in WORDS),
    *(("progress", what) for what in NUMBERS),
    *(("forged", what) for what in FORGED),
    ("forged_checkpoint", ""),
]


@asynccontextmanager
async def crew_of(store: Store, tasks: Tasks) -> AsyncIterator[WorkerLoops]:
    """A crew as worker processes have it, with real executors, on a clock that stands still."""
    threads, processes = ThreadExecutor(SETTINGS.max_result_bytes), ProcessExecutor(SETTINGS, 2)
    executors: dict[Isolation, Executor] = {
        Isolation.LOOP: LoopExecutor(SETTINGS.max_result_bytes),
        Isolation.THREAD: threads,
        Isolation.PROCESS: processes,
    }
    slots = {task.name: places(SETTINGS)[task.takes] for task in tasks}
    offer = Offer(frozenset(slots), frozenset({"default"}), resources=Resources(4_000, 4_000, 1_000), slots=slots)
    worker_id = await store.worker()
    undo = capture.install()
    try:
        yield WorkerLoops(
            *(store.engine, store.clock, SETTINGS, worker_id, offer),
            Execution(tasks, executors, processes, SETTINGS.kill_grace),
            chance=Random(1),
            linger=Duration(0),
        )
    finally:
        undo()
        await threads.close()
        await processes.close()


async def ends(store: Store, crew: WorkerLoops, run_ids: list[RunId]) -> dict[RunId, RunView]:
    """All of these, once they have ended. Attempts that were lost on the way would make this wait in vain."""
    views: dict[RunId, RunView] = {}
    async with asyncio.timeout(60):
        while len(views) < len(run_ids):
            await one_pass(crew)
            if not crew.busy:
                found = [await store.run(run_id) for run_id in run_ids if run_id not in views]
                views |= {view.run_id: view for view in found if view.state.final}
    return views


async def one_pass(crew: WorkerLoops) -> None:
    for member in (crew.worker, crew.attempts, crew.settling, crew.reporting):
        await member.run_once()
    await asyncio.sleep(0.002)


def check_neighbours(found: dict[RunId, RunView], neighbours: list[RunId]) -> None:
    for run_id in neighbours:
        view = found[run_id]
        assert (view.state, view.result, view.failures, view.losses) == (State.SUCCEEDED, b'"as usual"', 0, 0)


async def check_shown(store: Store, view: RunView) -> Any:
    """As the API answers: JSON that everybody can read, of a decent size. Returned: the run as it is shown."""
    shown = msgspec.json.encode(views.whole_run(view, views.Known(await store.jobs.classes()), store.now))
    (await store.log(view.run_id)).decode()
    assert len(shown) < 1_000_000
    run = json.loads(shown)
    for text in (run["error_type"] or "", run["error_message"] or ""):
        assert "\0" not in text
    assert len(run["error_type"] or "") <= 101
    assert len(run["error_message"] or "") < 4_200
    for attempt in run["attempts"]:
        trace, path = attempt["traceback"] or "", attempt["error_class"] or ""
        assert len(trace.encode()) <= LONGEST_TRACEBACK
        assert not set(trace + path) & {"\0", "\x1b", "\r"}
        assert len(path) <= 201
    return run


# ----------------------------------------------------------------------------------------------------------- functions


@pytest.mark.parametrize(
    "task",
    [
        "loop",
        "thread",
        pytest.param("process", marks=pytest.mark.kills),
        pytest.param("process_async", marks=[pytest.mark.kills, pytest.mark.long]),
    ],
)
async def test_whatever_a_function_says_its_run_ends_and_tells_what_happened(store: Store, task: str) -> None:
    cases = CASES
    if task.startswith("process"):  # where each that is forged costs the process, and time
        few = [case for case in CASES if case[0] != "forged" or case[1] in ("numbers", "megabyte")]
        cases = [*few, ("raw", "bytes"), ("forged_result", "")]
    new = []
    for number, (channel, what) in enumerate(cases):
        payload = msgspec.json.encode({"channel": channel, "what": what})
        new.append(await store.new_one_shot(task=task, payload=payload, max_retries=0))
        if number % (len(cases) // NEIGHBOURS) == 0:
            new.append(await store.new_one_shot(task="neighbour", max_retries=0))
    await store.create(*new)
    hostiles = [RunId(one.job.job_id) for one in new if one.job.spec.task == task]
    neighbours = [RunId(one.job.job_id) for one in new if one.job.spec.task != task]

    async with crew_of(store, hostile.tasks) as crew:
        found = await ends(store, crew, hostiles + neighbours)
        async with asyncio.timeout(60):
            while crew.reporting.storing:  # the end of a run does not wait for long, and the clock runs fast here
                await one_pass(crew)

    check_neighbours(found, neighbours)
    for run_id, (channel, what) in zip(hostiles, cases, strict=True):
        run = await check_shown(store, found[run_id])
        said = (await store.log(run_id)).decode()
        told = (run["status"], run["error_type"], run["error_message"])
        assert found[run_id].losses == 0, (channel, what, told)
        assert as_expected(channel, what, run, said), (channel, what, told, run["result"], said[:2_000])


def as_expected(channel: str, what: str, run: dict[str, Any], said: str) -> bool:
    status, kind, message = run["status"], run["error_type"], run["error_message"]
    failed = status == "dead" and bool(message)
    match channel:
        case "error":
            return failed and kind == ERRORS[what][1]
        case "result" if VALUES[what][1]:
            return bool(status == "succeeded" and run["result"])
        case "result":
            return failed and kind == "BadResult"
        case "checkpoint" if not VALUES[what][1]:
            return failed and kind == "Invalid" and "checkpoint: is not JSON" in message
        case "progress" if not NUMBERS[what][1]:
            return failed and kind == "Invalid" and "progress.done: is not a finite number" in message
        case "forged" if not FORGED[what][1]:
            return failed and (kind == "ProcessLost" or (kind == "Invalid" and "progress" in message))
        case "forged_checkpoint":
            return failed and "at most" in message
        case "forged_result":
            return failed and kind == "BadResult"
        case "print" | "log":
            return bool(status == "succeeded" and said)
    return bool(status == "succeeded")


async def test_bad_words_cost_no_retries(store: Store) -> None:
    cases = ["nul", "surrogate", "mute", "own", "retry_after_number", "retry_after_timedelta", "syntax_fields"]
    payloads = [msgspec.json.encode({"channel": "error", "what": what}) for what in cases]
    run_ids = [await store.one_shot(task="loop", payload=payload, max_retries=1) for payload in payloads]

    async with crew_of(store, hostile.tasks) as crew:
        for attempts in (1, 2):
            async with asyncio.timeout(60):
                while min([(await store.run(run_id)).failures for run_id in run_ids]) < attempts:
                    await one_pass(crew)
            store.advance(MINUTE)

    for run_id in run_ids:
        view = await store.run(run_id)
        assert (view.state, view.failures) == (State.DEAD, 2)
        assert len(read_attempts(view.attempts)) == 2


async def test_a_task_that_cancels_itself_and_returns_has_ended(store: Store) -> None:
    """The cancel strikes at the next thing that is awaited, and that is ours: the writing of its log."""
    tasks = Tasks()

    @tasks.task("loop")
    async def cancels(ctx: Context) -> str:
        print("on my way")
        this = asyncio.current_task()
        assert this is not None
        this.cancel()
        return "done"

    run_id = await store.one_shot(task="loop", max_retries=0)
    async with crew_of(store, tasks) as crew:
        found = await ends(store, crew, [run_id])
        await crew.reporting.run_once()

    assert (found[run_id].state, found[run_id].result) == (State.SUCCEEDED, b'"done"')
    assert b"on my way" in await store.log(run_id)


async def test_an_attempt_ends_even_if_nobody_can_make_out_what_it_came_to(
    store: Store, monkeypatch: pytest.MonkeyPatch, logged: list[Any]
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError

    run_id = await store.one_shot(task="neighbour", max_retries=0)
    async with crew_of(store, hostile.tasks) as crew:
        monkeypatch.setattr("oncue.domain.attempt.succeeded", broken)
        monkeypatch.setattr("oncue.domain.attempt.failed", broken)
        found = await ends(store, crew, [run_id])

    assert (found[run_id].state, found[run_id].error_type) == (State.DEAD, "InternalError")
    assert "outcome of this attempt is unknown" in (found[run_id].error or "")
    assert [line["kind"] for line in logged if line["log_level"] == "error"] == ["attempt_broken", "run_dead"]


# ------------------------------------------------------------------------------------------------ commands and answers

PRINTS = r"printf 'a\000b\377\355\240\200\033[2J'"


async def test_whatever_a_command_says_its_run_ends_and_tells_what_happened(store: Store) -> None:
    tasks = Tasks()
    tasks.add(command_task(SETTINGS))
    tasks.include(task for task in hostile.tasks if task.name == "neighbour")
    fails, dies, talks = [
        await store.one_shot(task="command", max_retries=0, payload=msgspec.json.encode({"argv": ["sh", "-c", script]}))
        for script in (f"{PRINTS} >&2; exit 3", f"{PRINTS} >&2; kill -9 $$", f"{PRINTS}; {PRINTS} >&2")
    ]
    neighbours = await store.one_shots(5, task="neighbour", max_retries=0)

    async with crew_of(store, tasks) as crew:
        found = await ends(store, crew, [fails, dies, talks, *neighbours])

    check_neighbours(found, neighbours)
    shown = [await check_shown(store, found[run_id]) for run_id in (fails, dies, talks)]
    assert [run["error_type"] for run in shown] == ["ExitCode", "Signal", None]
    assert r"a\x00b" in shown[0]["error_message"]
    assert shown[2]["result"]["output"].startswith("a\0b")


DEPTHS = (62, 63, 64, 65, 66, 900, 5_000)
BODIES = [rb'"\u0000"', rb'"\ud800"', b"NaN", b"1e999", b"9" * 5_000, *(b"[" * n + b"]" * n for n in DEPTHS)]
ANSWERS: dict[str, tuple[bytes, str | None]] = {
    "a failure with NUL": (b"HTTP/1.1 500 a\r\nContent-Length: 3\r\n\r\na\0b", "HttpStatus"),
    "no HTTP": (b"\0\xff\r\n\r\n", "HttpError"),
    "text with NUL": (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nETag: \xff\r\n\r\na\0\xffb", None),
    **{
        f"JSON {number}": (
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body),
            None,
        )
        for number, body in enumerate(
            [
                rb'"\u0000"',
                rb'"\ud800"',
                b"NaN",
                b"1e999",
                b"9" * 5_000,
                *(b"[" * n + b"]" * n for n in range(700, 1_000)),
            ]
        )
    },
}


async def test_whatever_a_server_answers_the_run_ends_and_tells_what_happened(store: Store) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
        writer.write(ANSWERS[unquote(asked.removeprefix("/"))][0])
        await writer.drain()
        writer.close()

    tasks = Tasks()
    tasks.add(http_task(SETTINGS))
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server, crew_of(store, tasks) as crew:
        port = server.sockets[0].getsockname()[1]
        urls = [f"http://127.0.0.1:{port}/{quote(name)}" for name in ANSWERS]
        run_ids = [
            await store.one_shot(task="http", payload=msgspec.json.encode({"url": url}), max_retries=0) for url in urls
        ]
        found = await ends(store, crew, run_ids)

    shown = [await check_shown(store, found[run_id]) for run_id in run_ids]
    assert [run["error_type"] for run in shown] == [kind for _, kind in ANSWERS.values()]
