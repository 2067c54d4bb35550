"""End a command with an exit code, and print on standard error what is wrong and what to do."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NoReturn

import click

from oncue.cli.printing import print_json, say
from oncue.domain.errors import Invalid, Problem

REFUSED = 1
WRONG_USAGE = 2
UNREACHABLE = 3
NOT_IN_TIME = 4
BEFORE_ASKING = "oncue.before_asking"  # what a click context does before a person is asked


@contextmanager
def refusals(names: Mapping[str, str], *, as_json: bool, code: int = REFUSED) -> Iterator[None]:
    """End the command when this block raises Invalid.

    `names` maps a field's path to the option the user typed. With `as_json` the problem is an object of the same shape
    as in the REST API. It goes to standard error in both cases, so that standard output holds results only.
    """
    try:
        yield
    except Invalid as wrong:
        say_invalid(wrong.problems, names, as_json=as_json)
        sys.exit(code)


def say_invalid(problems: Sequence[Problem], names: Mapping[str, str], *, as_json: bool) -> None:
    """Print what is wrong, if anything is."""
    wrong = Invalid(*problems)
    if as_json and problems:
        print_json(_problem(wrong), err=True, indent=-1)
        return
    for problem in wrong.problems:
        name = names.get(problem.path, problem.path)
        say(f"{name}: {problem.message}" if name else problem.message, err=True)


def _problem(wrong: Invalid) -> dict[str, object]:
    return {
        "type": "about:blank",
        "title": "Unprocessable Content",
        "status": 422,
        "detail": str(wrong),
        "errors": wrong.problems,
    }


def refuse(*lines: str, as_json: bool = False, title: str = "Refused", code: int = REFUSED) -> NoReturn:
    """End the command with these lines; as JSON they are the `detail` of a problem with status null."""
    say_problem(*lines, as_json=as_json, title=title)
    sys.exit(code)


def refuse_empty(given: Iterable[str], what: str) -> None:
    """Refuse an empty argument: as a path it would mean this folder, as the end of an id every id."""
    if any(not text.strip() for text in given):
        raise click.UsageError(f"an argument is empty; give {what}")


def confirm(question: str) -> None:
    """Ask, and end the command unless the answer is yes. The end of the input, unlike Ctrl-C, is an answer: no."""
    ctx = click.get_current_context(silent=True)
    if ctx is not None and BEFORE_ASKING in ctx.meta:
        ctx.meta[BEFORE_ASKING]()
    try:
        yes = click.confirm(question, err=True)
    except click.Abort as abort:
        if not isinstance(abort.__context__, EOFError):
            raise
        say("", err=True)
        yes = False
    if not yes:
        refuse("Nothing was changed.")


def say_problem(*lines: str, as_json: bool = False, title: str = "Refused") -> None:
    if not as_json:
        say("\n".join(lines), err=True)
        return
    problem: dict[str, object] = {
        "type": "about:blank",
        "title": title,
        "status": None,
        "detail": "\n".join(lines),
        "errors": [],
    }
    print_json(problem, err=True, indent=-1)
