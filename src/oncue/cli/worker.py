"""`oncue worker`: what runs tasks."""

from __future__ import annotations

from typing import Any

import click

from oncue.cli.roles import GUARD, SAYING, STORE, WORK, options, run

EXAMPLES = """\b
Examples:
  oncue worker --engine postgresql://user:password@db/oncue --tasks shop/tasks.py
  oncue worker --engine … --tasks shop.jobs --queues mail,reports --labels gpu --concurrency 200

Any number may run on one engine. SIGTERM or Ctrl-C: it takes nothing new, lets runs finish within --grace, and hands
the rest back without spending an attempt; a second signal stops at once.
"""


@click.command("worker", epilog=EXAMPLES)
@options(STORE, WORK, GUARD, SAYING)
def command(as_json: bool, **given: Any) -> None:
    """Run a worker: it takes runs when they are due and executes them."""
    from oncue.app import worker

    run("worker", worker, given, as_json=as_json)
