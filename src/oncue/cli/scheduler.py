"""`oncue scheduler`: what turns occurrences into runs."""

from __future__ import annotations

from typing import Any

import click

from oncue.cli.roles import SAYING, STORE, options, run

EXAMPLES = """\b
Examples:
  oncue scheduler --engine postgresql://user:password@db/oncue
  oncue scheduler --engine postgresql://… --keep-history 30d

Any number may run on one engine; none is the leader, and when one dies the others plan on without a pause.
"""


@click.command("scheduler", epilog=EXAMPLES)
@options(STORE, SAYING)
def command(as_json: bool, **given: Any) -> None:
    """Run a scheduler: it plans runs, finds dead workers, and drops old history."""
    from oncue.app import scheduler

    run("scheduler", scheduler, given, as_json=as_json)
