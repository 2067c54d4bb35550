"""Define tasks: functions that jobs run by name. A task is registered explicitly on a `Tasks` object, never globally.

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
from oncue.domain.secret_refs import filled
from oncue.secret import secrets_of_run

F = TypeVar("F", bound=Callable[..., Any])


class Isolation(StrEnum):
    """Where a task's code runs."""

    __hash__ = str.__hash__  # an enum's own is slow Python code, and these are keys for every run

    LOOP = "loop"  # async functions: in the worker's event loop
    THREAD = "thread"  # sync functions: in a thread of the worker
    PROCESS = "process"  # either kind, on request: in a process of its own, which can be killed


class Task:
    """One task: its function, the schema of its payload, and the defaults of its jobs."""

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        isolation: Isolation,
        defaults: Mapping[str, Any],
        roles: tuple[str, ...],
        takes: Isolation | None = None,
        filled: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.function = function
        self.isolation = isolation
        # The kind of slot it takes in a worker: a command's function runs in the loop, its program does not.
        self.takes = takes or isolation
        self.defaults = dict(defaults)
        self.roles = roles
        self._filled = filled  # parameters of any type, in which {"secret": "name"} stands for a text
        self._parameters = _parameters(name, function)
        self._fields = self._parameters.__struct_fields__
        try:
            self._decode = msgspec.json.Decoder(self._parameters).decode
            self._schema = msgspec.json.encode(msgspec.json.schema(self._parameters))
        except TypeError as wrong:
            raise Invalid.of(
                "task", "bad_signature", f"{name!r}: a parameter's type has no JSON Schema: {wrong}"
            ) from None

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)

    def schema(self) -> bytes:
        """Return the JSON Schema of the payload, which workers register."""
        return self._schema

    def arguments(self, payload: bytes | None) -> dict[str, Any]:
        """Decode the payload to keyword arguments. Invalid: it does not fit the signature; a retry does not help."""
        if not self._fields and payload is None:
            return {}
        try:
            given = self._decode(payload or b"{}")
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as wrong:
            raise Invalid.of(
                "payload", "mismatch", f"does not fit the signature of task {self.name!r}: {wrong}"
            ) from None
        arguments = {field: getattr(given, field) for field in self._fields}
        for field in self._filled:
            arguments[field] = filled(arguments[field], secrets_of_run.get().find)
        return arguments


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
        """Register a function under a name. The options are the defaults of its jobs, which may override them.

        `isolation="process"` runs each run in a process of its own, which can be killed without harm to other runs.
        `roles` lists the roles that may create jobs of this task.
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
        if (first := self._tasks.get(task.name)) is not None:
            message = f"{_place(task)}: task {task.name!r} is already defined at {_place(first)}"
            raise Invalid.of("task", "duplicate", message)
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


def _place(task: Task) -> str:
    """Return `file:line` of a task's function, or the name of its module if it is a callable object."""
    code = getattr(inspect.unwrap(task.function), "__code__", None)
    return type(task.function).__module__ if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def _isolation(asked: str | None, function: Callable[..., Any]) -> Isolation:
    if asked is None:
        return Isolation.LOOP if inspect.iscoroutinefunction(function) else Isolation.THREAD
    if asked != Isolation.PROCESS:
        raise Invalid.of("isolation", "unknown", f"unknown isolation {asked!r}; write 'process', or leave it out")
    return Isolation.PROCESS


def _check(name: str, given: Mapping[str, Any], roles: Iterable[str]) -> None:
    """Report mistakes where the task is defined, not when its first job is refused."""
    define({"task": name, **given}, {}, Instant(0))
    if isinstance(roles, str):
        raise Invalid.of("roles", "not_a_list", f"roles must be a list, like [{roles!r}]")


def _parameters(name: str, function: Callable[..., Any]) -> type[msgspec.Struct]:
    """Turn the signature after `ctx` into a struct, which refuses unknown fields."""
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as wrong:  # a type imported for type checkers only; or a callable object
        raise Invalid.of(
            "task", "bad_signature", f"{name!r}: cannot read the types of the signature: {wrong}"
        ) from None
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters or parameters[0].kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD):
        raise Invalid.of("task", "bad_signature", f"{name!r}: add the context as the first parameter, `ctx: Context`")
    fields: list[Any] = []
    for parameter in parameters[1:]:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise Invalid.of("task", "bad_signature", f"{name!r}: {_not_allowed(parameter)}")
        kind = hints.get(parameter.name, Any)
        field = (parameter.name, kind)
        fields.append(field if parameter.default is parameter.empty else (*field, _default(parameter.default)))
    return msgspec.defstruct("Payload", fields, kw_only=True, forbid_unknown_fields=True)


def _not_allowed(parameter: inspect.Parameter) -> str:
    if parameter.kind is parameter.POSITIONAL_ONLY:
        return f"parameter {parameter.name!r} is positional-only; remove the '/'"
    stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
    return f"parameter '{stars}{parameter.name}' is not allowed; name every parameter"


def _default(value: Any) -> Any:
    """Copy a mutable default for every run, unlike in a plain call."""
    return msgspec.field(default_factory=lambda: deepcopy(value)) if value.__class__.__hash__ is None else value
