"""Runs of a worker in another thread, executed in the thread and event loop of the test."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from oncue.clock import Clock
from oncue.context import Context
from oncue.domain.secret_refs import SecretAccess
from oncue.executors.port import Executor, Work
from oncue.services.execution import Execution
from oncue.services.hook_calls import HookCalls
from oncue.tasks import Task, Tasks
from oncue.tasks.hooks import Hook
from oncue.testing.here import execute

T = TypeVar("T")


class Caller:
    """The event loop of the test, while it waits for the system."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.last = ""
        """The task that ran last."""

    async def do(self, call: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call, self._loop))


class CallerExecutor:
    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def run(self, work: Work) -> bytes | None:
        self._caller.last = work.task.name
        return await self._caller.do(execute(work))

    async def close(self) -> None:
        """Does nothing: the caller waits for its runs."""


class CallerExecution(Execution, frozen=True):
    """Middleware is user code, too: `execute` calls it."""

    def complete(self, executor: Executor, task: Task, secrets: SecretAccess | None) -> Executor:
        return executor


class CallerHooks(HookCalls):
    def __init__(self, clock: Clock, tasks: Tasks, caller: Caller) -> None:
        super().__init__(clock, tasks)
        self._caller = caller

    async def _called(self, hook: Hook, ctx: Context[Any], value: Any) -> None:
        await self._caller.do(super()._called(hook, ctx, value))
