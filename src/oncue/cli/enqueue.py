"""`oncue enqueue`: run a task once, now or later."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

import click
import msgspec

from oncue.cli import time_option
from oncue.cli.asking import SERVER, asking, tell
from oncue.cli.completing import parameter_names, queue_names, task_names
from oncue.cli.following import END_WITH_THE_RUN, WAIT, check_wait, follow
from oncue.cli.job_options import json_fault
from oncue.cli.output import Output, say_sentence
from oncue.cli.roles import options
from oncue.cli.sentences import created
from oncue.cli.time_option import TIME
from oncue.domain.errors import Invalid
from oncue.domain.instants import Duration, parse_duration

if TYPE_CHECKING:
    from oncue.client import FieldProblem

T = TypeVar("T")

EXAMPLES = f"""\b
Examples:
  oncue enqueue hello
  oncue enqueue hello name=you
  oncue enqueue resize width:=200 'tags:=["a", "b"]'
  oncue enqueue hello --in 10m
  oncue enqueue hello --at "2027-01-31 09:00"
  oncue enqueue hello name=you --wait

NAME=TEXT passes text, or a number or other value where the task takes no text; NAME:=JSON passes any value.
{time_option.HELP}
"""
NAMES = {"task": "TASK", "schedule": "--in", "schedule.at": "--at", "queue": "--queue", "priority": "--priority"}
SAMPLES = {
    "integer": ("a whole number", "7"),
    "number": ("a number", "2.5"),
    "boolean": ("true or false", "true"),
    "array": ("an array", '["a", "b"]'),
    "object": ("an object", '{"a": 7}'),
}
_TYPES = re.compile(r" is not of types? (.+)\Z")


def _delay(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """Check --in here: the server is sent `in 10m`, and its error would quote that."""
    try:
        if value is not None:
            parse_duration(value, "", least=Duration(0))
    except Invalid as wrong:
        raise click.BadParameter(wrong.problems[0].message) from None
    return value


@click.command("enqueue", epilog=EXAMPLES)
@click.argument("task", shell_complete=task_names)
@click.argument("parameters", nargs=-1, metavar="[NAME=TEXT|NAME:=JSON]...", shell_complete=parameter_names)
@click.option("--in", "delay", metavar="TIME", callback=_delay, help="Start after this time: 30s, 10m, 2h.")
@click.option("--at", type=TIME, help="Start at this time.")
@click.option("--name", help="A name to show on screens.")
@click.option("--queue", shell_complete=queue_names, help="The queue of the run.")
@click.option("--priority", type=click.Choice(["high", "normal", "low"]))
@click.option("--tag", "tags", multiple=True, help="A tag; repeatable.")
@options(WAIT, SERVER)
def command(
    url: str | None,
    output: Output,
    task: str,
    parameters: tuple[str, ...],
    delay: str | None,
    at: str | None,
    wait: bool,
    wait_timeout: float | None,
    **given: Any,
) -> None:
    """Run a task once, now or later."""
    from oncue.client import jobs

    check_wait(wait, wait_timeout)
    if delay is not None and at is not None:
        raise click.UsageError("Give one of --in and --at.")
    fields: dict[str, Any] = {name: value for name, value in given.items() if value}
    payload = payload_from(parameters)
    if at or delay:
        fields["schedule"] = at or f"in {delay}"
    with asking(url, as_json=output.as_json, names=_names(payload, delay)) as client:

        def enqueue(payload: dict[str, Any]) -> UUID | None:
            call = jobs.create(task=task, payload=payload, **fields)
            if wait:
                return client.ask(call).job_id
            tell(client, call, lambda job, output: say_sentence(created(job, output), output), output)
            return None

        run_id = typed_as_taken(enqueue, payload, texts_of(parameters))
        if run_id is None:
            return
        ended = follow(client, run_id, wait_timeout, output)
    raise SystemExit(END_WITH_THE_RUN[ended])


def typed_as_taken(send: Callable[[dict[str, Any]], T], payload: dict[str, Any], texts: Collection[str]) -> T:
    """Send a payload. Texts that the task does not take as such are sent once more as the JSON they are: `1` is 1."""
    from oncue.client import Invalid as Refused

    try:
        return send(payload)
    except Refused as no:
        first = {one.path: one for one in no.errors if one.code == "mismatch"}
        as_json = {name: _json_of(payload[name]) for name in texts if f"payload.{name}" in first}
        as_json = {name: value for name, value in as_json.items() if not isinstance(value, str)}
        if as_json:
            try:
                return send({**payload, **as_json})
            except Refused as again:
                no = again
        # A value of the right type that is refused for another reason is told as it is: 11 is more than 10.
        texts_first = (first.get(one.path, one) if _TYPES.search(one.message) else one for one in no.errors)
        no.errors = tuple(_with_sample(one, texts) for one in texts_first)
        raise no from None


def _json_of(value: str) -> Any:
    """Decode a text; one that is not JSON stays as it is."""
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError:
        return value


def _with_sample(problem: FieldProblem, texts: Collection[str]) -> FieldProblem:
    """Show how to write a value of the type that the task takes in place of this text."""
    name, found = problem.path.removeprefix("payload."), _TYPES.search(problem.message)
    samples = [SAMPLES[one] for one in re.findall(r'"(\w+)"', found[1]) if one in SAMPLES] if found else []
    if name not in texts or not samples:
        return problem
    kind, sample = samples[0]
    written = f"{name}:={sample}"
    written = written if written.isascii() and " " not in written else f"'{written}'"
    return msgspec.structs.replace(problem, message=f"{problem.message}; write {kind}, like {written}")


def texts_of(parameters: tuple[str, ...]) -> frozenset[str]:
    """Return the names of the parameters that are given as text."""
    return frozenset(name for name in (one.partition("=")[0] for one in parameters) if not name.endswith(":"))


def payload_from(parameters: tuple[str, ...]) -> dict[str, Any]:
    """Turn `name=text` and `name:=json` into a payload."""
    payload: dict[str, Any] = {}
    for one in parameters:
        name, equals, value = one.partition("=")
        as_json = name.endswith(":")
        name = name.removesuffix(":")
        if not equals or not name:
            raise click.UsageError(f"{one!r} is not a parameter; write name=text, or name:=json like width:=200")
        if name in payload:
            raise click.UsageError(f"Parameter {name!r} is given twice.")
        try:
            payload[name] = msgspec.json.decode(value) if as_json else value
        except msgspec.DecodeError as wrong:
            raise click.UsageError(f"{one!r}: what follows := is not JSON: {json_fault(value, wrong)}") from None
    return payload


def _names(payload: dict[str, Any], delay: str | None) -> dict[str, str]:
    """Map fields to what was typed."""
    when = "--at" if delay is None else "--in"
    return {**NAMES, "schedule": when, "schedule.at": when, **{f"payload.{name}": name for name in payload}}
