"""The backend for `TASKS` in Django's settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any
from uuid import UUID

from django.db import connections
from django.utils.module_loading import import_string

from oncue.client.errors import NotFound
from oncue.context import Context
from oncue.contrib.django.arguments import bound, described, of_call
from oncue.contrib.django.checks import option_problems
from oncue.contrib.django.database import enqueued, is_installed
from oncue.contrib.django.framework import (
    BaseTaskBackend,
    InvalidTask,
    Task,
    TaskResult,
    TaskResultDoesNotExist,
    task_enqueued,
)
from oncue.contrib.django.results import created, new_result, result_of, result_of_row
from oncue.contrib.django.task import OncueTask, call_options
from oncue.domain.errors import Invalid
from oncue.enqueuing import SCHEMA, Outbox
from oncue.tasks import Task as Handle
from oncue.tasks.clients import Clients
from oncue.tasks.declaring import declared
from oncue.tasks.hooks import Shared


class OncueBackend(BaseTaskBackend):
    """Enqueues Django's tasks as jobs of oncue: in the current transaction where the database has oncue, else by HTTP.

    OPTIONS: `transactional` (True, False, or left out: where oncue's function is installed), `database` (an alias of
    DATABASES), `schema` (of oncue in that database), `url` and `api_key` (else as for `oncue.client.Client`).
    """

    task_class = OncueTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self.database: str = self.options.get("database", "default")
        self.schema: str = self.options.get("schema", SCHEMA)
        self.transactional: bool | None = self.options.get("transactional")
        self.url: str | None = self.options.get("url")
        self.api_key: str | None = self.options.get("api_key")

    @property
    def clients(self) -> Clients:
        """Those of the process: Django makes a backend for each thread."""
        return _clients(self.url, self.api_key)

    def validate_task(self, task: Task) -> None:
        super().validate_task(task)
        try:
            self._handle(task)
        except (Invalid, ValueError) as wrong:
            raise InvalidTask(f"Task {task.module_path!r}: {wrong}") from None

    def enqueue(self, task: Task, args: Iterable[Any], kwargs: Mapping[str, Any]) -> TaskResult:
        """Enqueue a call. TypeError, ValueError: the arguments do not fit the function, or are not JSON."""
        self.validate_task(task)
        result = new_result(task, "", list(args), dict(kwargs))
        call = of_call(task.func, takes_context=task.takes_context)
        try:
            payload = call.bind(*result.args, **result.kwargs).arguments
        except TypeError as wrong:
            raise TypeError(f"Task {task.module_path!r}: {wrong}") from None
        job_id = self._enqueued(self._handle(task), payload)
        object.__setattr__(result, "id", str(job_id))
        object.__setattr__(result, "enqueued_at", created(job_id))
        object.__setattr__(result, "backend", self.alias)
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> TaskResult:
        """Return what is known of a task that was enqueued. TaskResultDoesNotExist: there is none, or not any more."""
        try:
            identifier = UUID(str(result_id))
        except ValueError:
            raise TaskResultDoesNotExist(result_id) from None
        found = self._read(identifier) or self._in_outbox(identifier) or self._read(identifier)  # created meanwhile
        if found is None:
            raise TaskResultDoesNotExist(result_id)
        return found

    def check(self, **kwargs: Any) -> Iterable[Any]:
        return option_problems(self)

    def in_transaction(self) -> bool:
        """Whether a job is enqueued in the current transaction of the database."""
        if self.clients.override is not None:  # of a test: nothing leaves the process
            return False
        if self.transactional is None:
            return is_installed(self.database, self.schema)
        return self.transactional

    def _enqueued(self, handle: Handle, payload: dict[str, Any]) -> UUID:
        if self.in_transaction():
            found: UUID = Outbox(self.schema).enqueue(connections[self.database], handle, **payload)
            return found
        return handle.sync.enqueue(**payload).run_id

    def _handle(self, task: Task) -> Handle:
        """Return oncue's task for calls of a Django task. Invalid: an option, or a value of one, is wrong."""
        return _handle(task.func, task.takes_context, self.clients).using(**call_options(task))

    def _read(self, identifier: UUID) -> TaskResult | None:
        client = self.clients.for_sync(None)
        try:
            run = client.runs.get(identifier)
            payload = client.runs.payload(run) if "payload" in run.large else run.payload
            value = client.runs.result(run) if "result" in run.large else run.result
        except NotFound:
            return None
        return result_of(run, *self._call(run.task, run.queue, payload), value)

    def _in_outbox(self, identifier: UUID) -> TaskResult | None:
        """Return what is known of a job that was enqueued in a transaction, until a scheduler creates it."""
        if not self.in_transaction() or (row := enqueued(self.database, self.schema, identifier)) is None:
            return None
        return result_of_row(identifier, *self._call(row["task"], row["queue"], row["payload"]), row)

    def _call(self, name: str | None, queue: str | None, payload: Any) -> tuple[Task, list[Any], dict[str, Any]]:
        """Return the task of a job and the arguments it is called with."""
        task = _imported(name or "")
        if task is None:
            raise TaskResultDoesNotExist(f"{name!r} is not a Django task")
        task = task.using(backend=self.alias, queue_name=queue if queue in self.queues else None)
        return task, *bound(of_call(task.func, takes_context=task.takes_context), payload or {})


@cache
def _clients(url: str | None, key: str | None) -> Clients:
    return Clients(None, url=url, key=key)


@cache
def _handle(function: Callable[..., Any], takes_context: bool, clients: Clients) -> Handle:
    def not_here(ctx: Context[Any], /, **payload: Any) -> None:
        """Workers have a task of their own that calls the function: `ProjectTasks`."""

    call = of_call(function, takes_context=takes_context)
    name = f"{function.__module__}.{function.__qualname__}"
    return declared(name, described(not_here, function, call), {}, Shared(clients=clients))


def _imported(path: str) -> Task | None:
    try:
        found = import_string(path)
    except ImportError:
        return None
    return found if isinstance(found, Task) else None
