"""Turn a decorated function into a task. Errors name the line of the declaration."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from oncue.domain.errors import Invalid, Problem, tried
from oncue.tasks.hooks import Shared
from oncue.tasks.options import OF_THE_TASK, defaults
from oncue.tasks.places import BadDeclaration, file_of, place_of
from oncue.tasks.task import AsyncFunctionTask, FunctionTask, Isolation, Task

ROLES = ("admin", "member")
KNOWN_ROLES = (*ROLES, "viewer")


def declared(
    name: str | None, given: Callable[..., Any], options: Mapping[str, Any], shared: Shared
) -> FunctionTask[..., Any] | AsyncFunctionTask[..., Any]:
    """Build a task of a function, or of another task's. BadDeclaration: an option or the signature is wrong."""
    function = given.function if isinstance(given, Task) else given
    named: str = getattr(function, "__name__", "") if name is None else name
    kind = AsyncFunctionTask if inspect.iscoroutinefunction(function) else FunctionTask
    problems: list[Problem] = []
    usual = {one: value for one, value in options.items() if one not in OF_THE_TASK}
    isolation = tried(problems, _isolation, options.get("isolation"), function) or Isolation.THREAD
    checked = tried(problems, defaults, named, usual) or {}
    roles = tried(problems, _roles, options.get("roles", ROLES)) or ()
    no_retry_on = tried(problems, _exceptions, options.get("no_retry_on", ())) or ()
    tried(problems, _refuse_payload_alone, options)
    try:
        task = kind(
            named,
            function,
            isolation=isolation,
            defaults=checked,
            roles=roles,
            no_retry_on=no_retry_on,
            shared=shared,
        )
    except Invalid as wrong:
        problems += wrong.problems
    if problems:
        raise BadDeclaration(place_of(function), f"task {named!r}:", tuple(problems)) from None
    shared.schedules.read(file_of(function))
    if options.get("schedule") is not None:
        task.declare_at(place_of(function), options["schedule"], (), options.get("payload") or {})
    return task


def _refuse_payload_alone(options: Mapping[str, Any]) -> None:
    if options.get("payload") is not None and options.get("schedule") is None:
        raise Invalid.of("payload", "needs_schedule", "is the payload of a declared schedule; add schedule=…")
    if not isinstance(options.get("payload") or {}, Mapping):
        raise Invalid.of("payload", "wrong_type", "must be a dictionary of the task's parameters, like {'to': 'you'}")


def _isolation(asked: str | None, function: Callable[..., Any]) -> Isolation:
    if asked is None:
        return Isolation.LOOP if inspect.iscoroutinefunction(function) else Isolation.THREAD
    if asked != Isolation.PROCESS:
        raise Invalid.of("isolation", "unknown", f"{asked!r} is unknown; write 'process', or leave it out")
    return Isolation.PROCESS


def _roles(given: Iterable[str]) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise Invalid.of("roles", "not_a_list", "must be a list, like ['admin']")
    roles = tuple(given)
    if unknown := [role for role in roles if role not in KNOWN_ROLES]:
        raise Invalid.of("roles", "unknown", f"{unknown[0]!r} is no role; there are {', '.join(KNOWN_ROLES)}")
    return roles


def _exceptions(given: Iterable[type[BaseException]]) -> tuple[type[BaseException], ...]:
    try:
        found = tuple(given)
    except TypeError:  # one class
        found = ()
    if not all(isinstance(one, type) and issubclass(one, BaseException) for one in found) or (given and not found):
        raise Invalid.of("no_retry_on", "wrong_type", "must be a tuple of exception classes, like (ValueError,)")
    return found
