"""`oncue api`: serve the REST API alone."""

from __future__ import annotations

from typing import Any

import click

from oncue.cli.notify_options import NOTICES
from oncue.cli.roles import API_OPTIONS, BAGGAGE, GUARD, METRICS, SAYING, SECRECY, STORE, options, run

EXAMPLES = """\b
Examples:
  oncue api --engine postgresql://user:password@db/oncue --host 0.0.0.0
  ONCUE_ENGINE=postgresql://… oncue api --port 9000

The API accepts jobs even while no scheduler or worker runs. Any number of API processes may share one engine.
"""


@click.command("api", epilog=EXAMPLES)
@options(STORE, API_OPTIONS, NOTICES, GUARD, SECRECY, BAGGAGE, METRICS, SAYING)
def command(as_json: bool, **given: Any) -> None:
    """Run the REST API only."""
    from oncue.app import api

    run("api", api, given, as_json=as_json)
