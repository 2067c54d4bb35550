"""`oncue jobs`: create, inspect, change and cancel jobs."""

from __future__ import annotations

import sys
from typing import Any
from uuid import UUID

import click

from oncue.cli import naming, time_option
from oncue.cli.asking import CONTEXT, LISTS, PAGES, SERVER, URL, asking, tell, tell_list
from oncue.cli.completing import queue_names, task_names, words_with_commas
from oncue.cli.each import on_each
from oncue.cli.following import END_WITH_THE_RUN, WAIT, WAIT_FOR_NEW, check_wait, follow
from oncue.cli.groups import Group
from oncue.cli.job_editing import edit_job, tell_put_back
from oncue.cli.job_export import JSON, export_jobs
from oncue.cli.job_options import EDITED, JOB, NAMES, job_fields, payload_of, runs_once
from oncue.cli.many import JOBS_OR_ALL, Which, act_on_all
from oncue.cli.naming import HELP, job_id_of
from oncue.cli.output import Output, say_sentence
from oncue.cli.parameters import PARAMETERS, payload_from, payload_names, texts_of, typed_as_taken
from oncue.cli.printing import say
from oncue.cli.refusing import confirm
from oncue.cli.roles import options
from oncue.cli.sentences import cancelled, changed, created, id_shown, job_shown, runs_shown
from oncue.cli.showing import JOBS, OCCURRENCES, show_explanation, show_job
from oncue.cli.time_option import TIME
from oncue.domain.exported import key_for

EXAMPLES = f"""\b
Examples:
  oncue jobs create --task hello --payload '{{"name": "you"}}' --name greeting
  oncue jobs list --status active --task hello
  oncue jobs show greeting
  oncue jobs edit greeting --schedule "every 10m"
  oncue jobs run greeting --wait
  oncue jobs explain 84359e35

{HELP}
"""


@click.group("jobs", cls=Group, epilog=EXAMPLES)
def command() -> None:
    """Create, inspect, change and cancel jobs."""


CREATE = """\b
Examples:
  oncue jobs create --task hello
  oncue jobs create --task hello --schedule "0 9 * * 1-5" --name greeting \\
    --timezone Europe/Berlin
  oncue jobs create --task hello --schedule "in 10m"
  oncue jobs create --task http --schedule "every 5m" --tag web \\
    --payload '{"url": "https://example.org"}'
  oncue jobs create --task report --payload @report.json \\
    --field start_within=10m --field 'retry={"factor": 3}'
  oncue jobs create --file examples/website_check.json --name "my site"
  oncue jobs create --task hello --wait
  oncue jobs create --task hello name=you -q
"""


@command.command("create", epilog=CREATE)
@options(JOB)
@click.option("--idempotency-key", metavar="TEXT", help="Create one job even if this command is repeated.")
@PARAMETERS
@options(WAIT_FOR_NEW, SERVER)
def create(
    url: str | None, output: Output, idempotency_key: str | None, wait: bool, wait_timeout: float | None, **given: Any
) -> None:
    """Create a job; without --schedule it runs now."""
    from oncue.client import jobs

    check_wait(wait, wait_timeout, "--wait-timeout")
    parameters, fields = given.pop("parameters"), job_fields(given)
    if "task" not in fields:
        raise click.UsageError("--task is required, like --task hello")
    if wait and not runs_once(fields):
        raise click.UsageError("--wait needs a job that runs once; create it, then use `oncue jobs run JOB --wait`.")
    payload = payload_from(parameters, given["payload"])

    def send(payload: dict[str, Any]) -> Any:
        call = jobs.create(idempotency_key=idempotency_key, **(fields | ({"payload": payload} if parameters else {})))
        if wait:
            return client.ask(call)
        return tell(client, call, lambda job, output: say_sentence(created(job, output), output), output)

    with asking(url, as_json=output.as_json, names=NAMES | payload_names(payload)) as client:
        job = typed_as_taken(send, payload, texts_of(parameters))
        if job is None:
            return
        say_sentence(created(job, output), output, err=True)
        ended = follow(client, job.job_id, wait_timeout, output)  # the run of a one-shot has the job's id
    raise SystemExit(END_WITH_THE_RUN[ended])


