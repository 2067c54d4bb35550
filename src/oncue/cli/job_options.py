"""The options that define a job, for the commands that create or change one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click
import msgspec

from oncue.cli.completing import queue_names, task_names
from oncue.cli.printing import say
from oncue.cli.time_option import is_local, local_zone
from oncue.domain.plain_json import not_plain
from oncue.domain.schedule import rescheduled

_KEY = click.option("--key", help="Your own stable key, unique among your jobs.")
JOB = (
    click.option("--task", shell_complete=task_names, help="The task to run."),
    click.option(
        "--schedule", metavar="WHEN", help='"now", "in 10m", a time, a cron expression, "every 30s", or an object.'
    ),
    click.option("--timezone", metavar="ZONE", help="Time zone of the schedule: an IANA name, like Europe/Berlin."),
    click.option("--payload", metavar="JSON|@FILE", help="The task's arguments as an object; @- reads standard input."),
    click.option("--name", help="A name to show on screens."),
    _KEY,
    click.option("--queue", shell_complete=queue_names, help="The queue of its runs."),
    click.option("--priority", type=click.Choice(["high", "normal", "low"])),
    click.option("--tag", "tags", multiple=True, help="A tag; repeatable."),
    click.option("--label", "labels", multiple=True, help="Run only on workers with this label; repeatable."),
    click.option("--max-retries", type=click.IntRange(0), help="Retries after a failed attempt."),
    click.option("--timeout", metavar="TIME", help="Time limit of one attempt: 30s, 5m."),
    click.option(
        "--overlap",
        type=click.Choice(["queue", "skip", "allow", "replace"]),
        help="If an occurrence is due while the previous run is active.",
    ),
    click.option(
        "--field",
        "fields",
        multiple=True,
        metavar="NAME=JSON",
        help="Any other field; a value that is invalid JSON counts as text; repeatable.",
    ),
    click.option(
        "--file",
        "file",
        metavar="FILE",
        help="A JSON definition; other options override its fields; - reads standard input.",
    ),
)
EDITED = tuple(option for option in JOB if option is not _KEY)  # a job keeps its key
NAMES = {
    **dict.fromkeys(("schedule.cron", "schedule.at", "schedule.every"), "--schedule"),
    "schedule.timezone": "--timezone",
}
_AS_THEY_ARE = ("task", "name", "key", "queue", "priority", "max_retries", "timeout", "overlap")


def job_fields(given: Mapping[str, Any], *, changing: bool = False) -> dict[str, Any]:
    """Collect the fields given by the options; fields without an option are left out.

    With `changing`, --timezone may be given alone, and is left to `in_zone`: it keeps the rest of the schedule.
    """
    fields = {} if given["file"] is None else _object(_text(given["file"]), "--file")
    fields |= {name: given[name] for name in _AS_THEY_ARE if given.get(name) is not None}
    fields |= {name: list(given[name]) for name in ("tags", "labels") if given[name]}
    if given["schedule"] is not None:
        fields["schedule"] = _schedule(given["schedule"], None if changing else given["timezone"])
    elif given["timezone"] is not None and not changing:
        raise click.UsageError("--timezone needs a cron expression or a local time in --schedule")
    if given["payload"] is not None:
        fields["payload"] = payload_of(given["payload"])
    for one in given["fields"]:
        name, equals, value = one.partition("=")
        if not equals:
            raise click.UsageError(f"--field {one!r} has no '='; write NAME=JSON, like start_within=10m")
        fields[name] = _json_or_text(value)
    return fields


def payload_of(text: str) -> dict[str, Any]:
    """Parse --payload: an object, or @ and the name of a file that has one."""
    return _object(_text(text[1:]) if text.startswith("@") else text.encode(), "--payload")


def _schedule(text: str, timezone: str | None) -> Any:
    if text.startswith("{"):
        schedule = _object(text.encode(), "--schedule")
        return schedule if timezone is None else {**schedule, "timezone": timezone}
    if timezone is not None:
        return in_zone({}, text, timezone)
    if not is_local(text):
        return text
    zone = local_zone().key
    say(f"--schedule is in the time zone {zone}", err=True)
    return in_zone({}, text, zone)


def in_zone(there: Mapping[str, Any], text: Any, timezone: str) -> dict[str, Any]:
    """Return a schedule in this time zone, with the other fields of the one that is there; None: only another zone."""
    return {**(there if text is None else _rescheduled(there, text)), "timezone": timezone}


def runs_once(fields: Mapping[str, Any]) -> bool:
    """Whether a job with these fields has exactly one run."""
    schedule = fields.get("schedule")
    return schedule is None or not {"cron", "every", "calendar"} & set(_rescheduled({}, schedule))


def _rescheduled(there: Mapping[str, Any], given: Any) -> dict[str, Any]:
    when = rescheduled(dict(there), given)
    if not isinstance(when, dict):
        raise click.UsageError(f"--schedule {given!r} is not a schedule; see `oncue preview --help`")
    return when


def _text(file: str) -> bytes:
    try:
        with click.open_file(file, "rb") as opened:  # - is standard input
            content: bytes = opened.read()
            return content
    except OSError as wrong:
        raise click.UsageError(f"cannot read {file}: {wrong.strerror}") from None


def _object(text: bytes, option: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as wrong:
        raise click.UsageError(f"{option} is not a JSON object: {json_fault(text, wrong)}") from None


def json_fault(text: bytes | str, wrong: msgspec.DecodeError) -> str:
    """Return what is wrong with JSON. The parser misnames half a surrogate pair, which Python's own takes."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return str(wrong)
    faults = (one for one in not_plain(value, "") if one.code == "bad_text")
    return next((f"{one.path[1:]}: {one.message}".removeprefix(": ") for one in faults), str(wrong))


def _json_or_text(value: str) -> Any:
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError:
        return value
