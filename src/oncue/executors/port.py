"""The contract of every executor, whatever it runs.

`run` is awaited in an asyncio task of its own, one for each attempt. **To stop an attempt, the worker cancels that
task**, for a timeout, a cancel, a drain. The executor then stops what it started, for certain where it can (a process
group: TERM, `grace`, KILL), and raises the CancelledError when it has stopped, not before. What cannot be stopped (a
thread, code that catches CancelledError) raises it late or never: the worker waits no longer than its grace time.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from oncue.context import Context, Reports, RunInfo
from oncue.domain import plain_json
from oncue.domain.errors import Invalid
from oncue.domain.instants import Duration
from oncue.domain.placement import Resources
from oncue.tasks import Task


class Work(msgspec.Struct, frozen=True):
    """One attempt, as an executor gets it."""

    info: RunInfo
    task: Task
    payload: bytes | None
    reports: Reports
    timeout: Duration
    resources: Resources = Resources()

    @property
    def context(self) -> Context:
        return Context(self.info, self.reports, self.task.state)


class TaskFailed(Exception):
    """A failure in words, the only form that leaves an executor. `kind` is shown as its type, `trace` is logged.

    `path` is the dotted path of the exception's class; `traceback` is kept with the attempt, by default the `trace`.
    `error` is the exception itself if it was raised in this process, for middleware and hooks.
    """

    def __init__(
        self,
        kind: str,
        message: str,
        *,
        retry: bool = True,
        after: Duration | None = None,
        trace: str = "",
        path: str | None = None,
        traceback: str = "",
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.retry = retry
        self.after = after
        self.trace = trace
        self.path = path
        self.traceback = traceback or trace
        self.error: BaseException | None = None


class ProcessLost(TaskFailed):
    """The process of the run ended without an answer: killed, `os._exit`, out of memory."""

    def __init__(self, message: str) -> None:
        super().__init__("ProcessLost", message)


class Executor(Protocol):
    async def run(self, work: Work) -> bytes | None:
        """Return the result as JSON. The task's exceptions come out as TaskFailed, described where its code runs."""
        ...

    async def close(self) -> None:
        """Stop everything that was started; nothing is left running after this."""
        ...


def within_cap(stored: bytes | None, cap: int) -> bytes | None:
    """Check a result that claims to be JSON already, from a process where user code may have written it."""
    if stored is not None and len(stored) > cap:
        message = f"the task succeeded, but its result has {len(stored)} bytes; at most {cap} are allowed"
        raise TaskFailed("BadResult", message, retry=False)
    return stored


def encoded(result: object, cap: int) -> bytes | None:
    """Encode a task's return value as it is stored."""
    if result is None:
        return None
    try:
        return plain_json.encoded(result, "result", cap)
    except Invalid as wrong:
        [problem] = wrong.problems
        raise TaskFailed("BadResult", f"the task succeeded, but its result {problem.message}", retry=False) from None
