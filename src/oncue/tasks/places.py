"""Where user code declares something, and errors that begin with it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from oncue.domain.errors import Invalid, Problem


class BadDeclaration(Invalid):
    """A task is declared wrongly. The message begins with the file and line of the declaration."""

    def __init__(self, place: str, what: str, problems: tuple[Problem, ...]) -> None:
        super().__init__(*problems)
        self.args = (f"{place}: {what} {'; '.join(map(_words, self.problems))}",)


def _words(problem: Problem) -> str:
    return problem.message if problem.path in ("", "task") else f"{problem.path} {problem.message}"


def place_of(function: Callable[..., Any]) -> str:
    """Return `file:line` of a function, or the name of its module if it is a callable object."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return type(function).__module__ if code is None else place(code.co_filename, code.co_firstlineno)


def file_of(function: Callable[..., Any]) -> str:
    """Return the file of a function; empty: it has none."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return "" if code is None else code.co_filename


def place(filename: str, line: int) -> str:
    """Return `file:line`, relative to the current folder if it is below."""
    file, here = Path(filename), Path.cwd()
    return f"{file.relative_to(here) if file.is_relative_to(here) else file}:{line}"