STATUSES = words_with_commas("active", "paused", "finished", "cancelled")
RUN_STATUSES = words_with_commas("succeeded", "dead", "cancelled", "expired")
LIST = f"""\b
Examples:
  oncue jobs list
  oncue jobs list --status paused
  oncue jobs list --last-status dead --tag nightly --limit 500
  oncue jobs list --until "in 1h" --columns id,name,next
  oncue jobs list --watch
  oncue jobs list --tag nightly -q | oncue jobs pause -

{time_option.HELP}
"""


@command.command("list", epilog=LIST)
@click.option(
    "--status",
    metavar="STATUS",
    shell_complete=STATUSES,
    help="active, paused, finished, cancelled; several with commas.",
)
@click.option(
    "--last-status",
    metavar="STATUS",
    shell_complete=RUN_STATUSES,
    help="Jobs whose last run ended like this: succeeded, dead, …",
)
@click.option("--task", shell_complete=task_names, help="Jobs of this task.")
@click.option("--name", help="Jobs with exactly this name.")
@click.option("--prefix", "name_prefix", metavar="TEXT", help="Jobs whose name begins with this.")
@click.option("--tag", help="Jobs with this tag.")
@click.option("--queue", shell_complete=queue_names, help="Jobs of this queue.")
@click.option("--from", "start_time", type=TIME, help="Jobs whose next run is at this time or later.")
@click.option("--until", "end_time", type=TIME, help="Jobs whose next run is before this.")
@click.option("--user", "user_id", help="Jobs of this user (admin).")
@click.option(
    "--health",
    type=click.Choice(["failing", "late", "never_ran"]),
    help="Jobs whose last run is dead, that are late, or that never ran.",
)
@options(PAGES, LISTS)
def list_(url: str | None, output: Output, limit: int, **filters: Any) -> None:
    """List jobs, newest first."""
    from oncue.client import jobs

    with asking(url, as_json=output.as_json) as client:
        tell_list(client, jobs.page(**filters), JOBS, limit, output)


@command.command("export", epilog="\b\nExamples:\n  oncue jobs export greeting > greeting.yaml")
@naming.JOBS
@options((URL, CONTEXT, JSON))
def export(url: str | None, given_jobs: tuple[str, ...], as_json: bool) -> None:
    """Print jobs as YAML for `oncue apply`."""
    from oncue.client import jobs
    from oncue.domain.declared import TAG

    with asking(url) as client:
        found = [client.ask(jobs.show(job_id_of(client, job)).plain()) for job in given_jobs]
        sets = [tag.removeprefix(TAG) for job in found for tag in job["tags"] if tag.startswith(TAG)]
        export_jobs(client, sets[0] if sets else key_for(found[0]), found, as_json=as_json)


@command.command(
    "show", epilog="\b\nExamples:\n  oncue jobs show greeting\n  oncue jobs show 84359e35 --json | jq .schedule"
)
@naming.JOBS
@options(SERVER)
def show(url: str | None, output: Output, given_jobs: tuple[str, ...]) -> None:
    """Show a job's definition and status."""
    from oncue.client import jobs

    with asking(url, as_json=output.as_json) as client:
        on_each(given_jobs, lambda job: tell(client, jobs.show(job_id_of(client, job)), show_job, output), output)


CREATED_AGAIN = "creates it again. Take it out of the file or the code, or pause it instead."
EDIT = """\b
Examples:
  oncue jobs edit greeting --schedule "0 7 * * *" --timezone Europe/Berlin
  oncue jobs edit greeting --priority high --field start_within=null
  oncue jobs edit 84359e35 --if-match 3 --payload @new.json

Fields without an option keep their values: --schedule keeps the time zone, --timezone the rest of the schedule. The
changed fields are printed, old → new. Runs that have started do not change. A job that a file or code declares (tag
applied:SET) is put back by the next apply: on a terminal you are asked first.
"""


