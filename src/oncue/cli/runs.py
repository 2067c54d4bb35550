"""`oncue runs`: inspect runs, read their logs, cancel and retry them."""

from __future__ import annotations

from typing import Any

import click

from oncue.cli.asking import LISTS, PAGES, SERVER, URL, asking, tell, tell_list
from oncue.cli.following import END_WITH_THE_RUN, follow, follow_log, seconds
from oncue.cli.output import Output
from oncue.cli.printing import print_json, say
from oncue.cli.roles import options
from oncue.cli.showing import RUNS, show_explanation, show_run, show_run_id

EXAMPLES = """\b
Examples:
  oncue runs list --status running
  oncue runs show RUN_ID
  oncue runs logs RUN_ID --follow
  oncue runs cancel RUN_ID
  oncue runs retry RUN_ID
"""
STATUSES = ("scheduled", "queued", "running", "retrying", "cancelling", "succeeded", "dead", "cancelled", "expired")


def _run_id(function: Any) -> Any:
    return click.argument("run_id")(function)


@click.group("runs", epilog=EXAMPLES)
def command() -> None:
    """Inspect runs, read their logs, cancel and retry them."""


LIST = """\b
Examples:
  oncue runs list
  oncue runs list --job JOB_ID --limit 10
  oncue runs list --status dead --task hello --from 2027-01-01T00:00:00Z --json | jq -r '.runs[].error_message'
"""


@command.command("list", epilog=LIST)
@click.option("--status", type=click.Choice(STATUSES))
@click.option("--job", "job_id", metavar="JOB_ID")
@click.option("--task")
@click.option("--queue")
@click.option("--from", "start_time", metavar="INSTANT", help="Runs scheduled for this time or later.")
@click.option("--until", "end_time", metavar="INSTANT", help="Runs scheduled for before this.")
@options(PAGES, LISTS)
def list_(url: str | None, output: Output, limit: int, **filters: Any) -> None:
    """List runs, newest first."""
    from oncue.client import runs

    with asking(url, as_json=output.as_json) as client:
        tell_list(client, runs.page(**filters), RUNS, limit, output)


@command.command("show", epilog="\b\nExamples:\n  oncue runs show RUN_ID\n  oncue runs show RUN_ID --json | jq .result")
@_run_id
@options(SERVER)
def show(url: str | None, output: Output, run_id: str) -> None:
    """Show a run with all its attempts."""
    from oncue.client import runs

    with asking(url, as_json=output.as_json) as client:
        tell(client, runs.show(run_id), show_run, output)


LOGS = """\b
Examples:
  oncue runs logs RUN_ID
  oncue runs logs RUN_ID --follow --tail 20
"""


@command.command("logs", epilog=LOGS)
@_run_id
@click.option("--follow", "-f", "following", is_flag=True, help="Print new lines until the run ends.")
@click.option("--tail", type=click.IntRange(0), metavar="N", help="Begin with the last N lines.")
@options((URL, click.option("--json", "as_json", is_flag=True, help="Print the complete log as one object.")))
def logs(url: str | None, as_json: bool, run_id: str, following: bool, tail: int | None) -> None:
    """Print a run's log."""
    with asking(url, as_json=as_json) as client:
        if as_json:
            if following:
                client.runs.wait(run_id)
            print_json({"run_id": run_id, "log": client.runs.logs(run_id, tail=tail)})
        elif following:
            follow_log(client, run_id, tail)
        else:
            say(client.runs.logs(run_id, tail=tail), nl=False)


@command.command("wait", epilog="\b\nExamples:\n  oncue runs wait RUN_ID --timeout 10m && echo succeeded")
@_run_id
@click.option("--timeout", metavar="TIME", callback=seconds, help="Wait at most this long: 30s, 5m.")
@options(SERVER)
def wait(url: str | None, output: Output, run_id: str, timeout: float | None) -> None:
    """Wait for a run to end; exit code 0 only if it succeeded."""
    with asking(url, as_json=output.as_json) as client:
        ended = follow(client, run_id, timeout, output)
    raise SystemExit(END_WITH_THE_RUN[ended])


@command.command("cancel", epilog="\b\nExamples:\n  oncue runs cancel RUN_ID")
@_run_id
@options(SERVER)
def cancel(url: str | None, output: Output, run_id: str) -> None:
    """Cancel a run: `cancelling` until its worker has stopped it."""
    from oncue.client import runs

    with asking(url, as_json=output.as_json) as client:
        tell(client, runs.cancel(run_id), show_run, output)


@command.command("retry", epilog="\b\nExamples:\n  oncue runs retry RUN_ID")
@_run_id
@options(SERVER)
def retry(url: str | None, output: Output, run_id: str) -> None:
    """Retry a dead run as a new run."""
    from oncue.client import runs

    with asking(url, as_json=output.as_json) as client:
        tell(client, runs.retry(run_id), show_run_id, output)


@command.command("explain", epilog="\b\nExamples:\n  oncue runs explain RUN_ID")
@_run_id
@options(SERVER)
def explain(url: str | None, output: Output, run_id: str) -> None:
    """Explain why a run has or has not started."""
    from oncue.client import runs

    with asking(url, as_json=output.as_json) as client:
        tell(client, runs.explain(run_id), show_explanation, output)
