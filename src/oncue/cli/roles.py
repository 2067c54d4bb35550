"""Shared by the commands that run a role: their options, and turning options into settings."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from oncue.cli.refusing import WRONG_USAGE, refusals, refuse
from oncue.cli.settings_options import HELP_ALL, written
from oncue.domain.errors import Invalid, OncueError
from oncue.domain.instants import SECOND, Duration, parse_duration
from oncue.settings import DECLARED, KINDS, Settings
from oncue.settings.checks import check_settings

if TYPE_CHECKING:
    from oncue.app import Ready

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

DURATIONS = tuple(name for name, kind in KINDS.items() if kind is Duration)
SAYING = (click.option("--json", "as_json", is_flag=True, help="Print the address, or the error, as JSON."), HELP_ALL)
IGNORED = "# Written by oncue: keys and data are not for version control.\n*\n"
WHO_SENDS = (
    click.option("--no-notify", is_flag=True, help="Leave notices to other workers."),
    click.option("--only-notify", is_flag=True, help="Send notices, and run nothing else."),
)


def options(*groups: tuple[Callable[[F], F], ...]) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        for option in reversed([option for group in groups for option in group]):
            function = option(function)
        return function

    return decorate


def settings_of(**given: Any) -> Settings:
    """Turn options into settings. Without --engine the database is a file in the data directory."""
    for field in DURATIONS:
        if field in given:
            given[field] = parse_duration(given[field], field, least=SECOND)
    _who_sends(given)
    if not given.get("engine"):
        folder = Path(given["data_dir"]).absolute()
        given["engine"] = f"sqlite:///{folder / 'oncue.db'}"
    return check_settings(Settings(**given))


def _who_sends(given: dict[str, Any]) -> None:
    """Turn the two flags into one setting."""
    no, only = given.pop("no_notify", False), given.pop("only_notify", False)
    if no and only:
        raise click.UsageError("--no-notify and --only-notify exclude each other.")
    if no or only:
        given["notify"] = "off" if no else "only"


def run(
    role: str, work: Callable[[Settings, Ready], Coroutine[Any, Any, int]], given: dict[str, Any], *, as_json: bool
) -> None:
    """Run a role until a stop signal, and exit with its exit code."""
    from oncue import logs
    from oncue.cli.banner import announce, stopped
    from oncue.process import tuning

    async def until_stopped(settings: Settings) -> int:
        logs.configure(role, settings)
        code = await work(settings, partial(announce, settings, as_json))
        stopped()
        return code

    logs.configure(role)
    tuning.allow_most_files()
    sys.exit(storing(until_stopped, given, as_json=as_json))


def storing(
    work: Callable[[Settings], Coroutine[Any, Any, T]],
    given: dict[str, Any],
    *,
    as_json: bool = False,
    read_only: bool = False,
) -> T:
    """Run `work` with the settings of the options. Invalid options, or an unusable database, end the command."""
    import uvloop

    ctx = click.get_current_context()
    names = {name: written(name, ctx) for name in DECLARED}
    with refusals(names, as_json=as_json, code=WRONG_USAGE):
        settings = settings_of(**given)
    with refusals(names, as_json=as_json):
        if not read_only:
            _make_folder(settings.data_dir)
        try:
            return uvloop.run(work(settings))
        except Invalid:
            raise
        except OncueError as no:
            refuse(str(no), as_json=as_json)


def _make_folder(name: str) -> None:
    """Make the data directory. Git leaves out one that was made here: it gets keys and the database."""
    folder = Path(name)
    if folder.is_dir():
        return
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):  # another process that starts was first
            folder.mkdir()
            (folder / ".gitignore").write_text(IGNORED)
        folder.mkdir(exist_ok=True)  # an error, unless it is a folder now
    except OSError as no:
        raise Invalid.of(
            "data_dir", "bad_folder", f"cannot create the folder {name!r} ({no.strerror}); choose another folder"
        ) from None
