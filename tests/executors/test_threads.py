"""Sync functions in threads, which cannot be stopped: a cancelled run ends when its function has ended."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest
from tests.executors.working import Remembered, attempt, until

from oncue.context import Context, current
from oncue.executors.port import TaskFailed, Work
from oncue.executors.threads import ThreadExecutor
from oncue.tasks import Tasks


@pytest.fixture
async def threads() -> AsyncIterator[ThreadExecutor]:
    before = threading.active_count()
    executor = ThreadExecutor(100)
    yield executor
    await executor.close()
    await until(lambda: threading.active_count() == before)


class Gate:
    """A function that says that it has begun, and goes on when it is let."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.open = threading.Event()

    def enter(self, ctx: Context) -> str:
        self.begun.release()
        assert self.open.wait(10)
        return "late"

    async def entered(self) -> None:
        await until(lambda: self.begun.acquire(blocking=False))


def work(function: object, payload: bytes | None = None, reports: Remembered | None = None) -> Work:
    tasks = Tasks()
    tasks.task("task", no_retry_on=(ZeroDivisionError,))(function)  # type: ignore[call-overload]
    (task,) = tasks
    return attempt(task, payload, reports)


def thread_name(ctx: Context) -> int:
    return threading.get_ident()


async def test_a_function_that_takes_no_context_gets_none(threads: ThreadExecutor) -> None:
    def double(a: int) -> int:
        return 2 * a

    assert await threads.run(work(double, b'{"a":2}')) == b"4"


async def test_what_its_task_does_not_retry_is_not_retried(threads: ThreadExecutor) -> None:
    def divide() -> float:
        return 1 / 0

    with pytest.raises(TaskFailed) as failed:
        await threads.run(work(divide))

    assert (failed.value.kind, failed.value.retry) == ("ZeroDivisionError", False)


async def test_it_runs_in_a_thread_of_its_own_with_arguments(threads: ThreadExecutor) -> None:
    def add(ctx: Context, a: int, b: int) -> list[int]:
        return [a + b, threading.get_ident()]

    result = await threads.run(work(add, b'{"a":1,"b":2}'))

    assert result is not None
    assert result.startswith(b"[3,")
    assert str(threading.get_ident()).encode() not in result


async def test_code_in_the_thread_knows_its_run_and_the_next_one_does_not(threads: ThreadExecutor) -> None:
    def whose(ctx: Context) -> None:
        reports = current.get()
        assert reports is not None
        reports.write("mine")

    for reports in (Remembered(), Remembered()):
        await threads.run(work(whose, None, reports))
        assert reports.text == "mine"


async def test_a_thread_is_used_again(threads: ThreadExecutor) -> None:
    assert await threads.run(work(thread_name)) == await threads.run(work(thread_name))


async def test_each_run_has_a_thread_whoever_does_not_end(threads: ThreadExecutor) -> None:
    gate = Gate()
    running = [asyncio.create_task(threads.run(work(gate.enter))) for _ in range(5)]
    for one in running:
        await gate.entered()
        one.cancel()
    await asyncio.sleep(0)

    assert await asyncio.wait_for(threads.run(work(thread_name)), 10) is not None
    gate.open.set()
    ends = await asyncio.gather(*running, return_exceptions=True)
    assert [type(end) for end in ends] == [asyncio.CancelledError] * 5


@pytest.mark.parametrize("cancels", [1, 3])
async def test_a_cancelled_run_ends_when_its_function_has_ended_and_its_result_is_dropped(
    threads: ThreadExecutor, cancels: int
) -> None:
    gate = Gate()
    running = asyncio.create_task(threads.run(work(gate.enter)))
    await gate.entered()
    for _ in range(cancels):
        running.cancel()
        await asyncio.sleep(0.01)
    assert not running.done()

    gate.open.set()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 10)


async def test_a_run_that_is_cancelled_before_its_turn_never_begins(threads: ThreadExecutor) -> None:
    never = Gate()
    waiting = asyncio.create_task(threads.run(work(never.enter)))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await threads.run(work(thread_name))

    assert not never.begun.acquire(blocking=False)


@pytest.mark.parametrize(
    "raised", [SystemExit(1), KeyboardInterrupt(), asyncio.CancelledError(), StopIteration(), GeneratorExit()]
)
async def test_whatever_a_function_raises_is_a_plain_failure(threads: ThreadExecutor, raised: BaseException) -> None:
    def raising(ctx: Context) -> None:
        raise raised

    for _ in range(3):
        with pytest.raises(TaskFailed) as failed:
            await threads.run(work(raising))
        assert failed.value.kind == type(raised).__name__
    assert await threads.run(work(thread_name)) is not None


async def test_an_exception_is_put_into_words_in_its_thread(threads: ThreadExecutor) -> None:
    asked_in: list[int] = []

    class Missing(LookupError):
        def __str__(self) -> str:
            asked_in.append(threading.get_ident())
            return "not here"

    def raising(ctx: Context) -> None:
        raise Missing

    with pytest.raises(TaskFailed, match="not here") as failed:
        await threads.run(work(raising))
    assert failed.value.kind == "Missing"
    assert "in raising" in failed.value.trace
    assert asked_in
    assert threading.get_ident() not in asked_in


async def test_a_function_that_forgot_to_be_async_fails_clearly(threads: ThreadExecutor) -> None:
    async def hidden() -> None: ...

    def function(ctx: Context) -> object:
        return hidden()

    with pytest.raises(TaskFailed, match="define it with async def") as failed:
        await threads.run(work(function))
    assert not failed.value.retry


async def test_a_payload_that_does_not_fit_fails_for_good(threads: ThreadExecutor) -> None:
    with pytest.raises(TaskFailed) as failed:
        await threads.run(work(thread_name, b'{"more":1}'))

    assert (failed.value.kind, failed.value.retry) == ("BadPayload", False)


@pytest.mark.parametrize("before", [True, False])
async def test_closing_does_not_wait_for_what_does_not_stop(threads: ThreadExecutor, before: bool) -> None:
    gate = Gate()
    running = asyncio.create_task(threads.run(work(gate.enter)))
    await gate.entered()
    if before:
        running.cancel()
        await asyncio.sleep(0)
    await asyncio.wait_for(threads.close(), 1)
    if not before:
        running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 1)
    gate.open.set()
