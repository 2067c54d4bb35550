"""How a command prints: the options -o, --json, -q, --utc, and of lists --columns and --watch, as one `Output`.

@command.command("list")
@options(PAGES, LISTS)                # URL and these options
def list_(url: str | None, output: Output, limit: int) -> None: ...

@command.command("show")
@options(SERVER)                      # the same without --columns and --watch
def show(url: str | None, output: Output, ...) -> None: ...
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from enum import StrEnum
from functools import wraps
from typing import Any, TypeVar

import click
import msgspec

from oncue.cli.printing import broken, say
from oncue.clock import Clock, SystemClock
from oncue.domain.errors import Invalid
from oncue.domain.instants import MILLISECOND, SECOND, Duration, Instant, parse_duration

F = TypeVar("F", bound=Callable[..., Any])

UNKNOWN_WIDTH, UNKNOWN_HEIGHT = 80, 24
_FORM = "oncue.form"  # where a click context keeps what -o says
MOST_OFTEN = Duration(200 * MILLISECOND)


class Form(StrEnum):
    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    IDS = "ids"


class Output(msgspec.Struct, frozen=True, kw_only=True):
    form: Form | None = None
    """None: for people on terminals, with tabs in pipes."""
    columns: tuple[str, ...] = ()
    """Names of the columns to show; empty: as many as fit."""
    every: float | None = None
    """Seconds between two looks; None: print once."""
    utc: bool = False
    clock: Clock = msgspec.field(default_factory=SystemClock)

    @property
    def as_json(self) -> bool:
        """Whether errors are printed as JSON, too."""
        return self.form is Form.JSON

    @property
    def as_data(self) -> bool:
        """Whether the API's answer is printed, or the ids in it; see `asking.tell_data`."""
        return self.form not in (None, Form.TABLE)

    @property
    def for_people(self) -> bool:
        return self.form is Form.TABLE or (self.form is None and sys.stdout.isatty())

    @property
    def width(self) -> int:
        """Columns of the terminal; unknown: 80."""
        return shutil.get_terminal_size((UNKNOWN_WIDTH, UNKNOWN_HEIGHT)).columns

    @property
    def height(self) -> int:
        return shutil.get_terminal_size((UNKNOWN_WIDTH, UNKNOWN_HEIGHT)).lines

    def now(self) -> Instant:
        return self.clock.now()


def say_sentence(words: str, output: Output, *, err: bool = False) -> None:
    """Print sentences; on terminals their lines are broken between words."""
    say(broken(words, indent="  ") if output.for_people else words, err=err)


def coloured() -> bool:
    """Whether to colour: on terminals, unless NO_COLOR is set; FORCE_COLOR colours in pipes, too."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (sys.stdout.isatty() and os.environ.get("TERM") != "dumb")


def _every(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
    if value is None:
        return None
    try:
        return parse_duration(value, "", least=MOST_OFTEN) / SECOND
    except Invalid as wrong:
        raise click.BadParameter(wrong.problems[0].message) from None


def _names(_: click.Context, __: click.Parameter, value: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (value or "").split(",") if name.strip())


def _output(
    *, form: str | None, json: bool, ids: bool, utc: bool, columns: tuple[str, ...] = (), every: float | None = None
) -> Output:
    if json + ids + (form is not None) > 1:
        raise click.UsageError("Give one of -o, --json and -q.")
    chosen = Form.JSON if json else Form.IDS if ids else None if form is None else Form(form)
    if every is not None and chosen not in (None, Form.TABLE):
        raise click.UsageError("--watch shows a table; leave out -o, --json and -q.")
    if every is not None and not sys.stdout.isatty():
        raise click.UsageError("--watch needs a terminal; leave it out in a pipe.")
    clock: Clock = click.get_current_context().obj or SystemClock()
    return Output(form=chosen, columns=columns, every=every, utc=utc, clock=clock)


def _into_output(function: F) -> F:
    """Pass the options of this file to the command as one argument, `output`."""

    @wraps(function)
    def called(*args: Any, **given: Any) -> Any:
        chosen = {name.removeprefix("output_"): given.pop(name) for name in [*given] if name.startswith("output_")}
        return function(*args, output=_output(**chosen), **given)

    return called  # type: ignore[return-value]  # click passes arguments by name


def json_option(words: str, plain: str = Form.TABLE.value) -> Callable[[F], F]:
    """Add --json, and -o with the same meaning, as `as_json`: for commands that print no answer of the API."""

    def keep(ctx: click.Context, _: click.Parameter, form: str | None) -> None:
        ctx.meta[_FORM] = form

    def chosen(ctx: click.Context, _: click.Parameter, as_json: bool) -> bool:
        if as_json and ctx.meta.get(_FORM) == plain:
            raise click.UsageError("Give one of -o and --json.")
        return as_json or ctx.meta.get(_FORM) == Form.JSON

    def decorate(function: F) -> F:
        forms = click.Choice([plain, Form.JSON.value])
        flag = click.option("--json", "as_json", is_flag=True, callback=chosen, help=words)
        return click.option(
            "-o",
            "--output",
            type=forms,
            is_eager=True,
            expose_value=False,
            callback=keep,
            help="With json the same as --json.",
        )(flag(function))

    return decorate


COMMON = (
    click.option(
        "-o",
        "--output",
        "output_form",
        type=click.Choice([form.value for form in Form]),
        help="Print a table, the API's answer, or ids only. [default: a table; with tabs in pipes]",
    ),
    click.option("--json", "output_json", is_flag=True, help="Print the API's answer as JSON, like -o json."),
    click.option("-q", "--quiet", "output_ids", is_flag=True, help="Print full ids only, like -o ids."),
    click.option("--utc", "output_utc", is_flag=True, help="Show times in UTC instead of your time zone."),
)
TABLE = (
    click.option(
        "--columns", "output_columns", metavar="A,B", callback=_names, help="Show these columns in this order."
    ),
    click.option(
        "--watch",
        "output_every",
        is_flag=False,
        flag_value="2s",
        default=None,
        metavar="[TIME]",
        callback=_every,
        help="Repeat every 2s, or every TIME, until q or Ctrl-C.",
    ),
)
ONE: tuple[Callable[[Any], Any], ...] = (*COMMON, _into_output)
MANY: tuple[Callable[[Any], Any], ...] = (*COMMON, *TABLE, _into_output)
