"""A set of tasks, and the decorator that adds to it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Protocol, TypeVar, Unpack, overload
from uuid import UUID

from oncue.context import Context, S_co
from oncue.domain.errors import Invalid, Problem
from oncue.tasks.clients import Clients
from oncue.tasks.declaring import declared
from oncue.tasks.handle import Bound, SyncTasks, batch
from oncue.tasks.hooks import Hooked, Lifespan, Middleware, Shared
from oncue.tasks.inside import submit
from oncue.tasks.options import TaskOptions
from oncue.tasks.places import BadDeclaration, place, place_of
from oncue.tasks.schedules import DeclaredSet, Schedules, caller, check_name, declared_sets
from oncue.tasks.task import AsyncFunctionTask, FunctionTask, Task
from oncue.tasks.typevars import P, R

if TYPE_CHECKING:
    from oncue.client import AsyncClient, Client

M = TypeVar("M", bound=Middleware)


class TaskDecorator(Protocol[S_co]):  # type: ignore[misc]  # mypy compares overload by overload, not what they take
    """What `@tasks.task(…)` decorates with: it turns a function into a task."""

    @overload
    def __call__(  # type: ignore[overload-overlap]  # a coroutine is an object, too: the first that fits counts
        self, f: Callable[Concatenate[Context[S_co], P], Coroutine[Any, Any, R]], /
    ) -> AsyncFunctionTask[P, R]: ...
    @overload
    def __call__(self, f: Callable[Concatenate[Context[S_co], P], R], /) -> FunctionTask[P, R]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]  # as above
        self, f: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncFunctionTask[P, R]: ...
    @overload
    def __call__(self, f: Callable[P, R], /) -> FunctionTask[P, R]: ...


class Tasks(Hooked, Generic[S_co]):
    """A set of tasks, for `--tasks file.py` or `--tasks package.module[:attribute]`.

        tasks = Tasks("shop")

        @tasks.task(max_retries=5, timeout="30s")
        async def charge(ctx: Context, order: int) -> str: ...

    `name` names the set of schedules that it declares: when the code no longer declares one, its job is cancelled.
    `lifespan` is entered once in each worker process, before its first run, and left at its end;
    what it yields is `ctx.state`. Middleware and hooks of the set are for all tasks declared on it. `client` sends the
    calls of its tasks; without one, `connected` does, or a client of the environment (`ONCUE_URL`, `ONCUE_API_KEY`).
    """

    @overload
    def __init__(
        self: Tasks[object], name: str | None = None, *, client: Client | AsyncClient | None = None
    ) -> None: ...
    @overload
    def __init__(
        self,
        name: str | None = None,
        *,
        lifespan: Callable[[], AbstractAsyncContextManager[S_co]],
        client: Client | AsyncClient | None = None,
    ) -> None: ...
    def __init__(
        self,
        name: str | None = None,
        *,
        lifespan: Lifespan | None = None,
        client: Client | AsyncClient | None = None,
    ) -> None:
        file, line = caller(1)
        try:
            check_name(name)
        except Invalid as wrong:
            raise BadDeclaration(place(file, line), "Tasks:", wrong.problems) from None
        self.name = name
        self.clients = Clients(client)
        self._tasks: dict[str, Task] = {}
        self._shared = Shared(lifespan, self.clients, Schedules(name))
        self._shared.schedules.read(file)
        self._schedules = [self._shared.schedules]
        self.hooks = self._shared.hooks

    def connected(self) -> AbstractAsyncContextManager[AsyncClient]:
        """Use one client for all calls within `async with tasks.connected():`, as in the lifespan of a web server."""
        return self.clients.connected()

    @property
    def sync(self) -> SyncTasks:
        """`enqueue_many` for code without an event loop."""
        return SyncTasks(self.clients)

    async def enqueue_many(
        self, calls: Iterable[Bound[Any]], *, idempotency_key: str | None = None
    ) -> tuple[UUID, ...]:
        """Run these calls, of any tasks, stored in one transaction, at most 10,000. Returns the ids of their runs.

        `await tasks.enqueue_many(hello.bind(name=name) for name in names)`
        """
        if not (found := batch(calls)):
            return ()
        if (run := self.clients.in_run(None)) is not None:
            return await submit(run, found, idempotency_key)
        client = await self.clients.for_async(None)
        return await client.jobs.create_many(found, idempotency_key=idempotency_key)

    def middleware(self, function: M) -> M:
        """Run this around every attempt of the set's tasks, the first declared outermost.

            @tasks.middleware
            async def timed(ctx: Context, call: Call) -> Any:
                with SECONDS.labels(ctx.task).time():
                    return await call()

        It runs in the worker's event loop, whatever runs the task, and within the timeout. What it raises is the
        failure of the attempt, and what it returns is the result.
        """
        self._shared.middleware.append(function)
        return function

    @overload
    def task(  # type: ignore[overload-overlap]  # a coroutine is an object, too: the first that fits counts
        self, f: Callable[Concatenate[Context[S_co], P], Coroutine[Any, Any, R]], /
    ) -> AsyncFunctionTask[P, R]: ...
    @overload
    def task(self, f: Callable[Concatenate[Context[S_co], P], R], /) -> FunctionTask[P, R]: ...
    @overload
    def task(  # type: ignore[overload-overlap]  # as above
        self, f: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncFunctionTask[P, R]: ...
    @overload
    def task(self, f: Callable[P, R], /) -> FunctionTask[P, R]: ...
    @overload
    def task(self, name: str | None = None, /, **options: Unpack[TaskOptions]) -> TaskDecorator[S_co]: ...
    def task(self, given: Any = None, /, **options: Any) -> Any:
        """Turn a function into a task: `@tasks.task`, `@tasks.task("name", …)` or `@tasks.task(…)`.

        The name is the function's unless it is given. The options are defaults of the task's jobs, which may override
        them; `isolation`, `roles` and `no_retry_on` are the task's own. `schedule` declares a job of the task, with
        the task's name as its key and `payload` as its arguments. BadDeclaration: what is wrong, and where.
        """
        if not callable(given):
            return partial(self._declare, options, given)
        try:
            return self._declare(options, None, given)
        except Invalid as wrong:
            raise wrong.with_traceback(None) from None

    def _declare(self, options: dict[str, Any], name: str | None, function: Callable[..., Any], /) -> Task:
        try:
            task = declared(name, function, options, self._shared)
            self.add(task)
        except Invalid as wrong:
            raise wrong.with_traceback(None) from None  # the traceback leads to the user's line, not through our files
        return task

    def add(self, task: Task) -> None:
        if (first := self._tasks.get(task.name)) is not None:
            problem = Problem("task", "duplicate", f"is already defined at {place_of(first.function)}")
            raise BadDeclaration(place_of(task.function), f"task {task.name!r}", (problem,))
        self._tasks[task.name] = task

    def include(self, others: Iterable[Task]) -> None:
        """Add the tasks of another set, and what it declares: `tasks.include(billing.tasks)`."""
        tasks = list(others)
        for task in tasks:
            self.add(task)
        declared = others._schedules if isinstance(others, Tasks) else [task.shared.schedules for task in tasks]
        self._schedules += [one for one in dict.fromkeys(declared) if one not in self._schedules]

    def declared(self, build: int | None = None) -> tuple[DeclaredSet, ...]:
        """Return the schedules that the code declares, with their stamps. Invalid: two have one key."""
        return declared_sets(self._schedules, build)

    def __iter__(self) -> Iterator[Task]:
        return iter(self._tasks.values())

    def __len__(self) -> int:
        return len(self._tasks)

    def get(self, name: str) -> Task | None:
        return self._tasks.get(name)
