"""What the commands that run a role share: their options, and how they become settings."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from oncue.cli.numbers import FiniteRange
from oncue.cli.refusing import refusals, refuse
from oncue.domain.errors import Invalid, OncueError
from oncue.domain.instants import SECOND, parse_duration
from oncue.settings import Settings

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

NAMES = {name: f"--{name.replace('_', '-')}" for name in Settings.__struct_fields__}
DEFAULTS = Settings()


def _listed(_: click.Context, __: click.Parameter, value: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in value.split(",") if part.strip())


WHERE = (
    click.option(
        "--engine",
        envvar="ONCUE_ENGINE",
        metavar="URL",
        help="Where state lives: sqlite:///file.db or postgresql://… [default: a file in the data directory]",
    ),
    click.option(
        "--data-dir",
        envvar="ONCUE_DATA_DIR",
        default=DEFAULTS.data_dir,
        show_default=True,
        metavar="DIR",
        help="The folder of everything local.",
    ),
)
STORE = (
    *WHERE,
    click.option(
        "--keep-history", default="90d", show_default=True, metavar="TIME", help="How long ended runs are kept."
    ),
    click.option(
        "--history-width",
        default="1d",
        show_default=True,
        metavar="TIME",
        help="The time that one piece of history spans: pieces are dropped whole.",
    ),
)
SAYING = (
    click.option("--json", "as_json", is_flag=True, help="Say as JSON where it listens, or why it cannot start."),
)
API_OPTIONS = (
    click.option("--host", default=DEFAULTS.host, show_default=True, help="The address to listen on."),
    click.option(
        "--port",
        type=click.IntRange(0, 65535),
        default=DEFAULTS.port,
        show_default=True,
        help="The port to listen on; 0: any free one.",
    ),
    click.option(
        "--quota-jobs",
        type=click.IntRange(0),
        default=DEFAULTS.quota_jobs,
        metavar="N",
        help="Jobs that have not ended which a member may have. [default: any number]",
    ),
    click.option(
        "--quota-payload",
        type=click.IntRange(0),
        default=DEFAULTS.quota_payload,
        metavar="BYTES",
        help="Bytes of payload in these jobs, all together. [default: any number]",
    ),
    click.option(
        "--quota-runs",
        type=click.IntRange(0),
        default=DEFAULTS.quota_runs,
        metavar="N",
        help="Runs that a member has asked for by hand and that wait; 0: any number. [default: 100,000]",
    ),
    click.option(
        "--quota-classes",
        type=click.IntRange(0),
        default=DEFAULTS.quota_classes,
        metavar="N",
        help="Combinations of task, queue, priority, labels and size that a user may make. [default: 1,000]",
    ),
)
WORK = (
    click.option(
        "--tasks",
        multiple=True,
        metavar="FILE.py|MODULE[:ATTR]",
        help="Where the tasks are. May be given several times.",
    ),
    click.option(
        "--concurrency",
        type=click.IntRange(1, 100_000),
        default=DEFAULTS.concurrency,
        show_default=True,
        help="Async runs at a time.",
    ),
    click.option(
        "--threads",
        type=click.IntRange(1, 1_000),
        default=DEFAULTS.threads,
        show_default=True,
        help="Sync runs at a time.",
    ),
    click.option(
        "--processes",
        type=click.IntRange(0, 1_000),
        default=0,
        help="Process-isolated runs and commands at a time. [default: one per processor]",
    ),
    click.option(
        "--cpu",
        type=FiniteRange(0, 10_000),
        default=0,
        metavar="N",
        help="Processors that its runs may ask for, all together. [default: those there are]",
    ),
    click.option(
        "--memory-mb",
        type=click.IntRange(0),
        default=0,
        metavar="MB",
        help="Memory that its runs may ask for, all together. [default: what the machine has]",
    ),
    click.option(
        "--reserved-for-high",
        type=FiniteRange(0, 1),
        default=DEFAULTS.reserved_for_high,
        show_default=True,
        metavar="PART",
        help="The part of its places that only runs of high priority get.",
    ),
    click.option(
        "--queues",
        default="default",
        show_default=True,
        metavar="A,B",
        callback=_listed,
        help="The queues to take work from.",
    ),
    click.option(
        "--labels", default="", metavar="X,Y", callback=_listed, help="What this worker offers: gpu, a region."
    ),
    click.option("--name", default="", help="What it is called on screens. [default: host and process number]"),
    click.option(
        "--lease",
        default="15s",
        show_default=True,
        metavar="TIME",
        help="A worker silent for so long is dead, and its runs start elsewhere.",
    ),
    click.option(
        "--grace",
        default="25s",
        show_default=True,
        metavar="TIME",
        help="How long runs may finish when it is told to stop.",
    ),
    click.option("--allow-commands", is_flag=True, help="Run the built-in task `command`: any program, as this user."),
)
GUARD = (
    click.option(
        "--http-allow",
        multiple=True,
        metavar="NETWORK",
        help="A private network the built-in task `http` may reach: 10.1.0.0/16.",
    ),
)


def options(*groups: tuple[Callable[[F], F], ...]) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        for option in reversed([option for group in groups for option in group]):
            function = option(function)
        return function

    return decorate


def settings_of(**given: Any) -> Settings:
    """The options as settings. Without an engine it is a file in the data directory."""
    for field in ("keep_history", "history_width", "lease", "grace"):
        if field in given:
            given[field] = parse_duration(given[field], field, least=SECOND)
    if not given.get("engine"):
        folder = Path(given["data_dir"]).absolute()
        given["engine"] = f"sqlite:///{folder / 'oncue.db'}"
    return Settings(**given)


def run(
    role: str, work: Callable[[Settings], Coroutine[Any, Any, int]], given: dict[str, Any], *, as_json: bool
) -> None:
    """Run a role until it is told to stop, and end with its exit code."""
    from oncue import logs, open_files

    logs.configure(role)
    open_files.allow_most()
    sys.exit(storing(work, given, as_json=as_json))


def storing(work: Callable[[Settings], Coroutine[Any, Any, T]], given: dict[str, Any], *, as_json: bool = False) -> T:
    """Do something with the store that the options name. What is wrong with them, or with the store, is told."""
    import uvloop

    with refusals(NAMES, as_json=as_json):
        settings = settings_of(**given)
        _make_folder(settings.data_dir)
        try:
            return uvloop.run(work(settings))
        except Invalid:
            raise
        except OncueError as no:
            refuse(str(no), as_json=as_json)


def _make_folder(name: str) -> None:
    try:
        Path(name).mkdir(parents=True, exist_ok=True)
    except OSError as no:
        raise Invalid.of(
            "data_dir", "bad_folder", f"{name} cannot be a folder ({no.strerror}): name another one"
        ) from None


def door_opened(settings: Settings, as_json: bool, address: str, key: str | None) -> None:
    """What whoever has just started a server wants to know."""
    file = Path(settings.data_dir) / "admin.key"
    if as_json:
        kept = str(file) if file.exists() else None
        click.echo(msgspec.json.encode({"address": address, "admin_key": key, "admin_key_file": kept}))
    else:
        _tell(file, address, key)
    sys.stdout.flush()


def _tell(file: Path, address: str, key: str | None) -> None:
    click.echo(f"oncue listens at {address}")
    if key is not None:
        click.echo(f"The admin key, shown this once and kept in {file}:\n  {key}")
    elif file.exists():
        click.echo(f"The admin key is in {file}")
    else:
        click.echo("The store has keys. Make another: oncue keys create --engine URL --role admin")
