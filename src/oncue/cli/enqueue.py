"""`oncue enqueue`: run a task once, now or later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import click

from oncue.cli import time_option
from oncue.cli.asking import SERVER, asking, tell
from oncue.cli.completing import queue_names, task_names
from oncue.cli.following import END_WITH_THE_RUN, WAIT, check_wait, follow
from oncue.cli.output import Output, say_sentence
from oncue.cli.parameters import PARAMETERS, as_parameter, payload_from, payload_names, texts_of, typed_as_taken
from oncue.cli.roles import options
from oncue.cli.sentences import created
from oncue.cli.time_option import TIME
from oncue.domain.errors import Invalid
from oncue.domain.instants import Duration, parse_duration
from oncue.domain.meanings import option_meant

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


def _delay(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """Check --in here: the server is sent `in 10m`, and its error would quote that."""
    try:
        if value is not None:
            parse_duration(value, "", least=Duration(0))
    except Invalid as wrong:
        raise click.BadParameter(wrong.problems[0].message) from None
    return value


class _Enqueue(click.Command):
    """Says of an option that it does not have which command has it, or how a parameter is written."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        typed = tuple(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as wrong:
            name, own = wrong.option_name, _options_of(self)
            if not name.startswith("--") or option_meant(name, own) is not None:
                raise
            raise click.UsageError(f"No option {name!r}; {_instead_of(name, typed)}", ctx) from None


def _options_of(command: click.Command) -> list[str]:
    return [opt for one in command.params for opt in one.opts]


def _instead_of(name: str, typed: Sequence[str]) -> str:
    from oncue.cli.jobs import create

    others = _options_of(create)
    if name in others or option_meant(name, others) == "--schedule":
        return f"use `oncue jobs create`, which has {name if name in others else '--schedule'}"
    return f"write {as_parameter(name, typed)} for a parameter of the task"


@click.command("enqueue", cls=_Enqueue, epilog=EXAMPLES)
@click.argument("task", shell_complete=task_names)
@PARAMETERS
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


def _names(payload: dict[str, Any], delay: str | None) -> dict[str, str]:
    """Map fields to what was typed."""
    when = "--at" if delay is None else "--in"
    return {**NAMES, "schedule": when, "schedule.at": when, **payload_names(payload)}
