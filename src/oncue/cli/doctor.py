"""`oncue doctor`: check the database, the processes, this machine or a server, and say what to do."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from oncue.cli.asking import URL
from oncue.cli.output import json_option
from oncue.cli.printing import print_json, print_table
from oncue.cli.refusing import REFUSED
from oncue.cli.roles import options, settings_of, storing
from oncue.cli.settings_options import STORAGE_PLACE, WHERE, options_named
from oncue.domain.diagnosis import Diagnosis, State

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

Without --engine and --url it checks the database of ONCUE_ENGINE or in the data directory; if there is none, the server
of ONCUE_URL. A server is checked from outside, as far as the role of the API key allows.
"""


@click.command("doctor", epilog=EXAMPLES)
@options(options_named((*WHERE, *STORAGE_PLACE, "archive")), (URL,))
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
    typed = {name for name in ("engine", "url") if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    found: list[Diagnosis] = []
    if "engine" in typed or ("url" not in typed and (url is None or _has_database(given))):
        found += storing(_diagnose, given, as_json=as_json, read_only=True)
        url = url if "url" in typed else None
    if url is not None:
        from oncue.cli.server_checks import diagnose_server

        found += diagnose_server(url, api_key, ctx.obj)
    _show(found, as_json=as_json)
    if any(one.state is State.PROBLEM for one in found):
        sys.exit(REFUSED)


def _has_database(given: dict[str, Any]) -> bool:
    from oncue.engines.open import may_exist

    return may_exist(settings_of(**given).engine)


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
