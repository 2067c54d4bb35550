"""`oncue jobs`: create, inspect, change and cancel jobs."""

from __future__ import annotations

import sys
from typing import Any

import click

from oncue.cli.asking import LISTS, PAGES, SERVER, asking, tell, tell_list
from oncue.cli.following import END_WITH_THE_RUN, follow, seconds
from oncue.cli.job_options import JOB, NAMES, in_zone, job_fields
from oncue.cli.naming import job_argument, job_id_of
from oncue.cli.output import Output
from oncue.cli.printing import say
from oncue.cli.roles import options
from oncue.cli.showing import JOBS, OCCURRENCES, show_explanation, show_job, show_run_id

EXAMPLES = """\b
Examples:
  oncue jobs create --task hello --payload '{"name": "you"}'
  oncue jobs list --status active --task hello
  oncue jobs show JOB
  oncue jobs edit JOB --schedule "every 10m"
  oncue jobs run JOB --wait
  oncue jobs explain JOB

JOB is the id of a job, or its name if only one active or paused job has that name.
"""


@click.group("jobs", epilog=EXAMPLES)
def command() -> None:
    """Create, inspect, change and cancel jobs."""


CREATE = """\b
Examples:
  oncue jobs create --task hello
  oncue jobs create --task hello --schedule "0 9 * * 1-5" --timezone Europe/Berlin --name greeting
  oncue jobs create --task http --payload '{"url": "https://example.org"}' --schedule "every 5m" --tag web
  oncue jobs create --task report --payload @report.json --field start_within=10m --field 'retry={"factor": 3}'
  oncue jobs create --file examples/website_check.json --name "my site"
  oncue jobs create --task hello --json | jq -r .job_id
"""


@command.command("create", epilog=CREATE)
@options(JOB)
@click.option("--idempotency-key", metavar="TEXT", help="Create one job even if this command is repeated.")
@options(SERVER)
def create(url: str | None, output: Output, idempotency_key: str | None, **given: Any) -> None:
    """Create a job; without --schedule it runs now."""
    from oncue.client import jobs

    fields = job_fields(given)
    if "task" not in fields:
        raise click.UsageError("--task is required, like --task hello")
    with asking(url, as_json=output.as_json, names=NAMES) as client:
        tell(client, jobs.create(idempotency_key=idempotency_key, **fields), show_job, output)


LIST = """\b
Examples:
  oncue jobs list
  oncue jobs list --status paused
  oncue jobs list --last-status dead --tag nightly --limit 500
  oncue jobs list --until 2027-01-01T00:00:00Z --json | jq -r '.jobs[].job_id'

INSTANT is RFC 3339 with an offset: 2027-01-31T09:00:00Z.
"""


@command.command("list", epilog=LIST)
@click.option("--status", type=click.Choice(["active", "paused", "finished", "cancelled"]))
@click.option("--last-status", metavar="STATUS", help="Jobs whose last run ended like this: succeeded, dead, …")
@click.option("--task")
@click.option("--name")
@click.option("--tag")
@click.option("--queue")
@click.option("--from", "start_time", metavar="INSTANT", help="Jobs whose next run is at this time or later.")
@click.option("--until", "end_time", metavar="INSTANT", help="Jobs whose next run is before this.")
@click.option("--user", "user_id", help="Jobs of this user (admin).")
@options(PAGES, LISTS)
def list_(url: str | None, output: Output, limit: int, **filters: Any) -> None:
    """List jobs, newest first."""
    from oncue.client import jobs

    with asking(url, as_json=output.as_json) as client:
        tell_list(client, jobs.page(**filters), JOBS, limit, output)


@command.command("show", epilog="\b\nExamples:\n  oncue jobs show JOB\n  oncue jobs show JOB --json | jq .schedule")
@job_argument
@options(SERVER)
def show(url: str | None, output: Output, job: str) -> None:
    """Show a job's definition and status."""
    from oncue.client import jobs

    with asking(url, as_json=output.as_json) as client:
        tell(client, jobs.show(job_id_of(client, job)), show_job, output)


EDIT = """\b
Examples:
  oncue jobs edit JOB --schedule "0 7 * * *" --timezone Europe/Berlin
  oncue jobs edit JOB --priority high --field start_within=null
  oncue jobs edit JOB --if-match 3 --payload @new.json

Fields without an option keep their values. Runs that have started do not change.
"""


@command.command("edit", epilog=EDIT)
@job_argument
@options(JOB)
@click.option("--if-match", metavar="VERSION", help="Edit only if this is still the job's version; see `show`.")
@options(SERVER)
def edit(url: str | None, output: Output, job: str, if_match: str | None, **given: Any) -> None:
    """Change fields of a job."""
    from oncue.client import jobs

    fields = job_fields(given, changing=True)
    if not fields and given["timezone"] is None:
        raise click.UsageError("no field to change; give at least one option, like --priority high")
    with asking(url, as_json=output.as_json, names=NAMES) as client:
        job_id = job_id_of(client, job)
        if given["timezone"] is not None:
            there = client.ask(jobs.show(job_id).plain())["schedule"]
            fields["schedule"] = in_zone(there, fields.get("schedule"), given["timezone"])
        tell(client, jobs.edit(job_id, if_match=if_match, **fields), show_job, output)