@command.command("edit", epilog=EDIT)
@naming.JOBS
@options(EDITED)
@click.option("--if-match", metavar="VERSION", help="Edit only if this is still the job's version; see `show`.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before a declared job is changed.")
@options(SERVER)
def edit(
    url: str | None, output: Output, given_jobs: tuple[str, ...], if_match: str | None, yes: bool, **given: Any
) -> None:
    """Change fields of a job."""
    fields = job_fields(given, changing=True)
    if not fields and given["timezone"] is None:
        raise click.UsageError("no field to change; give at least one option, like --priority high")
    with asking(url, as_json=output.as_json, names=NAMES) as client:
        on_each(
            given_jobs,
            lambda job: edit_job(client, job_id_of(client, job), fields, given["timezone"], if_match, output, yes=yes),
            output,
            NAMES,
        )


@command.command("pause", epilog="\b\nExamples:\n  oncue jobs pause greeting\n  oncue jobs pause --all --tag nightly")
@options(JOBS_OR_ALL, SERVER)
def pause(url: str | None, output: Output, which: Which) -> None:
    """Pause a job."""
    from oncue.client import jobs

    with asking(url, as_json=output.as_json) as client:
        if which.everything:
            act_on_all(client, which, "pause", "jobs", output)
        on_each(
            which.given,
            lambda job: tell(client, jobs.pause(job_id_of(client, job)), _say_changed("Paused"), output),
            output,
        )


@command.command(
    "resume", epilog="\b\nExamples:\n  oncue jobs resume greeting\n  oncue jobs resume greeting --missed all"
)
@click.option(
    "--missed",
    type=click.Choice(["skip", "last", "all"]),
    help="Missed occurrences to run: none, the last one, or all. [default: skip]",
)
@options(JOBS_OR_ALL, SERVER)
def resume(url: str | None, output: Output, which: Which, missed: str | None) -> None:
    """Resume a paused job."""
    from oncue.client import jobs

    def act(job: str) -> None:
        tell(client, jobs.resume(job_id_of(client, job), missed=missed), _say_changed("Resumed"), output)

    with asking(url, as_json=output.as_json) as client:
        if which.everything:
            act_on_all(client, which, "resume", "jobs", output, missed=missed)
        on_each(which.given, act, output)


@command.command(
    "cancel", epilog="\b\nExamples:\n  oncue jobs cancel greeting\n  oncue jobs cancel 84359e35 --purge --yes"
)
@click.option("--purge", is_flag=True, help="Also delete the job with its runs, results and logs (admin).")
@options(JOBS_OR_ALL, SERVER)
def cancel(url: str | None, output: Output, which: Which, purge: bool) -> None:
    """Cancel a job and stop its running runs."""
    from oncue.client import jobs

    def act(job: str) -> None:
        there = client.jobs.get(job_id_of(client, job))
        job_id, before = there.job_id, there.status
        if not purge:
            if before in ("active", "paused"):
                tell_put_back(there, CREATED_AGAIN, output, question="Cancel it all the same?", yes=which.yes)
            tell(
                client, jobs.cancel(job_id), lambda job, _: say_sentence(cancelled(job, before, output), output), output
            )
            return
        tell_put_back(there, CREATED_AGAIN, output)
        if not which.yes and sys.stdin.isatty():
            confirm(f"Delete {job_shown(there, output)} and all its runs, results and logs?")
        tell(client, jobs.purge(job_id), lambda _, output: say(f"Purged job {id_shown(job_id, output)}."), output)

    if purge and which.everything:
        raise click.UsageError("--purge deletes the jobs that are named; leave out --all")
    with asking(url, as_json=output.as_json) as client:
        if which.everything:
            act_on_all(client, which, "cancel", "jobs", output)
        on_each(which.given, act, output)


RUN = """\b
Examples:
  oncue jobs run greeting
  oncue jobs run greeting --wait
  oncue jobs run greeting --payload '{"name": "them"}'
  oncue jobs run --all --tag nightly --yes
  oncue jobs run greeting --wait --timeout 10m && echo "succeeded"
"""


