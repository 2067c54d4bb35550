"""The context of a task's function that is called directly, outside of a run or within another task's run."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from uuid import UUID, uuid4

from oncue.clock import SystemClock
from oncue.context import Context, Done, Reports, RunInfo, current
from oncue.domain.errors import OncueError

_LOGGER = logging.getLogger("oncue.task")


class LocalReports:
    """`Reports` of a direct call. Within a run, its log and its stop signal are those of the run around it."""

    def __init__(self, around: Reports | None) -> None:
        self._around = around

    @property
    def cancelled(self) -> bool:
        return self._around is not None and self._around.cancelled

    def write(self, text: str) -> None:
        if self._around is not None:
            self._around.write(text)
        elif text.strip():
            _LOGGER.info("%s", text.rstrip())

    def progress(self, stored: bytes) -> None:
        _LOGGER.debug("progress %s", stored.decode())

    def save(self, stored: bytes) -> Awaitable[None]:
        """Save nothing: a direct call has no later attempt, and the run around it has a checkpoint of its own."""
        return Done()

    def submit(self, asked: bytes) -> Awaitable[tuple[UUID, ...]]:
        if self._around is None:
            raise OncueError("outside of a run there is no worker that creates jobs; use a client")
        return self._around.submit(asked)


def local_context(task: str, state: object = None) -> Context[object]:
    """Return a context with ids of its own, whose log goes to standard logging, or to that of the run around it."""
    run_id = uuid4()
    info = RunInfo(run_id, run_id, task, 1, SystemClock().now())
    return Context(info, LocalReports(current.get()), state)
