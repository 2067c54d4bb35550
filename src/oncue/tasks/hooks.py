"""What runs around the attempts of tasks, and after them: middleware and hooks, for a set or for one task."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from oncue.context import Context
from oncue.tasks.clients import Clients
from oncue.tasks.schedules import Schedules

Call = Callable[[], Awaitable[Any]]
Middleware = Callable[[Context[Any], Call], Awaitable[Any]]
Hook = Callable[[Context[Any], Any], Any]
Lifespan = Callable[[], AbstractAsyncContextManager[Any]]
F = TypeVar("F", bound=Callable[..., Any])


class Failure(msgspec.Struct, frozen=True):
    """A failed attempt. `retry_at` is None if the run is dead.

    `error` is what the task raised; of process-isolated runs, and of runs with secrets, only its description.
    """

    error: BaseException
    attempt: int
    retry_at: datetime | None


class Hooks(msgspec.Struct):
    """Functions to call after an attempt, in the order in which they were declared."""

    failure: list[Hook] = []
    success: list[Hook] = []
    dead: list[Hook] = []

    def __bool__(self) -> bool:
        return bool(self.failure or self.success or self.dead)

    def __add__(self, other: Hooks) -> Hooks:
        return Hooks(self.failure + other.failure, self.success + other.success, self.dead + other.dead)


class Shared:
    """What all tasks of a set have in common. Filled while modules are imported, and then only read."""

    def __init__(
        self,
        lifespan: Lifespan | None = None,
        clients: Clients | None = None,
        schedules: Schedules | None = None,
    ) -> None:
        self.lifespan = lifespan
        self.schedules = schedules or Schedules()
        self.clients = clients or Clients(None)
        self.middleware: list[Middleware] = []
        self.hooks = Hooks()


class Hooked:
    """A set of tasks or one task, as the target of `@….on_failure`, `@….on_success` and `@….on_dead`.

    A hook runs in the worker after the outcome is stored, for at most 10 s, and cannot change the outcome. It gets the
    context, and a `Failure` or the result. A worker that is lost runs none: notifications are for that.
    """

    hooks: Hooks

    def on_failure(self, function: F) -> F:
        """Call this after every failed attempt, with a `Failure`."""
        self.hooks.failure.append(function)
        return function

    def on_success(self, function: F) -> F:
        """Call this after every run that succeeded, with its result as JSON has it."""
        self.hooks.success.append(function)
        return function

    def on_dead(self, function: F) -> F:
        """Call this when a run is a dead letter, with the `Failure` of its last attempt."""
        self.hooks.dead.append(function)
        return function
