"""`oncue runs`: inspect runs, read their logs, cancel them and run them again."""

from __future__ import annotations

from typing import Any

import click

from oncue.cli import naming, time_option
from oncue.cli.asking import CONTEXT, LISTS, PAGES, SERVER, URL, asking, tell, tell_list
from oncue.cli.completing import queue_names, task_names, words_with_commas, worker_names
from oncue.cli.each import on_each
from oncue.cli.following import (
    END_WITH_THE_RUN,
    WAIT,
    check_wait,
    follow_again,
    follow_log,
    seconds,
    show_log,
    wait_for,
)
from oncue.cli.groups import Group
from oncue.cli.job_options import payload_of
from oncue.cli.many import RUNS_OR_ALL, Which, act_on_all
from oncue.cli.naming import RUN_HELP, job_id_of, run_id_of, worker_id_of
from oncue.cli.output import Form, Output, json_option
from oncue.cli.printing import print_json, say
from oncue.cli.roles import options
from oncue.cli.sentences import id_shown, ran_again
from oncue.cli.showing import RUNS, show_explanation, show_run
from oncue.cli.time_option import TIME
from oncue.shapes.runs import Run

EXAMPLES = f"""\b
Examples:
  oncue runs list --status running
  oncue runs list --status dead --from "1h ago"
  oncue runs show 84359e35
  oncue runs logs greeting --follow
  oncue runs cancel 84359e35
  oncue runs list --status dead -q | oncue runs retry -

{RUN_HELP}
"""


@click.group("runs", cls=Group, epilog=EXAMPLES)
def command() -> None:
    """Inspect runs, read logs, cancel, run again."""


STATUSES = words_with_commas(
    "scheduled", "queued", "running", "retrying", "cancelling", "succeeded", "dead", "cancelled", "expired"
)
TRIGGERS = words_with_commas("schedule", "run_now", "backfill", "requeue", "catch_up")
LIST = f"""\b
Examples:
  oncue runs list
  oncue runs list --job greeting --limit 10
  oncue runs list --status running,retrying --watch
  oncue runs list --status dead --from "1h ago" --columns id,job,error
  oncue runs list --task hello --json | jq -r '.runs[].error_message'

{time_option.HELP}
"""


@command.command("list", epilog=LIST)
@click.option(
    "--status",
    metavar="STATUS",
    shell_complete=STATUSES,
    help="queued, running, retrying, succeeded, dead, …; several with commas.",
)
@naming.job_option("Runs of this job: an id, the end of one, a key or a name.")
@click.option("--task", shell_complete=task_names, help="Runs of this task.")
@click.option("--queue", shell_complete=queue_names, help="Runs in this queue.")
@click.option("--from", "start_time", type=TIME, help="Runs scheduled for this time or later.")
@click.option("--until", "end_time", type=TIME, help="Runs scheduled for before this.")
@click.option("--ended-from", "ended_after", type=TIME, help="Runs that ended at this time or later.")
@click.option("--ended-until", "ended_before", type=TIME, help="Runs that ended before this.")
@click.option("--worker", "worker_id", metavar="WORKER", shell_complete=worker_names, help="Runs on this worker.")
@click.option("--error-type", metavar="TYPE", help="Runs that failed with this, like ValueError.")
@click.option(
    "--trigger",
    metavar="TRIGGER",
    shell_complete=TRIGGERS,
    help="schedule, run_now, backfill, requeue, catch_up; several with commas.",
)
@click.option("--user", "user_id", help="Runs of this user (admin).")
@options(PAGES, LISTS)
def list_(
    url: str | None, output: Output, limit: int, job_id: str | None, worker_id: str | None, **filters: Any
) -> None:
    """List runs, newest first."""
    from oncue.client import runs

    with asking(url, as_json=output.as_json) as client:
        job = None if job_id is None else job_id_of(client, job_id)
        worker = None if worker_id is None else worker_id_of(client, worker_id)
        tell_list(client, runs.page(job_id=job, worker_id=worker, **filters), RUNS, limit, output)


@command.command(
    "show", epilog="\b\nExamples:\n  oncue runs show 84359e35\n  oncue runs show greeting --json | jq .result"
)
@naming.RUNS
@options(SERVER)
def show(url: str | None, output: Output, given_runs: tuple[str, ...]) -> None:
    """Show a run with all its attempts."""
    from oncue.client import runs

    with asking(url, as_json=output.as_json) as client:
        on_each(given_runs, lambda run: tell(client, runs.show(run_id_of(client, run)), show_run, output), output)


LOGS = """\b
Examples:
  oncue runs logs 84359e35
  oncue runs logs greeting --follow --tail 20
"""


