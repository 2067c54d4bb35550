"""Enter the lifespans of the sets that a process has tasks of, and give their tasks the state."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from oncue.domain.errors import OncueError
from oncue.domain.plain_text import kind_of, message_of
from oncue.log import log
from oncue.tasks.hooks import Lifespan
from oncue.tasks.places import place_of
from oncue.tasks.task import Task

LONGEST_REASON = 1_000  # characters


class LifespanFailed(OncueError):
    """A lifespan raised before it yielded: nothing can run without what it sets up."""


@asynccontextmanager
async def lifespans(tasks: Iterable[Task]) -> AsyncIterator[None]:
    """Enter the lifespan of each set once, and leave all of them at the end of the block, the last one first.

    LifespanFailed: one of them raised; those before it are left again. What one raises when it is left is logged.
    """
    by_lifespan: dict[Lifespan, list[Task]] = {}
    for task in tasks:
        if (lifespan := task.shared.lifespan) is not None:
            by_lifespan.setdefault(lifespan, []).append(task)
    entered: list[tuple[Lifespan, AbstractAsyncContextManager[Any], list[Task]]] = []
    try:
        for lifespan, sharing in by_lifespan.items():
            manager, state = await _entered(lifespan)
            entered.append((lifespan, manager, sharing))
            for task in sharing:
                task.state = state
        yield
    finally:
        for lifespan, manager, sharing in reversed(entered):
            for task in sharing:
                task.state = None
            await _left(lifespan, manager)


async def _entered(lifespan: Lifespan) -> tuple[AbstractAsyncContextManager[Any], Any]:
    try:
        manager = lifespan()
        return manager, await manager.__aenter__()
    except Exception as error:  # the edge of user code
        said = f"{kind_of(error)}: {message_of(error, LONGEST_REASON)}"
        raise LifespanFailed(f"{place_of(lifespan)}: the lifespan of the tasks raised {said}") from error


async def _left(lifespan: Lifespan, manager: AbstractAsyncContextManager[Any]) -> None:
    try:
        await manager.__aexit__(None, None, None)
    except Exception as error:  # the edge of user code; the process ends anyway
        log.error("A lifespan raised at its end", kind="lifespan_failed", where=place_of(lifespan), exc_info=error)
