"""`oncue dev`: `oncue up` for whoever writes tasks: it restarts the worker when files change, and tells every run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from oncue.cli.roles import SAYING, WHO_SENDS, options, run
from oncue.cli.settings_options import options_of
from oncue.settings import ALL

HERE = "tasks.py"
DEFAULTS = {"reload": True, "log_runs": True, "log_output": True, "log_format": "short", "log_errors": True}
EXAMPLES = """\b
Examples:
  oncue dev                   # the tasks of tasks.py in this folder
  oncue dev --tasks shop.jobs --port 9000
  oncue dev --no-log-output   # without what tasks print and log
  oncue worker --reload --tasks shop.jobs     # a worker only

\b
Then, in another terminal in the same folder:
  oncue enqueue hello name=you --wait

Save a Python file beside the tasks, and the worker restarts with it. Running runs return to the queue without using up
an attempt. A file with an error is reported with its line; the API stays, and the next save starts the worker again.
"""


@click.command("dev", epilog=EXAMPLES)
@options(options_of(ALL, **DEFAULTS), WHO_SENDS, SAYING)
def command(as_json: bool, **given: Any) -> None:
    """Run all roles; restart the worker on changes.

    The same as `oncue up --reload --log-runs --log-output --log-format short --log-errors`: a line for every run,
    failure, retry and reload, and what tasks print and log.
    """
    from oncue.app import up

    if not given["tasks"] and Path(HERE).is_file():
        given["tasks"] = (HERE,)
    run("up", up, given, as_json=as_json)
