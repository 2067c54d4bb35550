"""Tasks: code that can be run, known by name. Registered explicitly, on an object of the user: there is no global list.

    tasks = Tasks()

    @tasks.task("send_email", timeout="30s", max_retries=5)
    async def send_email(ctx, to: str, subject: str) -> dict: ...

The signature after `ctx` is the schema of the payload.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from enum import StrEnum
from typing import Any, TypeVar, get_type_hints

import msgspec

from oncue.domain.definition import define
from oncue.domain.errors import Invalid
from oncue.domain.instants import Instant

F = TypeVar("F", bound=Callable[..., Any])


class Isolation(StrEnum):
    """Where a task's code runs."""

    __hash__ = str.__hash__  # an enum's own is in Python, and these are keys for every run

    LOOP = "loop"  # async functions: in the worker's event loop
    THREAD = "thread"  # sync functions: in a thread of the worker
    PROCESS = "process"  # either, asked for: in a process of its own, which can be killed


class Task:
    """One task: its function, the schema of its payload, and what its jobs get unless they say otherwise."""

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        isolation: Isolation,
        defaults: Mapping[str, Any],
        roles: tuple[str, ...],
        takes: Isolation | None = None,
    ) -> None:
        self.name = name
        self.function = function
        self.isolation = isolation
        # Whose places it takes in a worker: a command runs in the loop, its child does not.
        self.takes = takes or isolation
        self.defaults = dict(defaults)
        self.roles = roles
        self._parameters = _parameters(name, function)
        self._fields = self._parameters.__struct_fields__
        try:
            self._decode = msgspec.json.Decoder(self._parameters).decode
            self._schema = msgspec.json.encode(msgspec.json.schema(self._parameters))
        except TypeError as wrong:
            raise Invalid.of(
                "task", "bad_signature", f"the signature of {name!r} has no JSON Schema: {wrong}"
            ) from None

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)

    def schema(self) -> bytes:
        """The JSON Schema of the payload, as workers announce it."""
        return self._schema

    def arguments(self, payload: bytes | None) -> dict[str, Any]:
        """The payload as keyword arguments. Invalid: it does not fit the signature, and trying again will not help."""
        if not self._fields and payload is None:
            return {}
        try:
            given = self._decode(payload or b"{}")
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as wrong:
            raise Invalid.of("payload", "mismatch", f"does not fit the task {self.name!r}: {wrong}") from None
        return {field: getattr(given, field) for field in self._fields}


class Tasks:
    """A set of tasks, for `--tasks file.py` or `--tasks package.module[:attribute]`."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}

    def task(
        self,
        name: str,
        *,
        isolation: str | None = None,
        timeout: str | None = None,
        max_retries: int | None = None,
        retry: Mapping[str, Any] | None = None,
        roles: Iterable[str] = ("admin", "member"),
    ) -> Callable[[F], F]:
        """Register a function under a name. What is given here is the default of its jobs, which may say otherwise.

        `isolation="process"` runs it in a process of its own, where it can be killed and cannot harm its neighbours.
        `roles` says who may make jobs of it.
        """
        defaults = {"timeout": timeout, "max_retries": max_retries, "retry": retry}
        given = {field: value for field, value in defaults.items() if value is not None}

        def register(function: F) -> F:
            self.add(
                Task(name, function, isolation=_isolation(isolation, function), defaults=given, roles=tuple(roles))
            )
            return function

        _check(name, given, roles)
        return register

    def add(self, task: Task) -> None:
        if task.name in self._tasks:
            raise Invalid.of("task", "duplicate", f"there are two tasks named {task.name!r}: rename one of them")
        self._tasks[task.name] = task

    def include(self, others: Iterable[Task]) -> None:
        for task in others:
            self.add(task)

    def __iter__(self) -> Iterator[Task]:
        return iter(self._tasks.values())

    def __len__(self) -> int:
        return len(self._tasks)

    def get(self, name: str) -> Task | None:
        return self._tasks.get(name)


def _isolation(asked: str | None, function: Callable[..., Any]) -> Isolation:
    if asked is None:
        return Isolation.LOOP if inspect.iscoroutinefunction(function) else Isolation.THREAD
    if asked != Isolation.PROCESS:
        raise Invalid.of("isolation", "unknown", f"isolation is 'process' or left out, not {asked!r}")
    return Isolation.PROCESS


def _check(name: str, given: Mapping[str, Any], roles: Iterable[str]) -> None:
    """Mistakes are told where the task is defined, not when its first job is refused."""
    define({"task": name, **given}, {}, Instant(0))
    if isinstance(roles, str):
        raise Invalid.of("roles", "not_a_list", f"roles is a list, like [{roles!r}]")


def _parameters(name: str, function: Callable[..., Any]) -> type[msgspec.Struct]:
    """The signature after `ctx` as a struct, which refuses unknown fields."""
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as wrong:  # imported for type checkers only; or no function but an object to call
        raise Invalid.of("task", "bad_signature", f"the types in the signature of {name!r}: {wrong}") from None
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters or parameters[0].kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD):
        raise Invalid.of("task", "bad_signature", f"the function of {name!r} takes the context first: def f(ctx, …)")
    fields: list[Any] = []
    for parameter in parameters[1:]:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise Invalid.of(
                "task", "bad_signature", f"{name!r}: the payload names every parameter; *, ** and / cannot be filled"
            )
        kind = hints.get(parameter.name, Any)
        field = (parameter.name, kind)
        fields.append(field if parameter.default is parameter.empty else (*field, _default(parameter.default)))
    return msgspec.defstruct("Payload", fields, kw_only=True, forbid_unknown_fields=True)


def _default(value: Any) -> Any:
    """A mutable default is copied for every run, unlike in a plain call."""
    return msgspec.field(default_factory=lambda: deepcopy(value)) if value.__class__.__hash__ is None else value
