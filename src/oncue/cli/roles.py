"""Shared by the commands that run a role: their options, and turning options into settings."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from oncue.cli.notify_options import who_sends
from oncue.cli.numbers import FiniteRange
from oncue.cli.refusing import refusals, refuse
from oncue.cli.storage_options import STORAGE
from oncue.domain.errors import Invalid, OncueError
from oncue.domain.instants import SECOND, parse_duration
from oncue.settings import Settings

if TYPE_CHECKING:
    from oncue.app import Ready

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

DURATIONS = (
    "keep_history",
    "keep_dead_letters",
    "keep_audit",
    "keep_keys",
    "history_width",
    "storage_patience",
    "lease",
    "grace",
)
NAMES = {name: f"--{name.replace('_', '-')}" for name in Settings.__struct_fields__}
DEFAULTS = Settings()


def _listed(_: click.Context, __: click.Parameter, value: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in value.split(",") if part.strip())


WHERE = (
    click.option(
        "--engine",
        envvar="ONCUE_ENGINE",
        metavar="URL",
        help="The database: sqlite:///file.db or postgresql://… [default: a file in the data directory]",
    ),
    click.option(
        "--data-dir",
        envvar="ONCUE_DATA_DIR",
        default=DEFAULTS.data_dir,
        show_default=True,
        metavar="DIR",
        help="The folder for local files: the default database and the admin key.",
    ),
)
STORE = (
    *WHERE,
    click.option(
        "--keep-history", default="90d", show_default=True, metavar="TIME", help="How long to keep finished runs."
    ),
    click.option(
        "--history-width",
        default="1d",
        show_default=True,
        metavar="TIME",
        help="Time range of one history partition; old history is dropped by partition.",
    ),
    *STORAGE,
)
SAYING = (
    click.option("--json", "as_json", is_flag=True, help="Print the address, or the error, as JSON."),
    click.option(
        "--log-level",
        envvar="ONCUE_LOG_LEVEL",
        type=click.Choice(("debug", "info", "warning", "error")),
        default=DEFAULTS.log_level,
        show_default=True,
        help="The least severe log lines to write.",
    ),
    click.option(
        "--log-format",
        envvar="ONCUE_LOG_FORMAT",
        type=click.Choice(("auto", "json", "pretty")),
        default=DEFAULTS.log_format,
        show_default=True,
        help="Log lines as JSON or as text; auto: text on a terminal.",
    ),
    click.option(
        "--log-errors",
        envvar="ONCUE_LOG_ERRORS",
        is_flag=True,
        help="Include the messages of errors in JSON lines; they may contain secrets.",
    ),
    click.option(
        "--reap",
        envvar="ONCUE_REAP",
        is_flag=True,
        help="Adopt and collect orphaned processes. [default: only as process 1]",
    ),
)
API_OPTIONS = (
    click.option("--host", default=DEFAULTS.host, show_default=True, help="The address to listen on."),
    click.option(
        "--port",
        type=click.IntRange(0, 65535),
        default=DEFAULTS.port,
        show_default=True,
        help="The port to listen on; 0: any free port.",
    ),
    click.option(
        "--access-log",
        envvar="ONCUE_ACCESS_LOG",
        is_flag=True,
        help="Log each request: method, route, status, time and key id, never the query string.",
    ),
    click.option(
        "--quota-jobs",
        type=click.IntRange(0),
        default=DEFAULTS.quota_jobs,
        metavar="N",
        help="Active and paused jobs per member. [default: no limit]",
    ),
    click.option(
        "--quota-payload",
        type=click.IntRange(0),
        default=DEFAULTS.quota_payload,
        metavar="BYTES",
        help="Total payload bytes of these jobs per member. [default: no limit]",
    ),
    click.option(
        "--quota-runs",
        type=click.IntRange(0),
        default=DEFAULTS.quota_runs,
        metavar="N",
        help="Waiting runs per member started by hand (run now, backfill, retry, requeue); 0: no limit. "
        "[default: 100,000]",
    ),
    click.option(
        "--quota-classes",
        type=click.IntRange(0),
        default=DEFAULTS.quota_classes,
        metavar="N",
        help="Combinations of task, queue, priority, labels and size per user. [default: 1,000]",
    ),
)
WORK = (
    click.option(
        "--tasks",
        multiple=True,
        metavar="FILE.py|MODULE[:ATTR]",
        help="Where to load tasks from; repeatable.",
    ),
    click.option(
        "--concurrency",
        type=click.IntRange(1, 100_000),
        default=DEFAULTS.concurrency,
        show_default=True,
        help="Slots for async tasks.",
    ),
    click.option(
        "--threads",
        type=click.IntRange(1, 1_000),
        default=DEFAULTS.threads,
        show_default=True,
        help="Slots for sync tasks.",
    ),
    click.option(
        "--processes",
        type=click.IntRange(0, 1_000),
        default=0,
        help="Slots for process-isolated tasks and commands. [default: one per CPU]",
    ),
    click.option(
        "--cpu",
        type=FiniteRange(0, 10_000),
        default=0,
        metavar="N",
        help="CPUs to share among runs that request them. [default: all CPUs]",
    ),
    click.option(
        "--memory-mb",
        type=click.IntRange(0),
        default=0,
        metavar="MB",
        help="Memory in MB to share among runs that request it. [default: all memory]",
    ),
    click.option(
        "--reserved-for-high",
        type=FiniteRange(0, 1),
        default=DEFAULTS.reserved_for_high,
        show_default=True,
        metavar="PART",
        help="Fraction of slots reserved for high-priority runs.",
    ),
    click.option(
        "--queues",
        default="default",
        show_default=True,
        metavar="A,B",
        callback=_listed,
        help="The queues to take runs from.",
    ),
    click.option(
        "--labels", default="", metavar="X,Y", callback=_listed, help="Labels of this worker, such as gpu or a region."
    ),
    click.option("--name", default="", help="The worker's name on screens. [default: host and process id]"),
    click.option(
        "--lease",
        default="15s",
        show_default=True,
        metavar="TIME",
        help="Time without a heartbeat after which a worker counts as dead and its runs restart elsewhere.",
    ),
    click.option(
        "--grace",
        default="25s",
        show_default=True,
        metavar="TIME",
        help="Time for running runs to finish after a stop signal.",
    ),
    click.option(
        "--allow-commands",
        is_flag=True,
        help="Enable the built-in task `command`, which runs any program as this OS user.",
    ),
)
SECRETS = (
    click.option(
        "--secrets-dir",
        default=DEFAULTS.secrets_dir,
        envvar="ONCUE_SECRETS_DIR",
        metavar="FOLDER",
        help="Folder with secrets: USER/NAME, shared/NAME. [default: secrets in the data folder]",
    ),
)
SECRECY = (
    click.option(
        "--secret-roles",
        default="admin",
        show_default=True,
        metavar="A,B",
        callback=_listed,
        help="Roles whose jobs may use shared secrets.",
    ),
    click.option(
        "--plain-secrets",
        type=click.Choice(["allow", "warn", "refuse"]),
        default=DEFAULTS.plain_secrets,
        envvar="ONCUE_PLAIN_SECRETS",
        show_default=True,
        help="What to do with tokens in plain text in headers of `http` jobs.",
    ),
)
SAMPLING = (
    click.option(
        "--trace-ratio",
        type=FiniteRange(0, 1),
        default=DEFAULTS.trace_ratio,
        show_default=True,
        metavar="PART",
        help="Fraction of runs without a parent span to trace; OTEL_* sets where spans go.",
    ),
)
BAGGAGE = (
    click.option(
        "--trace-baggage",
        default="",
        metavar="A,B",
        callback=_listed,
        help="Keys of W3C baggage to keep and pass on. [default: none]",
    ),
)
GUARD = (
    click.option(
        "--http-allow",
        multiple=True,
        metavar="NETWORK",
        help="Private network that the built-in task `http` may reach, like 10.1.0.0/16; repeatable.",
    ),
)


METRICS = (
    click.option(
        "--metrics-port",
        type=click.IntRange(0, 65535),
        default=DEFAULTS.metrics_port,
        envvar="ONCUE_METRICS_PORT",
        metavar="PORT",
        help="Serve /metrics, /healthz and /readyz on this port. [default: the API's own port, other roles none]",
    ),
    click.option(
        "--metrics-host",
        default=DEFAULTS.metrics_host,
        envvar="ONCUE_METRICS_HOST",
        show_default=True,
        metavar="ADDRESS",
        help="The address of the metrics port.",
    ),
    click.option(
        "--metrics-token-file",
        default=DEFAULTS.metrics_token_file,
        envvar="ONCUE_METRICS_TOKEN_FILE",
        metavar="FILE",
        help="File with the token for /metrics. [default: admin keys only]",
    ),
    click.option(
        "--metrics-open",
        is_flag=True,
        envvar="ONCUE_METRICS_OPEN",
        help="Serve metrics on the metrics port to every client.",
    ),
    click.option("--counting/--no-counting", default=True, hidden=True),  # for benchmarks
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
    who_sends(given)
    if not given.get("engine"):
        folder = Path(given["data_dir"]).absolute()
        given["engine"] = f"sqlite:///{folder / 'oncue.db'}"
    return Settings(**given)


def run(
    role: str, work: Callable[[Settings, Ready], Coroutine[Any, Any, int]], given: dict[str, Any], *, as_json: bool
) -> None:
    """Run a role until a stop signal, and exit with its exit code."""
    from oncue import logs, open_files
    from oncue.cli.banner import announce, stopped

    async def until_stopped(settings: Settings) -> int:
        logs.configure(role, settings)
        code = await work(settings, partial(announce, settings, as_json))
        stopped()
        return code

    logs.configure(role)
    open_files.allow_most()
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

    with refusals(NAMES, as_json=as_json):
        settings = settings_of(**given)
        if not read_only:
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
            "data_dir", "bad_folder", f"cannot create the folder {name!r} ({no.strerror}); choose another folder"
        ) from None
