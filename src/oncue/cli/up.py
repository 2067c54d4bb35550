"""`oncue up`: run the API, a scheduler and a worker with one command."""

from __future__ import annotations

from typing import Any

import click

from oncue.cli.roles import SAYING, WHO_SENDS, options, run
from oncue.cli.settings_options import options_of
from oncue.settings import ALL

EXAMPLES = """\b
Examples:
  oncue up --tasks tasks.py
  oncue up --tasks shop.jobs:tasks --port 9000
  oncue up --engine postgresql://user:password@db/oncue --tasks shop.jobs

\b
Then, in the same folder:
  oncue enqueue http url=https://example.org --wait

On Ctrl-C running runs finish within --shutdown-grace and the rest return to the queue. A second Ctrl-C stops at once.
"""


@click.command("up", epilog=EXAMPLES)
@options(options_of(ALL), WHO_SENDS, SAYING)
def command(as_json: bool, **given: Any) -> None:
    """Run API, scheduler and worker together."""
    from oncue.app import up

    run("up", up, given, as_json=as_json)
