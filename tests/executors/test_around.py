"""Middleware: around every kind of executor, the first declared outermost; what it raises is the failure."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.executors.working import Remembered, attempt, until

from oncue import Context, NoRetry, Tasks
from oncue.executors.around import WithMiddleware
from oncue.executors.functions import LoopExecutor
from oncue.executors.loading import load_tasks
from oncue.executors.port import Executor, TaskFailed
from oncue.executors.processes import ProcessExecutor
from oncue.executors.threads import ThreadExecutor
from oncue.settings import Settings
from oncue.tasks.hooks import Call, Middleware

CAP = 1_000
PROCESS_TASKS = str(Path(__file__).with_name("process_tasks.py"))


async def run(
    function: Callable[..., Any],
    *around: Middleware,
    executor: Executor | None = None,
    reports: Remembered | None = None,
) -> bytes | None:
    tasks = Tasks()
    tasks.task("task", no_retry_on=(KeyError,))(function)
    for one in around:
        tasks.middleware(one)
    [task] = tasks
    inner = executor or LoopExecutor(CAP)
    work = attempt(task, None, reports)
    return await asyncio.create_task(WithMiddleware(inner, task.shared.middleware, CAP).run(work))


async def give(ctx: Context) -> list[int]:
    return [1, 2]


async def raise_value(ctx: Context) -> None:
    raise ValueError("of the task")


async def passing(ctx: Context, call: Call) -> Any:
    return await call()


async def test_the_first_is_outermost_and_gets_the_context() -> None:
    seen = list[str]()

    def named(name: str) -> Middleware:
        async def middleware(ctx: Context, call: Call) -> Any:
            seen.append(f"{name} {ctx.task}")
            result = await call()
            seen.append(f"{name} {result}")
            return result

        return middleware

    assert await run(give, named("a"), named("b")) == b"[1,2]"
    assert seen == ["a task", "b task", "b [1, 2]", "a [1, 2]"]


async def test_it_may_return_something_else_or_not_call_at_all() -> None:
    async def other(ctx: Context, call: Call) -> Any:
        return {"was": await call()}

    async def instead(ctx: Context, call: Call) -> Any:
        return 5

    async def unstorable(ctx: Context, call: Call) -> Any:
        return object()

    assert await run(give, other) == b'{"was":[1,2]}'
    assert await run(give, instead) == b"5"
    with pytest.raises(TaskFailed) as failed:
        await run(give, unstorable)
    assert failed.value.kind == "BadResult"


async def test_what_it_raises_is_the_failure() -> None:
    async def refusing(ctx: Context, call: Call) -> Any:
        raise NoRetry("not today")

    async def by_rule(ctx: Context, call: Call) -> Any:
        raise KeyError("key")

    for middleware, kind in ((refusing, "NoRetry"), (by_rule, "KeyError")):
        with pytest.raises(TaskFailed) as failed:
            await run(give, middleware)
        assert (failed.value.kind, failed.value.retry) == (kind, False)


async def test_it_sees_the_exception_itself_and_passes_it_on_as_it_was() -> None:
    seen = list[BaseException]()

    async def watching(ctx: Context, call: Call) -> Any:
        try:
            return await call()
        except ValueError as error:
            seen.append(error)
            raise

    with pytest.raises(TaskFailed, match="of the task") as failed:
        await run(raise_value, watching)
    assert failed.value.kind == "ValueError"
    assert "in raise_value" in failed.value.trace
    assert "watching" not in failed.value.trace
    assert failed.value.error is seen[0]


async def test_it_may_make_a_failure_a_success() -> None:
    async def forgiving(ctx: Context, call: Call) -> Any:
        try:
            return await call()
        except ValueError:
            return "forgiven"

    assert await run(raise_value, forgiving) == b'"forgiven"'


async def test_it_runs_in_the_loop_around_a_thread() -> None:
    seen = list[int]()

    async def where(ctx: Context, call: Call) -> Any:
        seen.append(threading.get_ident())
        return await call()

    def there(ctx: Context) -> bool:
        return threading.get_ident() not in seen

    executor = ThreadExecutor(CAP)
    assert await run(there, where, executor=executor) == b"true"
    assert seen == [threading.get_ident()]
    await executor.close()


async def test_around_a_process_it_sees_the_result_and_the_failure_in_words() -> None:
    seen = list[Any]()

    async def watching(ctx: Context, call: Call) -> Any:
        try:
            seen.append(await call())
        except TaskFailed as failed:
            seen.append(failed.kind)
            raise
        return seen[-1]

    settings = Settings(tasks=(PROCESS_TASKS,))
    processes, loaded = ProcessExecutor(settings, 1), load_tasks([PROCESS_TASKS])
    try:
        for name, payload in (("double", b'{"a":2}'), ("fail", b'{"how":"plain"}')):
            task = loaded.get(name)
            assert task is not None
            work = attempt(task, payload)
            await asyncio.gather(WithMiddleware(processes, [watching], CAP).run(work), return_exceptions=True)
    finally:
        await processes.close()

    assert seen == [4, "ValueError"]


async def test_what_it_prints_is_in_the_log_of_the_run() -> None:
    from oncue.executors.capture import install

    reports = Remembered()

    async def printing(ctx: Context, call: Call) -> Any:
        print("before")
        return await call()

    undo = install()
    try:
        await run(give, printing, reports=reports)
    finally:
        undo()
    assert reports.text == "before\n"


async def test_the_end_of_a_thread_is_waited_for_whatever_middleware_does_with_the_cancel() -> None:
    begun, go = threading.Event(), threading.Event()

    def stubborn(ctx: Context) -> None:
        begun.set()
        go.wait()

    async def swallowing(ctx: Context, call: Call) -> Any:
        try:
            return await call()
        except asyncio.CancelledError:
            return "done"

    executor = ThreadExecutor(CAP)
    tasks = Tasks()
    tasks.task("task")(stubborn)
    [task] = tasks
    running = asyncio.ensure_future(WithMiddleware(executor, [swallowing], CAP).run(attempt(task)))
    await until(begun.is_set)
    running.cancel()
    await asyncio.sleep(0.01)
    assert not running.done()

    go.set()
    assert await running == b'"done"'
    await executor.close()


async def test_a_cancel_passes_through() -> None:
    waiting = asyncio.Event()

    async def wait(ctx: Context) -> None:
        waiting.set()
        await asyncio.Event().wait()

    running = asyncio.create_task(run(wait, passing))
    await waiting.wait()
    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running
