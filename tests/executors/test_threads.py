"""Sync functions in threads, which cannot be stopped: they are left behind, counted, and replaced."""

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
    executor = ThreadExecutor(2, 100)
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


async def test_no_more_at_a_time_than_there_is_room_for_and_the_rest_waits(threads: ThreadExecutor) -> None:
    gate = Gate()
    running = [asyncio.create_task(threads.run(work(gate.enter))) for _ in range(5)]
    await gate.entered()
    await gate.entered()
    assert not gate.begun.acquire(timeout=0.05)
    gate.open.set()

    assert await asyncio.gather(*running) == [b'"late"'] * 5


async def test_a_cancelled_run_ends_at_once_and_its_thread_is_counted_until_it_ends(threads: ThreadExecutor) -> None:
    gate = Gate()
    running = asyncio.create_task(threads.run(work(gate.enter)))
    await gate.entered()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert threads.abandoned == 1
    gate.open.set()
    await until(lambda: threads.abandoned == 0)


async def test_abandoned_threads_keep_no_place(threads: ThreadExecutor) -> None:
    gate = Gate()
    stuck = [asyncio.create_task(threads.run(work(gate.enter))) for _ in range(2)]
    await gate.entered()
    await gate.entered()
    waiting = asyncio.create_task(threads.run(work(thread_name)))
    await asyncio.sleep(0)
    for running in stuck:
        running.cancel()

    assert await asyncio.wait_for(waiting, 10) is not None
    assert threads.abandoned == 2
    gate.open.set()
    await until(lambda: threads.abandoned == 0)


async def test_a_run_that_is_cancelled_before_its_turn_never_begins(threads: ThreadExecutor) -> None:
    gate, never = Gate(), Gate()
    busy = [asyncio.create_task(threads.run(work(gate.enter))) for _ in range(2)]
    await gate.entered()
    await gate.entered()
    waiting = asyncio.create_task(threads.run(work(never.enter)))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    gate.open.set()
    await asyncio.gather(*busy)
    await threads.run(work(thread_name))

    assert threads.abandoned == 0
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


async def test_closing_does_not_wait_for_the_abandoned(threads: ThreadExecutor) -> None:
    gate = Gate()
    running = asyncio.create_task(threads.run(work(gate.enter)))
    await gate.entered()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await asyncio.wait_for(threads.close(), 1)

    assert threads.abandoned == 1
    gate.open.set()
