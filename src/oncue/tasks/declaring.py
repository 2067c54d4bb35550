"""Turn a decorated function into a task. Errors name the line of the declaration."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from oncue.domain.errors import Invalid, Problem
from oncue.tasks.hooks import Shared
from oncue.tasks.options import OF_THE_TASK, defaults
from oncue.tasks.task import AsyncFunctionTask, FunctionTask, Isolation, Task

ROLES = ("admin", "member")


class BadDeclaration(Invalid):
    """A task is declared wrongly. The message begins with the file and line of the declaration."""

    def __init__(self, place: str, what: str, problems: tuple[Problem, ...]) -> None:
        super().__init__(*problems)
        self.args = (f"{place}: {what} {'; '.join(map(_words, problems))}",)


def _words(problem: Problem) -> str:
    return problem.message if problem.path in ("", "task") else f"{problem.path} {problem.message}"


def place_of(function: Callable[..., Any]) -> str:
    """Return `file:line` of a function, or the name of its module if it is a callable object."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return type(function).__module__
    file = Path(code.co_filename)
    here = Path.cwd()
    return f"{file.relative_to(here) if file.is_relative_to(here) else file}:{code.co_firstlineno}"


def declared(
    name: str | None, given: Callable[..., Any], options: Mapping[str, Any], shared: Shared
) -> FunctionTask[..., Any] | AsyncFunctionTask[..., Any]:
    """Build a task of a function, or of another task's. BadDeclaration: an option or the signature is wrong."""
    function = given.function if isinstance(given, Task) else given
    named: str = getattr(function, "__name__", "") if name is None else name
    kind = AsyncFunctionTask if inspect.iscoroutinefunction(function) else FunctionTask
    try:
        return kind(
            named,
            function,
            isolation=_isolation(options.get("isolation"), function),
            defaults=defaults(named, {one: value for one, value in options.items() if one not in OF_THE_TASK}),
            roles=_roles(options.get("roles", ROLES)),
            no_retry_on=_exceptions(options.get("no_retry_on", ())),
            shared=shared,
        )
    except Invalid as wrong:
        raise BadDeclaration(place_of(function), f"task {named!r}:", wrong.problems) from None


def _isolation(asked: str | None, function: Callable[..., Any]) -> Isolation:
    if asked is None:
        return Isolation.LOOP if inspect.iscoroutinefunction(function) else Isolation.THREAD
    if asked != Isolation.PROCESS:
        raise Invalid.of("isolation", "unknown", f"{asked!r} is unknown; write 'process', or leave it out")
    return Isolation.PROCESS


def _roles(given: Iterable[str]) -> tuple[str, ...]:
    if isinstance(given, str):
        raise Invalid.of("roles", "not_a_list", f"must be a list, like [{given!r}]")
    return tuple(given)


def _exceptions(given: Iterable[type[BaseException]]) -> tuple[type[BaseException], ...]:
    try:
        found = tuple(given)
    except TypeError:  # one class
        found = ()
    if not all(isinstance(one, type) and issubclass(one, BaseException) for one in found) or (given and not found):
        raise Invalid.of("no_retry_on", "wrong_type", "must be a tuple of exception classes, like (ValueError,)")
    return found
