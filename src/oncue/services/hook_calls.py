"""Call hooks after the outcome of an attempt is decided. They cannot change it, and no one waits for them."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Iterator, Mapping
from typing import Any
from uuid import UUID

import msgspec

from oncue.clock import Clock
from oncue.context import Context, Done, RunInfo
from oncue.domain.errors import OncueError
from oncue.domain.instants import SECOND, Duration, moment
from oncue.domain.run import Settlement, State
from oncue.executors.port import TaskFailed
from oncue.log import log
from oncue.tasks import Task, Tasks
from oncue.tasks.hooks import Failure, Hook, Hooks

LONGEST = Duration(10 * SECOND)
LOST = "WorkerLost"  # no failure of the task


class HookReports:
    """`Reports` of a hook: the run has ended, so what the hook logs goes to the worker's log."""

    cancelled = False

    def __init__(self, info: RunInfo) -> None:
        self._info = info

    def write(self, text: str) -> None:
        said = text.rstrip()
        log.info("A hook wrote a line", kind="hook", text=said, task=self._info.task, run_id=str(self._info.run_id))

    def progress(self, stored: bytes) -> None:
        """Do nothing: the run has ended."""

    def save(self, stored: bytes) -> Awaitable[None]:
        """Do nothing: the run has ended."""
        return Done()

    def submit(self, asked: bytes) -> Awaitable[tuple[UUID, ...]]:
        raise OncueError("the run has ended; use a client")


class HookCalls:
    """The hooks of a worker's tasks, each call in an asyncio task of its own, for at most 10 s."""

    def __init__(self, clock: Clock, tasks: Tasks) -> None:
        self._clock = clock
        self.tasks: Mapping[str, Hooks] = {task.name: found for task in tasks if (found := task.all_hooks())}
        self._active: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """The number of calls that have not ended."""
        return len(self._active)

    def tell(self, task: Task, info: RunInfo, end: Settlement, error: BaseException | None) -> None:
        """Start the hooks that this outcome is for."""
        for hook, value in _calls(self.tasks.get(task.name), end, error):
            ctx = Context(info, HookReports(info), task.state)
            call = asyncio.get_running_loop().create_task(self._called(hook, ctx, value))
            self._active.add(call)
            call.add_done_callback(self._active.discard)

    async def wait(self) -> None:
        """Wait until all calls have ended."""
        await asyncio.gather(*self._active)

    async def _called(self, hook: Hook, ctx: Context[Any], value: Any) -> None:
        try:
            async with self._clock.timeout(LONGEST):
                if inspect.iscoroutinefunction(hook):
                    await hook(ctx, value)
                else:
                    await asyncio.to_thread(hook, ctx, value)
        except Exception as error:  # the edge of user code
            log.warning(
                "A hook failed; the outcome of its run stays",
                kind="hook_failed",
                hook=getattr(hook, "__qualname__", repr(hook)),
                task=ctx.task,
                run_id=str(ctx.run_id),
                exc_info=error,
            )


def _calls(hooks: Hooks | None, end: Settlement, error: BaseException | None) -> Iterator[tuple[Hook, Any]]:
    if hooks is None:
        return
    if end.state is State.SUCCEEDED and hooks.success:
        result = None if end.result is None else msgspec.json.decode(end.result)
        yield from ((hook, result) for hook in hooks.success)
    elif end.error_type is not None and (end.state is State.DEAD or end.error_type != LOST):
        shown = error or TaskFailed(end.error_type, end.error or "")
        retry_at = None if end.due is None or end.state is State.DEAD else moment(end.due)
        failure = Failure(shown, end.run.attempt, retry_at)
        told = hooks.failure if end.error_type != LOST else []
        yield from ((hook, failure) for hook in (*told, *(hooks.dead if end.state is State.DEAD else ())))
