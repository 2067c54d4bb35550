"""Async functions in the worker's loop."""

import asyncio

import pytest
from tests.executors.working import RUN, Remembered, attempt, until

from oncue.context import Context, current
from oncue.executors.functions import LoopExecutor
from oncue.executors.port import TaskFailed
from oncue.tasks import Task, Tasks

tasks = Tasks()
CAP = 100


@tasks.task("greet")
async def greet(ctx: Context, name: str, times: int = 1) -> dict[str, object]:
    return {"said": [f"hello {name}"] * times, "run": str(ctx.run_id)}


@tasks.task("whose")
async def whose(ctx: Context) -> None:
    reports = current.get()
    assert reports is not None
    reports.write("mine")


@tasks.task("give")
async def give(ctx: Context, what: str) -> object:
    return {"nothing": None, "not_json": object(), "too_much": "x" * CAP}[what]


@tasks.task("raise")
async def raising(ctx: Context, kind: str) -> None:
    raise {"exit": SystemExit(1), "interrupt": KeyboardInterrupt(), "cancelled": asyncio.CancelledError()}[kind]


@tasks.task
async def double(a: int) -> int:
    return 2 * a


@tasks.task(no_retry_on=(LookupError,))
async def look_up(key: str) -> int:
    return {"known": 1}[key]


@tasks.task("wait")
async def wait(ctx: Context) -> None:
    await asyncio.Event().wait()


def task(name: str) -> Task:
    found = tasks.get(name)
    assert found is not None
    return found


async def run(name: str, payload: bytes | None = None, reports: Remembered | None = None) -> bytes | None:
    return await asyncio.create_task(LoopExecutor(CAP).run(attempt(task(name), payload, reports)))


async def test_the_payload_becomes_arguments_and_the_result_json() -> None:
    said = await run("greet", b'{"name":"you","times":2}')

    assert said == b'{"said":["hello you","hello you"],"run":"%s"}' % str(RUN).encode()


async def test_a_function_that_takes_no_context_gets_none() -> None:
    assert await run("double", b'{"a":2}') == b"4"


async def test_what_its_task_does_not_retry_is_not_retried() -> None:
    with pytest.raises(TaskFailed) as failed:
        await run("look_up", b'{"key":"unknown"}')

    assert (failed.value.kind, failed.value.retry) == ("KeyError", False)


async def test_code_under_a_run_knows_whose_it_is_and_nobody_else_does() -> None:
    reports = Remembered()
    await run("whose", reports=reports)

    assert reports.text == "mine"
    assert current.get() is None


async def test_no_result_is_none() -> None:
    assert await run("give", b'{"what":"nothing"}') is None


@pytest.mark.parametrize(
    ("name", "payload", "kind"),
    [
        ("greet", b'{"name":1}', "BadPayload"),
        ("greet", b'{"name":"you","extra":1}', "BadPayload"),
        ("greet", None, "BadPayload"),
        ("greet", b"[" * 100_000, "BadPayload"),
        ("give", b'{"what":"not_json"}', "BadResult"),
        ("give", b'{"what":"too_much"}', "BadResult"),
    ],
)
async def test_what_can_never_work_is_not_tried_again(name: str, payload: bytes | None, kind: str) -> None:
    with pytest.raises(TaskFailed) as failed:
        await run(name, payload)

    assert (failed.value.kind, failed.value.retry) == (kind, False)


@pytest.mark.parametrize(
    ("kind", "name"), [("exit", "SystemExit"), ("interrupt", "KeyboardInterrupt"), ("cancelled", "CancelledError")]
)
async def test_an_exception_that_would_end_the_loop_or_pass_for_a_cancel_is_a_plain_failure(
    kind: str, name: str
) -> None:
    with pytest.raises(TaskFailed) as failed:
        await run("raise", b'{"kind":"%s"}' % kind.encode())

    assert (failed.value.kind, failed.value.retry) == (name, True)


async def test_a_cancelled_run_is_cancelled() -> None:
    running = asyncio.create_task(run("wait"))
    await until(lambda: len(asyncio.all_tasks()) >= 2)
    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running
