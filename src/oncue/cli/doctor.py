"""`oncue doctor`: check the database, the processes, this machine or a server, and say what to do."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from oncue.cli.asking import CONTEXT, URL
from oncue.cli.destination import Destination, destination
from oncue.cli.output import json_option
from oncue.cli.printing import print_json, print_table
from oncue.cli.refusing import REFUSED
from oncue.cli.roles import options, settings_of, storing
from oncue.cli.settings_options import STORAGE_PLACE, WHERE, options_named
from oncue.domain.diagnosis import Diagnosis, State, ok

if TYPE_CHECKING:
    from oncue.settings import Settings

EXAMPLES = """\b
Examples:
  oncue doctor
  oncue doctor --engine postgresql://user:password@db/oncue
  oncue doctor --storage s3://bucket/oncue
  oncue doctor --url https://jobs.example.org
  oncue doctor --json | jq '.[] | select(.state != "ok")'

It changes nothing, but stores a small object and deletes it, if there is object storage. The exit code is 1 if there is
a problem; warnings alone do not change it.

Without --engine, --url and --context it looks at the server that the other commands call: of this folder, by its
database, else from outside, as far as the role of the API key allows. With ONCUE_ENGINE it checks that database.
"""


@click.command("doctor", epilog=EXAMPLES)
@options(options_named((*WHERE, *STORAGE_PLACE, "archive")), (URL, CONTEXT))
@click.option(
    "--api-key",
    envvar="ONCUE_API_KEY",
    metavar="KEY",
    help="The API key for --url. Better set ONCUE_API_KEY: other users can see command lines.",
)
@json_option("Print the checks as a list.")
def command(url: str | None, api_key: str | None, as_json: bool, **given: Any) -> None:
    """Check an installation and say what to do."""
    ctx = click.get_current_context()
    to = destination(url)
    inside = _looks_inside(ctx, to, given)
    found: list[Diagnosis] = []
    if inside:
        found += storing(_diagnose, given, as_json=as_json, read_only=True)
    if _typed(ctx, "url") or to.context or not inside:
        from oncue.cli.server_checks import diagnose_server

        found += diagnose_server(to, api_key, ctx.obj)
    elif to.here is not None:
        found.append(ok("server", f"{to.here.url} runs in this folder"))
    _show(found, as_json=as_json)
    if any(one.state is State.PROBLEM for one in found):
        sys.exit(REFUSED)


def _typed(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE


def _looks_inside(ctx: click.Context, to: Destination, given: dict[str, Any]) -> bool:
    """Whether to check the database: it was named, or is that of the server which other commands call."""
    if _typed(ctx, "engine"):
        return True
    if _typed(ctx, "url") or to.context:
        return False
    if ctx.get_parameter_source("engine") is ParameterSource.ENVIRONMENT:
        return True
    if to.here is not None:
        from oncue.process.started import shown_database

        return shown_database(settings_of(**given).engine) == to.here.database
    return not to.elsewhere


async def _diagnose(settings: Settings) -> list[Diagnosis]:
    from oncue.clock import SystemClock
    from oncue.services.doctor import diagnose

    return await diagnose(settings, SystemClock())


def _show(found: Sequence[Diagnosis], *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    counts = [(sum(one.state is state for one in found), state) for state in (State.PROBLEM, State.WARNING)]
    wrong = ", ".join(f"{n} {state}{'s' * (n != 1)}" for n, state in counts if n)
    print_table(
        wrong or f"no problem in {len(found)} checks",
        ("state", "check", "seen, and what to do"),
        [(one.state.value, _on_one_line(one.check), _on_one_line(_both(one))) for one in found],
    )


def _both(one: Diagnosis) -> str:
    return f"{one.seen.rstrip('.')}. {one.remedy}" if one.remedy else one.seen


def _on_one_line(words: str) -> str:
    return " ".join(words.split())
