"""The options that say what a job is, for commands that make or change one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
import msgspec

from oncue.domain.placement import Priority
from oncue.domain.policy import Overlap

JOB = (
    click.option("--task", help="The task to run."),
    click.option(
        "--schedule", metavar="WHEN", help='"now", an instant, a cron expression, "every 30s", or a JSON object.'
    ),
    click.option("--timezone", metavar="ZONE", help="Of a cron expression: an IANA name, like Europe/Berlin."),
    click.option("--payload", metavar="JSON|@FILE", help="The task's arguments, an object; @- reads standard input."),
    click.option("--name", help="For people."),
    click.option("--key", help="A stable name of yours, unique among your jobs."),
    click.option("--queue", help="The queue it waits in."),
    click.option("--priority", type=click.Choice([one.name.lower() for one in Priority])),
    click.option("--tag", "tags", multiple=True, help="May be given several times."),
    click.option(
        "--label", "labels", multiple=True, help="Goes only to workers that offer it. May be given several times."
    ),
    click.option("--max-retries", type=click.IntRange(0)),
    click.option("--timeout", metavar="TIME", help="Of one attempt: 30s, 5m."),
    click.option("--overlap", type=click.Choice([*Overlap])),
    click.option(
        "--field",
        "fields",
        multiple=True,
        metavar="NAME=JSON",
        help="Any other field; what is not JSON is text. May be given several times.",
    ),
    click.option("--file", "file", metavar="FILE", help="A definition in JSON to start from; - is standard input."),
)
NAMES = {
    **{name: f"--{name}" for name in ("task", "schedule", "payload", "name", "key", "queue", "priority", "overlap")},
    **{"schedule.cron": "--schedule", "schedule.at": "--schedule", "schedule.every": "--schedule"},
    **{"schedule.timezone": "--timezone", "max_retries": "--max-retries", "timeout": "--timeout"},
    **{"tags": "--tag", "labels": "--label"},
}
_AS_THEY_ARE = ("task", "name", "key", "queue", "priority", "max_retries", "timeout", "overlap")


def job_fields(given: Mapping[str, Any], *, changing: bool = False) -> dict[str, Any]:
    """The fields that these options ask for; whatever they leave out is not in it.

    `changing` a job, a time zone may come alone: the rest of the schedule stays.
    """
    fields = {} if given["file"] is None else _object(_text(given["file"]), "--file")
    fields |= {name: given[name] for name in _AS_THEY_ARE if given[name] is not None}
    fields |= {name: list(given[name]) for name in ("tags", "labels") if given[name]}
    if given["schedule"] is not None:
        fields["schedule"] = _schedule(given["schedule"], given["timezone"])
    elif given["timezone"] is not None and changing:
        fields["schedule"] = {"timezone": given["timezone"]}
    elif given["timezone"] is not None:
        raise click.UsageError("--timezone goes with a cron expression in --schedule")
    if given["payload"] is not None:
        text = given["payload"]
        fields["payload"] = _object(_text(text[1:]) if text.startswith("@") else text.encode(), "--payload")
    for one in given["fields"]:
        name, equals, value = one.partition("=")
        if not equals:
            raise click.UsageError(f"--field is NAME=JSON, and {one!r} has no =")
        fields[name] = _json_or_text(value)
    return fields


def _schedule(text: str, timezone: str | None) -> Any:
    if text.startswith("{"):
        schedule = _object(text.encode(), "--schedule")
        return schedule if timezone is None else {**schedule, "timezone": timezone}
    return text if timezone is None else {"cron": text, "timezone": timezone}


def _text(file: str) -> bytes:
    try:
        with click.open_file(file, "rb") as opened:  # - is standard input
            content: bytes = opened.read()
            return content
    except OSError as wrong:
        raise click.UsageError(f"{file} cannot be read: {wrong.strerror}") from None


def _object(text: bytes, option: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as wrong:
        raise click.UsageError(f"{option} is no JSON object: {wrong}") from None


def _json_or_text(value: str) -> Any:
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError:
        return value
