"""`oncue up`: run the API, a scheduler and a worker with one command."""

from __future__ import annotations

from typing import Any

import click

from oncue.cli.keeping_options import KEEPING
from oncue.cli.notify_options import NOTICES, WHO_SENDS
from oncue.cli.roles import (
    API_OPTIONS,
    BAGGAGE,
    GUARD,
    METRICS,
    SAMPLING,
    SAYING,
    SECRECY,
    SECRETS,
    STORE,
    WORK,
    options,
    run,
)

EXAMPLES = """\b
Examples:
  oncue up --tasks tasks.py
  oncue up --tasks shop.jobs:tasks --port 9000
  oncue up --engine postgresql://user:password@db/oncue --tasks shop.jobs

\b
Then, with the key it prints:
  curl http://127.0.0.1:8470/v1/jobs -H "Authorization: Bearer $ONCUE_API_KEY" \\
    -H "Content-Type: application/json" -d '{"task": "http", "payload": {"url": "https://example.org"}}'

On Ctrl-C running runs finish within --grace and the rest return to the queue. A second Ctrl-C stops at once.
"""


@click.command("up", epilog=EXAMPLES)
@options(
    *(STORE, KEEPING, API_OPTIONS, WORK, WHO_SENDS, NOTICES),
    *(GUARD, SECRETS, SECRECY, SAMPLING, BAGGAGE, METRICS, SAYING),
)
def command(as_json: bool, **given: Any) -> None:
    """Run the API, a scheduler and a worker together."""
    from oncue.app import up

    run("up", up, given, as_json=as_json)
