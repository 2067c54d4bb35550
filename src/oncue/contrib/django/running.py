"""What a worker calls to run a Django task: the function with its arguments, its context, and Django's signals."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from inspect import Signature, iscoroutinefunction
from traceback import format_exception
from typing import Any

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.db import close_old_connections, connections
from django.utils import timezone

from oncue.context import Context
from oncue.contrib.django.arguments import bound, described, of_call
from oncue.contrib.django.framework import (
    Task,
    TaskContext,
    TaskError,
    TaskResult,
    TaskResultStatus,
    normalize_json,
    task_finished,
    task_started,
)
from oncue.contrib.django.results import created, new_result
from oncue.domain.errors import NoRetry
from oncue.domain.plain_text import class_path_of
from oncue.tasks.hooks import Failure

_RESULT = "oncue_task_result"


@dataclass(frozen=True, slots=True, kw_only=True)
class OncueContext(TaskContext):
    """What a task with `takes_context` gets. `run` is oncue's own context: progress, checkpoints, log, cancelled.

    `task_result` knows how many attempts there were; where they ran is known to `get_result`.
    """

    run: Context[Any]


def runs(task: Task) -> Callable[..., Any]:
    """Return the function that a worker calls, whose keyword arguments are the fields of the payload."""
    call = of_call(task.func, takes_context=task.takes_context)
    function = (_async if iscoroutinefunction(task.func) else _sync)(task, call)
    return described(function, task.func, call)


def _sync(task: Task, call: Signature) -> Callable[..., Any]:
    def run(ctx: Context[Any], /, **payload: Any) -> Any:
        with _own_connections():
            result = _started(task, call, ctx, payload)
            with _noting(result):
                value = _json(task.func(*_leading(result, ctx), *result.args, **result.kwargs))
            _succeeded(task, result, value)
            return value

    return run


def _async(task: Task, call: Signature) -> Callable[..., Any]:
    async def run(ctx: Context[Any], /, **payload: Any) -> Any:
        async with _own_thread():
            result = await sync_to_async(_started)(task, call, ctx, payload)
            with _noting(result):
                value = _json(await task.func(*_leading(result, ctx), *result.args, **result.kwargs))
            await sync_to_async(_succeeded)(task, result, value)
            return value

    return run


@contextmanager
def _own_connections() -> Iterator[None]:
    """Use connections as a request does: neither broken ones nor those that are older than Django's settings allow."""
    close_old_connections()
    try:
        yield
    finally:
        close_old_connections()


@asynccontextmanager
async def _own_thread() -> AsyncIterator[None]:
    """Give Django's sync code a thread of this run, as a request has it: no other run waits for its queries."""
    async with ThreadSensitiveContext():
        try:
            yield
        finally:
            await sync_to_async(connections.close_all)()  # the thread ends


def _started(task: Task, call: Signature, ctx: Context[Any], payload: Mapping[str, Any]) -> TaskResult:
    result = new_result(task, str(ctx.run_id), *bound(call, payload))
    now = timezone.now()
    _change(
        result,
        status=TaskResultStatus.RUNNING,
        enqueued_at=created(ctx.run_id),
        started_at=now,
        last_attempted_at=now,
        worker_ids=[""] * ctx.attempt,
    )
    task_started.send(sender=type(task.get_backend()), task_result=result)
    return result


def _leading(result: TaskResult, ctx: Context[Any]) -> tuple[OncueContext, ...]:
    return (OncueContext(task_result=result, run=ctx),) if result.task.takes_context else ()


@contextmanager
def _noting(result: TaskResult) -> Iterator[None]:
    """Leave the result on an exception: if the run is dead, the signal needs it, and whether it is comes out later."""
    try:
        yield
    except BaseException as error:
        setattr(error, _RESULT, result)
        raise


def _json(value: Any) -> Any:
    try:
        return normalize_json(value)
    except (TypeError, ValueError) as wrong:  # the work is done: doing it again would change nothing
        raise NoRetry(f"the return value is not JSON: {wrong}") from wrong


def _succeeded(task: Task, result: TaskResult, value: Any) -> None:
    _change(result, status=TaskResultStatus.SUCCESSFUL, finished_at=timezone.now(), _return_value=value)
    task_finished.send(sender=type(task.get_backend()), task_result=result)


def died(tasks: Mapping[str, Task]) -> Callable[[Context[Any], Failure], None]:
    """Return the hook that sends `task_finished` for a run that failed permanently.

    After a timeout, or in a process of its own, the result has no arguments: the failure comes without them.
    """

    def dead(ctx: Context[Any], failure: Failure) -> None:
        task = tasks[ctx.task]
        result = getattr(failure.error, _RESULT, None) or new_result(task, str(ctx.run_id), [], {})
        said = "".join(format_exception(failure.error))
        error = TaskError(exception_class_path=class_path_of(failure.error), traceback=said)
        _change(result, status=TaskResultStatus.FAILED, finished_at=timezone.now(), errors=[error])
        with _own_connections():
            try:
                raise failure.error
            except BaseException:  # receivers find it where Django has it, in sys.exc_info()
                task_finished.send(sender=type(task.get_backend()), task_result=result)

    return dead


def _change(result: TaskResult, **fields: Any) -> None:
    for name, value in fields.items():
        object.__setattr__(result, name, value)  # Django's backends change results in this way