@command.command("run", epilog=RUN)
@click.option("--payload", metavar="JSON|@FILE", help="Another payload, for this run only; @- reads standard input.")
@options(JOBS_OR_ALL, WAIT, SERVER)
def run(
    url: str | None,
    output: Output,
    which: Which,
    payload: str | None,
    wait: bool,
    wait_timeout: float | None,
) -> None:
    """Run a job now."""
    from oncue.client import jobs

    check_wait(wait, wait_timeout)
    if which.everything and (wait or payload is not None):
        raise click.UsageError("--payload and --wait are for the jobs that are named; leave out --all")
    other = None if payload is None else payload_of(payload)
    succeeded: list[bool] = []

    def act(job: str) -> None:
        call = jobs.run_now(job_id_of(client, job), payload=other)
        if wait:
            succeeded.append(follow(client, client.ask(call), wait_timeout, output))
        else:
            tell(client, call, lambda run_id, output: say(f"Created run {id_shown(run_id, output)}."), output)

    with asking(url, as_json=output.as_json) as client:
        if which.everything:
            act_on_all(client, which, "run", "jobs", output)
        on_each(which.given, act, output)
    raise SystemExit(END_WITH_THE_RUN[all(succeeded)])


@command.command("explain", epilog="\b\nExamples:\n  oncue jobs explain greeting\n  oncue jobs explain 84359e35")
@naming.JOBS
@options(SERVER)
def explain(url: str | None, output: Output, given_jobs: tuple[str, ...]) -> None:
    """Explain why a job has not run."""
    from oncue.client import jobs

    with asking(url, as_json=output.as_json) as client:
        on_each(
            given_jobs,
            lambda job: tell(client, jobs.explain(job_id_of(client, job)), show_explanation, output),
            output,
        )


OCCURRED = f"""\b
Examples:
  oncue jobs occurrences greeting --limit 20
  oncue jobs occurrences greeting --from "2h ago" --until "1h ago"

{time_option.HELP}
"""


@command.command("occurrences", epilog=OCCURRED)
@naming.JOB
@click.option("--from", "start_time", type=TIME, help="Those scheduled for this time or later.")
@click.option("--until", "end_time", type=TIME, help="Those scheduled for before this.")
@options(PAGES, LISTS)
def occurrences(url: str | None, output: Output, job: str, limit: int, **window: Any) -> None:
    """List a job's occurrences with their outcomes."""
    from oncue.client import jobs

    with asking(url, as_json=output.as_json) as client:
        call = jobs.occurrences_page(job_id_of(client, job), **window)
        tell_list(client, call, OCCURRENCES, limit, output)


BACKFILL = f"""\b
Examples:
  oncue jobs backfill greeting --from "2026-01-01 00:00" --to "7d ago"
  oncue jobs backfill greeting --from "7d ago" --to now

{time_option.HELP}
"""


@command.command("backfill", epilog=BACKFILL)
@naming.JOBS
@click.option("--from", "start", required=True, type=TIME, help="First time of the range.")
@click.option("--to", "end", required=True, type=TIME, help="Last time of the range.")
@options(SERVER)
def backfill(url: str | None, output: Output, given_jobs: tuple[str, ...], start: str, end: str) -> None:
    """Run all occurrences of a time range now."""
    from oncue.client import jobs

    names = {"from": "--from", "to": "--to"}

    def show(run_ids: tuple[UUID, ...], output: Output) -> None:
        some = f": {runs_shown(run_ids, output)}" if run_ids else ""
        say_sentence(f"Created {len(run_ids)} run{'' if len(run_ids) == 1 else 's'}{some}.", output)

    with asking(url, as_json=output.as_json, names=names) as client:
        on_each(
            given_jobs,
            lambda job: tell(client, jobs.backfill(job_id_of(client, job), start, end), show, output),
            output,
            names,
        )


def _say_changed(verb: str) -> Any:
    return lambda job, output: say_sentence(changed(verb, job, output), output)