@command.command("logs", epilog=LOGS)
@naming.RUNS
@click.option("--follow", "-f", "following", is_flag=True, help="Print new lines until the run ends.")
@click.option("--tail", type=click.IntRange(0), metavar="N", help="Begin with the last N lines.")
@options((URL, CONTEXT, json_option("Print the complete log as one object.")))
def logs(url: str | None, as_json: bool, given_runs: tuple[str, ...], following: bool, tail: int | None) -> None:
    """Print a run's log."""

    def act(run: str) -> None:
        run_id = run_id_of(client, run)
        if as_json:
            if following:
                client.runs.wait(run_id, check=False)
            print_json({"run_id": run_id, "log": client.runs.logs(run_id, tail=tail)})
        elif following:
            follow_log(client, run_id, tail)
        else:
            show_log(client, run_id, tail)

    with asking(url, as_json=as_json) as client:
        on_each(given_runs, act, Output(form=Form.JSON if as_json else None))


AWAITED = """\b
Examples:
  oncue runs wait 84359e35
  oncue runs wait greeting --timeout 10m && echo succeeded
"""


@command.command("wait", epilog=AWAITED)
@naming.RUNS
@click.option("--timeout", metavar="TIME", callback=seconds, help="Wait at most this long: 30s, 5m; then exit code 4.")
@options(SERVER)
def wait(url: str | None, output: Output, given_runs: tuple[str, ...], timeout: float | None) -> None:
    """Wait until a run has ended."""
    succeeded = []
    with asking(url, as_json=output.as_json) as client:
        on_each(
            given_runs,
            lambda run: succeeded.append(wait_for(client, run_id_of(client, run), timeout, output)),
            output,
        )
    raise SystemExit(END_WITH_THE_RUN[all(succeeded)])


CANCEL = """\b
Examples:
  oncue runs cancel 84359e35
  oncue runs cancel greeting
  oncue runs cancel --all --status queued --task hello
"""


@command.command("cancel", epilog=CANCEL)
@options(RUNS_OR_ALL, SERVER)
def cancel(url: str | None, output: Output, which: Which) -> None:
    """Cancel a run."""
    from oncue.client import runs

    with asking(url, as_json=output.as_json) as client:
        if which.everything:
            act_on_all(client, which, "cancel", "runs", output)
        on_each(which.given, lambda run: tell(client, runs.cancel(run_id_of(client, run)), _cancelled, output), output)


def _cancelled(run: Run, output: Output) -> None:
    shown = id_shown(run.run_id, output)
    if run.status == "cancelling":
        say(f"Run {shown} is cancelling: its worker stops it.")
    else:
        say(f"Run {shown} is {run.status}.")


RETRY = """\b
Examples:
  oncue runs retry 84359e35
  oncue runs retry 84359e35 --payload '{"name": "them"}'
  oncue runs retry 84359e35 --wait --timeout 10m
  oncue runs retry --all --status expired --from "1h ago"
"""


@command.command("retry", epilog=RETRY)
@click.option("--payload", metavar="JSON|@FILE", help="Another payload for the new run; @- reads standard input.")
@options(RUNS_OR_ALL, WAIT, SERVER)
def retry(
    url: str | None, output: Output, which: Which, payload: str | None, wait: bool, wait_timeout: float | None
) -> None:
    """Run ended runs again, as new runs."""
    from oncue.client import runs

    check_wait(wait, wait_timeout)
    if which.everything and (wait or payload is not None):
        raise click.UsageError("--payload and --wait are for the runs that are named; leave out --all")
    other = None if payload is None else payload_of(payload)
    succeeded: list[bool] = []

    def act(run: str) -> None:
        old = run_id_of(client, run)
        call = runs.retry(old, payload=other)
        if wait:
            succeeded.append(follow_again(client, old, client.ask(call), wait_timeout, output))
        else:
            tell(client, call, lambda new, output: say(ran_again(old, new, output)), output)

    with asking(url, as_json=output.as_json) as client:
        if which.everything:
            act_on_all(client, which, "retry", "runs", output)
        on_each(which.given, act, output)
    raise SystemExit(END_WITH_THE_RUN[all(succeeded)])


@command.command("explain", epilog="\b\nExamples:\n  oncue runs explain 84359e35")
@naming.RUNS
@options(SERVER)
def explain(url: str | None, output: Output, given_runs: tuple[str, ...]) -> None:
    """Explain why a run has not started."""
    from oncue.client import runs

    with asking(url, as_json=output.as_json) as client:
        on_each(
            given_runs, lambda run: tell(client, runs.explain(run_id_of(client, run)), show_explanation, output), output
        )
