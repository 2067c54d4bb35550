"""`oncue scheduler`: turn occurrences into runs."""

from __future__ import annotations

from typing import Any

import click

from oncue.cli.roles import SAYING, options, run
from oncue.cli.settings_options import options_of
from oncue.settings import Roles

EXAMPLES = """\b
Examples:
  oncue scheduler --engine postgresql://user:password@db/oncue
  oncue scheduler --engine postgresql://… --retention 30d

Any number of schedulers may share one engine. There is no leader; when one dies, the others continue at once.
"""


@click.command("scheduler", epilog=EXAMPLES)
@options(options_of(Roles.SCHEDULER), SAYING)
def command(as_json: bool, **given: Any) -> None:
    """Run a scheduler only.

    It plans runs, detects dead workers and drops old history.
    """
    from oncue.app import scheduler

    run("scheduler", scheduler, given, as_json=as_json)
