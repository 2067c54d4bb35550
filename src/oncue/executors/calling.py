"""What all executors share where they call a task's function."""

from __future__ import annotations

import inspect
from datetime import timedelta
from itertools import islice
from pathlib import Path
from traceback import TracebackException
from types import TracebackType
from typing import Any

from oncue.domain.attempt import LONGEST_ERROR, Failure
from oncue.domain.errors import Invalid, NoRetry, RetryAfter
from oncue.domain.fingerprint import top_frame
from oncue.domain.instants import of_timedelta, parse_duration, show_duration
from oncue.domain.plain_text import class_path_of, kind_of, message_of, plain
from oncue.executors.port import TaskFailed
from oncue.tasks import Task

LONGEST_TRACE = 32_000  # characters
FRAMES = 100  # the innermost are shown
MOST_ERRORS = 200  # in a group or a chain: nested groups can stand for billions

_OURS = str(Path(__file__).parent.parent)


def arguments_of(task: Task, payload: bytes | None) -> dict[str, Any]:
    """Decode the arguments. The payload was checked at creation; if the task has changed since, no retry would help."""
    try:
        return task.arguments(payload)
    except Invalid as mismatch:
        raise TaskFailed("BadPayload", str(mismatch), retry=False) from None


def not_awaitable(result: object) -> object:
    """Return a sync function's result. Fails for a coroutine, which would never run and must not count as a success."""
    if not inspect.isawaitable(result):
        return result
    if inspect.iscoroutine(result):
        result.close()
    raise TaskFailed(
        "BadResult",
        "the task's function returned an awaitable but is not async: define it with async def",
        retry=False,
    )


def as_failure(error: BaseException, task: Task | None = None) -> TaskFailed:
    """Describe an exception as TaskFailed. Never raises, whatever the exception's own code does when asked.

    `task`: the task whose function raised it, which may have declared that this is not retried.
    """
    kind = type(error)  # not isinstance, which trusts what an object says of itself
    if issubclass(kind, TaskFailed):
        return error  # type: ignore[return-value]  # just checked
    failed = _described(error, kind, task)
    failed.error = error
    return failed


def _described(error: BaseException, kind: type[BaseException], task: Task | None) -> TaskFailed:
    name, said = kind_of(error), message_of(error, LONGEST_ERROR)
    path = class_path_of(error)
    if issubclass(kind, NoRetry) or (task is not None and issubclass(kind, task.no_retry_on)):
        return TaskFailed(name, said, retry=False, path=path, traceback=trace_of(error))
    if issubclass(kind, RetryAfter):
        return _again_later(error, name, said)
    if not issubclass(kind, Exception):  # it would end a thread or a loop, or look like a cancellation
        said = f"the task raised {name}({said})"
    return TaskFailed(name, said, trace=trace_of(error), path=path)


def failure_of(failed: TaskFailed, said: str) -> Failure:
    """Return what is decided about and stored; `said` is its message."""
    return Failure(
        error_type=failed.kind,
        error=said or failed.kind,
        retry=failed.retry,
        after=failed.after,
        frame=top_frame(failed.traceback),
        error_class=failed.path,
        traceback=failed.traceback,
    )


def _again_later(error: BaseException, name: str, said: str) -> TaskFailed:
    try:
        delay = error.delay  # type: ignore[attr-defined]  # it is a RetryAfter
        if isinstance(delay, timedelta):
            delay = show_duration(of_timedelta(delay))
        if not isinstance(delay, str):
            message = f'{said}; its delay must be a timedelta or a text like "30s", not a {kind_of(delay)}'
            return TaskFailed(name, message)
        return TaskFailed(name, said, after=parse_duration(delay), path=class_path_of(error))
    except BaseException as wrong:
        return TaskFailed(name, f"{said}; its delay is invalid: {message_of(wrong, LONGEST_ERROR)}")


def trace_of(error: BaseException) -> str:
    """Format the traceback as Python does, of the task's own code only, without our frames that called it."""
    try:
        if not _is_bearable(error):
            return f"{kind_of(error)}: a group of more than {MOST_ERRORS} errors, shown without traceback\n"
        where = _in_user_code(error.__traceback__)
        lines, room = list[str](), LONGEST_TRACE
        for line in TracebackException(type(error), error, where, limit=-FRAMES, compact=True).format():
            lines.append(plain(line, room))
            room -= len(lines[-1])
            if room <= 0:
                break
        return "".join(lines)
    except BaseException as worse:  # formatting a traceback may run the exception's own code
        return f"{kind_of(error)}: its traceback cannot be shown, because formatting it raised {kind_of(worse)}\n"


def _is_bearable(error: BaseException) -> bool:
    todo, linked, count = [error], set[int](), 0
    while todo:
        one = todo.pop()
        count += 1
        if count > MOST_ERRORS:
            return False
        if isinstance(one, BaseExceptionGroup):
            todo += islice(one.exceptions, MOST_ERRORS)
        for other in (one.__cause__, one.__context__):
            if other is not None and id(other) not in linked:
                linked.add(id(other))
                todo.append(other)
    return True


def _in_user_code(trace: TracebackType | None) -> TracebackType | None:
    while trace and trace.tb_next and trace.tb_frame.f_code.co_filename.startswith(_OURS):
        trace = trace.tb_next
    return trace
