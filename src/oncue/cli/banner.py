"""Say what a role has started with, as a banner for people or as scripts read it, and that it has stopped."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from oncue import logs
from oncue.domain.plain_text import printable
from oncue.log import log
from oncue.process.started import Started
from oncue.services.taken_queues import log_not_taken, not_taken_in_words
from oncue.settings import Settings

SHOWN_TASKS = 3
SHOWN_SCHEDULES = 10
LOGGED_TASKS = 10
COLUMN = 46
NO_TASKS = "no tasks of your own: write --tasks tasks.py"

NO_KEY_FILE = (
    "API keys exist, but no key file is here. Create a key: `oncue keys create --engine URL --user NAME --role admin`"
)


def announce(settings: Settings, as_json: bool, started: Started, key: str | None) -> None:
    """Say once that a role has started. `key` is the admin key, if this start created it: it is printed on a terminal
    only, because a file or a journal keeps what is printed.
    """
    file, shown_key = Path(settings.data_dir) / "admin.key", key if sys.stdout.isatty() else None
    banner = not as_json and logs.pretty(settings, terminal=sys.stdout.isatty())
    if banner:
        click.echo(shown(started, file, of_user=bool(settings.tasks) or settings.notify == "only"))
    if started.address is not None:
        _tell_address(started.address, shown_key, file, as_json=as_json, banner=banner)
    sys.stdout.flush()
    if not banner:
        log.info("Started", kind="started", **_logged(started))
        log_not_taken(started.queues, started.not_taken)
    if key != shown_key:
        log.info("The admin key was created; it is in this file", kind="admin_key_created", file=str(file))


def _logged(started: Started) -> dict[str, Any]:
    """Return the fields of the log line: of the tasks their count, and the first ones."""
    said: dict[str, Any] = msgspec.to_builtins(started)
    said.pop("not_taken", None)  # has a line of its own
    if started.tasks:
        said |= {"task_count": len(started.tasks), "tasks": started.tasks[:LOGGED_TASKS]}
    if started.schedules:
        said |= {"schedule_count": len(started.schedules), "schedules": started.schedules[:LOGGED_TASKS]}
    return said


def stopped() -> None:
    log.info("Stopped", kind="stopped")


def shown(started: Started, key_file: Path, *, of_user: bool = True) -> str:
    """Return the banner. Each row is a label, a text, and perhaps another pair beside it.

    `of_user`: a worker was given tasks, or is not to have any.
    """
    left = f"oncue {started.version}  {started.address or ''}".rstrip()
    right = f"key in {key_file}" if started.address and key_file.exists() else ""
    rows = [("database", f"{started.database}, schema {started.schema}", "", "")]
    if started.tasks:
        rows.append(("tasks", _some(started.tasks), "queues", ", ".join(started.queues)))
    if started.tasks and not of_user:
        rows.append(("note", NO_TASKS, "", ""))
    if words := not_taken_in_words(started.queues, started.not_taken):
        rows.append(("note", words, "", ""))
    rows += [("" if number else "schedule", words, "", "") for number, words in enumerate(_first(started.schedules))]
    if started.slots:
        rows.append(("slots", ", ".join(f"{most} {kind}" for kind, most in started.slots.items()), "", ""))
    rows.append(("metrics", started.metrics, "traces", started.traces))
    rows.append(("docs", "oncue --help", "", ""))
    lines = [f"{left:<{COLUMN}}  {right}"]
    lines += [f"{f'  {label:<8}  {text}':<{COLUMN}}  {other:<6}  {more}" for label, text, other, more in rows]
    return "\n".join(printable_line(line) for line in lines)


def printable_line(line: str) -> str:
    return " ".join(printable(word) for word in line.rstrip().split(" "))


def _some(names: tuple[str, ...]) -> str:
    rest = len(names) - SHOWN_TASKS
    return ", ".join(names[:SHOWN_TASKS]) + (f" ({rest} more)" if rest > 0 else "")


def _first(schedules: tuple[str, ...]) -> list[str]:
    rest = len(schedules) - SHOWN_SCHEDULES
    return [*schedules[:SHOWN_SCHEDULES], *([f"({rest} more)"] if rest > 0 else [])]


def _tell_address(address: str, key: str | None, file: Path, *, as_json: bool, banner: bool) -> None:
    if as_json:
        kept = str(file) if file.exists() else None
        click.echo(msgspec.json.encode({"address": address, "admin_key": key, "admin_key_file": kept}))
        return
    if not banner:
        click.echo(f"oncue listens at {address}")
    if key is not None:
        click.echo(f"The admin key, shown only once and kept in {file}:\n  {key}")
    elif not file.exists():
        click.echo(NO_KEY_FILE)
    elif not banner:
        click.echo(f"The admin key is in {file}")