@command.command("pause", epilog="\b\nExamples:\n  oncue jobs pause JOB")
@job_argument
@options(SERVER)
def pause(url: str | None, output: Output, job: str) -> None:
    """Pause a job."""
    from oncue.client import jobs

    with asking(url, as_json=output.as_json) as client:
        tell(client, jobs.pause(job_id_of(client, job)), show_job, output)


@command.command("resume", epilog="\b\nExamples:\n  oncue jobs resume JOB\n  oncue jobs resume JOB --missed all")
@job_argument
@click.option(
    "--missed",
    type=click.Choice(["skip", "last", "all"]),
    help="Missed occurrences to run: none, the last one, or all. [default: skip]",
)
@options(SERVER)
def resume(url: str | None, output: Output, job: str, missed: str | None) -> None:
    """Resume a paused job."""
    from oncue.client import jobs

    with asking(url, as_json=output.as_json) as client:
        tell(client, jobs.resume(job_id_of(client, job), missed=missed), show_job, output)


@command.command("cancel", epilog="\b\nExamples:\n  oncue jobs cancel JOB\n  oncue jobs cancel JOB --purge --yes")
@job_argument
@click.option("--purge", is_flag=True, help="Also delete the job with its runs, results and logs (admin).")
@click.option("--yes", is_flag=True, help="Purge without asking. Only terminals are asked.")
@options(SERVER)
def cancel(url: str | None, output: Output, job: str, purge: bool, yes: bool) -> None:
    """Cancel a job and stop its running runs."""
    from oncue.client import jobs

    with asking(url, as_json=output.as_json) as client:
        job_id = job_id_of(client, job)
        if not purge:
            tell(client, jobs.cancel(job_id), show_job, output)
            return
        if not yes and sys.stdin.isatty():
            click.confirm(f"Delete job {job_id} and all its runs, results and logs?", abort=True, err=True)
        tell(client, jobs.purge(job_id), lambda *_: say(f"purged {job_id}"), output)


RUN = """\b
Examples:
  oncue jobs run JOB
  oncue jobs run JOB --wait
  oncue jobs run JOB --wait --timeout 10m && echo "succeeded"
"""


@command.command("run", epilog=RUN)
@job_argument
@click.option("--wait", is_flag=True, help="Wait for the run to end; exit code 0 only if it succeeded.")
@click.option("--timeout", metavar="TIME", callback=seconds, help="Wait at most this long: 30s, 5m.")
@options(SERVER)
def run(url: str | None, output: Output, job: str, wait: bool, timeout: float | None) -> None:
    """Run a job now, in addition to its schedule."""
    from oncue.client import jobs

    with asking(url, as_json=output.as_json) as client:
        if not wait:
            tell(client, jobs.run_now(job_id_of(client, job)), show_run_id, output)
            return
        ended = follow(client, client.jobs.run_now(job_id_of(client, job)), timeout, output)
    raise SystemExit(END_WITH_THE_RUN[ended])


@command.command("explain", epilog="\b\nExamples:\n  oncue jobs explain JOB")
@job_argument
@options(SERVER)
def explain(url: str | None, output: Output, job: str) -> None:
    """Explain why a job has or has not run."""
    from oncue.client import jobs

    with asking(url, as_json=output.as_json) as client:
        tell(client, jobs.explain(job_id_of(client, job)), show_explanation, output)


@command.command("occurrences", epilog="\b\nExamples:\n  oncue jobs occurrences JOB --limit 20")
@job_argument
@options(PAGES, LISTS)
def occurrences(url: str | None, output: Output, job: str, limit: int, page_token: str | None) -> None:
    """List a job's occurrences with their outcomes."""
    from oncue.client import jobs

    with asking(url, as_json=output.as_json) as client:
        call = jobs.occurrences_page(job_id_of(client, job), page_token=page_token)
        tell_list(client, call, OCCURRENCES, limit, output)


BACKFILL = """\b
Examples:
  oncue jobs backfill JOB --from 2027-01-01T00:00:00Z --to 2027-01-08T00:00:00Z
"""


@command.command("backfill", epilog=BACKFILL)
@job_argument
@click.option("--from", "start", required=True, metavar="INSTANT", help="First time of the range.")
@click.option("--to", "end", required=True, metavar="INSTANT", help="Last time of the range.")
@options(SERVER)
def backfill(url: str | None, output: Output, job: str, start: str, end: str) -> None:
    """Run all occurrences of a time range now."""
    from oncue.client import jobs

    with asking(url, as_json=output.as_json, names={"from": "--from", "to": "--to"}) as client:
        tell(client, jobs.backfill(job_id_of(client, job), start, end), _show_created, output)


def _show_created(run_ids: tuple[str, ...], _: Output) -> None:
    say(f"created {len(run_ids)} runs")
