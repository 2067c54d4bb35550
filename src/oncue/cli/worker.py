"""`oncue worker`: execute runs."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from oncue.cli.roles import SAYING, WHO_SENDS, options, run
from oncue.cli.settings_options import options_of
from oncue.domain.placement import DEFAULT_QUEUE
from oncue.settings import Roles

EXAMPLES = """\b
Examples:
  oncue worker --engine postgresql://db/oncue --tasks shop/tasks.py
  oncue worker --tasks shop.jobs --queues mail,reports --labels gpu

Any number of workers may share one engine. On SIGTERM or Ctrl-C a worker takes no new runs, lets running runs finish
within --shutdown-grace, and returns the rest to the queue without using up an attempt. A second signal stops it at
once.
"""


@click.command("worker", epilog=EXAMPLES)
@click.option("--apply", is_flag=True, help="Apply the schedules that the tasks declare.")
@options(options_of(Roles.WORKER, queues=(DEFAULT_QUEUE,)), WHO_SENDS, SAYING)
def command(as_json: bool, apply: bool, **given: Any) -> None:
    """Run a worker only.

    It executes runs when they are due.
    """
    from oncue.app import worker

    run("worker", partial(worker, apply=apply), given, as_json=as_json)
