"""What the code under test has enqueued, and assertions about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self, TypeAlias

import httpx2
import msgspec

from oncue.client import AsyncClient, Client
from oncue.domain.models import dumped
from oncue.overriding import overriding
from oncue.tasks import Task, Tasks

CREATING = {("POST", "/v1/jobs"), ("POST", "/v1/jobs/batch")}
BY_KEY = "/v1/jobs/by-key/"


class Enqueued(msgspec.Struct, frozen=True):
    """One call of a task's handle: its payload, and the other fields of its job, with the task's defaults."""

    task: str
    payload: dict[str, Any] = {}
    options: dict[str, Any] = {}

    def matches(self, payload: Mapping[str, Any], options: Mapping[str, Any]) -> bool:
        """Whether it has these values; objects may have more fields than asked for."""
        return _has(self.payload, payload) and _has(self.options, options)

    def __str__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return f"{self.task}({self.payload!r}{options})"


SomeTasks: TypeAlias = Iterable[Task[..., Any] | Iterable[Task[..., Any]]]  # a `Tasks`, or several of them


class Calls:
    """Takes the calls of the handles of these tasks during a block of `with`, and notes what they enqueue.

    `payload` and `options` of assertions are matched as a subset.
    """

    fixture: str
    client: Client
    async_client: AsyncClient

    def __init__(self, tasks: SomeTasks) -> None:
        self.tasks = Tasks()
        for one in tasks:
            self.tasks.include([one] if isinstance(one, Task) else one)
        self._calls: list[Enqueued] = []

    def __enter__(self) -> Self:
        self._before = [(task.clients, task.clients.override) for task in self.tasks]
        for clients, _ in self._before:
            clients.override = self
        self._inside = overriding(self)
        self._inside.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._inside.__exit__(None, None, None)
        for clients, override in self._before:  # that of a block around this one
            clients.override = override

    def note(self, request: httpx2.Request) -> list[dict[str, Any]]:
        """Note what a request enqueues, and return the fields of the jobs."""
        path, found = request.url.path, list[dict[str, Any]]()
        if (request.method, path) in CREATING:
            body = msgspec.json.decode(request.content)
            found = body.get("jobs", [body])
        elif request.method == "PUT" and path.startswith(BY_KEY):
            found = [{**msgspec.json.decode(request.content), "key": path.removeprefix(BY_KEY)}]
        self._calls += map(self._noted, found)
        return found

    def _noted(self, fields: Mapping[str, Any]) -> Enqueued:
        task = self.tasks.get(fields["task"])
        rest = {name: value for name, value in fields.items() if name not in ("task", "payload")}
        options = rest if task is None else {**task.defaults, **rest}
        return Enqueued(fields["task"], dict(fields.get("payload") or {}), options)

    def enqueued(self, task: Task[..., Any] | str | None = None) -> list[Enqueued]:
        """Return the calls of this task, or all calls."""
        return [call for call in self._calls if task is None or call.task == _name(task)]

    def assert_enqueued(
        self,
        task: Task[..., Any] | str,
        payload: Mapping[str, Any] | None = None,
        *,
        times: int | None = None,
        **options: Any,
    ) -> None:
        """Check that the task was enqueued with these values: `assert_enqueued(welcome, {"user": 7}, queue="mail")`.

        AssertionError: no call of the task has them, or not exactly `times` calls have.
        """
        found = self._matching(task, payload or {}, options)
        if (len(found) != times) if times is not None else not found:
            asked = Enqueued(_name(task), dict(payload or {}), options)
            many = "at least once" if times is None else f"{times} times"
            raise AssertionError(f"expected {asked} to be enqueued {many}, found {len(found)}.\n{self._told()}")

    def assert_not_enqueued(
        self, task: Task[..., Any] | str | None = None, payload: Mapping[str, Any] | None = None, **options: Any
    ) -> None:
        """Check that the task was not enqueued with these values; without a task, that nothing was.

        AssertionError: a call of the task has them; the message shows it.
        """
        if found := self._matching(task, payload or {}, options):
            raise AssertionError(f"expected that this is not enqueued: {found[0]}\n{self._told()}")

    def _matching(
        self, task: Task[..., Any] | str | None, payload: Mapping[str, Any], options: Mapping[str, Any]
    ) -> list[Enqueued]:
        asked = msgspec.to_builtins(dict(payload), enc_hook=dumped), msgspec.to_builtins(options)
        return [call for call in self.enqueued(task) if call.matches(*asked)]

    def _told(self) -> str:
        if not self._calls:
            return "Nothing was enqueued."
        return "\n".join(["Enqueued:", *(f"  {call}" for call in self._calls)])


def _name(task: Task[..., Any] | str) -> str:
    return task if isinstance(task, str) else task.name


def _has(value: Any, asked: Any) -> bool:
    if isinstance(value, dict) and isinstance(asked, Mapping):
        return all(name in value and _has(value[name], part) for name, part in asked.items())
    return bool(value == asked)
