"""What all executors have in common where they call a task's function."""

from __future__ import annotations

import inspect
from typing import Any

from oncue.domain.errors import Invalid
from oncue.services.executors.port import TaskFailed
from oncue.tasks import Task


def arguments_of(task: Task, payload: bytes | None) -> dict[str, Any]:
    """The payload was checked at creation; the task may have changed since, and trying again would not help."""
    try:
        return task.arguments(payload)
    except Invalid as misfit:
        raise TaskFailed("BadPayload", str(misfit), retry=False) from None


def not_awaitable(result: object) -> object:
    """What a sync function returned. A coroutine would never run: better to fail than to call that a success."""
    if not inspect.isawaitable(result):
        return result
    if inspect.iscoroutine(result):
        result.close()
    raise TaskFailed(
        "BadResult",
        "the task's function is not async but returned something to await: define it with async def",
        retry=False,
    )


def plain_failure(error: BaseException) -> TaskFailed:
    """For an exception that would end a thread or a loop, or pass for a cancellation: here it is a task's failure."""
    kind = type(error).__name__
    return TaskFailed(kind, f"the task raised {kind}({error})")
