"""`oncue api`: the front door alone."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from oncue.cli.roles import DOOR, GUARD, STORE, door_opened, options, run

EXAMPLES = """\b
Examples:
  oncue api --engine postgresql://user:password@db/oncue --host 0.0.0.0
  ONCUE_ENGINE=postgresql://… oncue api --port 9000

It accepts jobs whether or not schedulers and workers are up. Any number may run on one engine.
"""


@click.command("api", epilog=EXAMPLES)
@options(STORE, DOOR, GUARD)
def command(**given: Any) -> None:
    """Run the API alone."""
    from oncue.app import api

    run("api", lambda settings: api(settings, partial(door_opened, settings)), given)
