"""`oncue api`: serve the REST API alone."""

from __future__ import annotations

from typing import Any

import click

from oncue.cli.roles import SAYING, options, run
from oncue.cli.settings_options import options_of
from oncue.settings import Roles

EXAMPLES = """\b
Examples:
  oncue api --engine postgresql://user:password@db/oncue --host 0.0.0.0
  ONCUE_ENGINE=postgresql://… oncue api --port 9000

The API accepts jobs even while no scheduler or worker runs. Any number of API processes may share one engine.
"""


@click.command("api", epilog=EXAMPLES)
@options(options_of(Roles.API), SAYING)
def command(as_json: bool, **given: Any) -> None:
    """Run the REST API only."""
    from oncue.app import api

    run("api", api, given, as_json=as_json)
