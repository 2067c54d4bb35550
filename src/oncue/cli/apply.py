"""`oncue apply`: jobs as code. Creates, changes and cancels the jobs of a set to match a file."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from oncue.cli.asking import SERVER, asking, tell_data
from oncue.cli.output import Output
from oncue.cli.printing import print_table, text
from oncue.cli.refusing import refusals
from oncue.cli.roles import options
from oncue.clock import Clock
from oncue.domain.errors import Invalid
from oncue.domain.instants import Instant

if TYPE_CHECKING:
    from oncue.cli.job_changes import Step
    from oncue.cli.job_file import JobFile
    from oncue.client import Client

MANY = 20  # steps: from here on a progress bar is worth showing

EXAMPLES = """\b
A file:
  set: shop
  jobs:
    - key: nightly-report
      task: report
      schedule: {cron: "0 2 * * *", timezone: Europe/Berlin}
      payload: {days: 1}
    - key: check
      task: http
      schedule: every 5m
      payload: {url: "https://shop.example.org"}

\b
Examples:
  oncue apply jobs.yaml --dry-run
  oncue apply jobs.yaml
  oncue apply jobs.yaml --prune
  oncue apply jobs.yaml --take-over

Jobs are matched by key among your own jobs. Applied jobs carry the tag applied:SET. --prune cancels active and paused
jobs with this tag that are missing from the file, and changes no other job. If a key belongs to a job of another set,
or to a job created by hand, nothing is applied; --take-over adopts such jobs into this set.
"""


class Done(msgspec.Struct, frozen=True):
    """A step and its outcome."""

    step: Step
    job_id: str | None = None
    error: str | None = None


@click.command("apply", epilog=EXAMPLES)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Show the steps without applying them.")
@click.option("--prune", is_flag=True, help="Cancel jobs of this set that are missing from FILE.")
@click.option("--take-over", is_flag=True, help="Adopt jobs with these keys from other sets, or created by hand.")
@options(SERVER)
@click.pass_obj
def command(
    clock: Clock, /, url: str | None, output: Output, file: Path, dry_run: bool, prune: bool, take_over: bool
) -> None:
    """Create and change jobs to match FILE."""
    from oncue.cli.job_file import read_job_file

    with refusals({}, as_json=output.as_json), asking(url, as_json=output.as_json) as client:
        wanted = read_job_file(file)
        if prune and not wanted.named:
            raise Invalid.of("set", "required", "--prune needs the name of the set in the file, like set: shop")
        planned = _planned(client, wanted, clock.now(), prune=prune)
        done = _refused(planned, dry_run=dry_run) if not take_over else ()
        if not done:
            done = [Done(step, step.job_id) for step in planned] if dry_run else list(_done(client, planned))
        if output.as_data:
            tell_data(_shown(wanted, done, dry_run=dry_run), output)
        else:
            _print(done, dry_run=dry_run)
    sys.exit(1 if any(one.error for one in done) else 0)


def _planned(client: Client, wanted: JobFile, now: Instant, *, prune: bool) -> tuple[Step, ...]:
    from oncue.cli.job_changes import LIVE, steps

    there = _of_this_set(client, wanted.tag)
    defaults = {task.name: task.defaults for task in client.tasks.list()}
    steps(wanted.jobs, there, wanted.tag, defaults, now, prune=prune)  # raises Invalid before one request per key
    whole = {
        job.get("key") for job in there if job["status"] in LIVE and not job.get("large")
    }  # lists omit large payloads
    others = (_keyed(client, job["key"]) for job in wanted.jobs if job["key"] not in whole)
    there += [job for job in others if job is not None]
    return steps(wanted.jobs, there, wanted.tag, defaults, now, prune=prune)


def _of_this_set(client: Client, tag: str) -> list[Any]:
    """List the caller's own jobs with this tag, as the API shows them."""
    from oncue.client import jobs
    from oncue.client.call import following

    me = client.me()
    own = me.user_id if me.role == "admin" else None  # other roles see only their own jobs
    call: Any = jobs.page(tag=tag, user_id=own, limit=1_000)
    found: list[Any] = []
    while True:
        page = client.ask(call.plain())
        found += page["jobs"]
        if page.get("next_page_token") is None:
            return found
        call = following(call, page["next_page_token"])


def _keyed(client: Client, key: str) -> Any:
    """Return the caller's own job with this key, of any set."""
    from oncue.client import NotFound, jobs

    try:
        return client.ask(jobs.show_by_key(key).plain())
    except NotFound:
        return None


def _refused(planned: Sequence[Step], *, dry_run: bool) -> list[Done]:
    """Refuse every step if one of them would adopt a job of another set; empty: none would."""
    from oncue.cli.job_changes import Action

    def why(step: Step) -> str | None:
        match step.action:
            case Action.TAKE_OVER:
                owners = " and ".join(repr(owner) for owner in step.owners)
                whose = f"belongs to the set {owners}" if owners else "was not created by apply"
                return f"the job with this key {whose}; adopt it with --take-over"
            case Action.UNCHANGED:
                return None
            case Action.CREATE | Action.CHANGE | Action.PRUNE:
                return None if dry_run else "skipped because another job was refused"

    if not any(step.action is Action.TAKE_OVER for step in planned):
        return []
    return [Done(step, step.job_id, error=why(step)) for step in planned]


def _done(client: Client, planned: Sequence[Step]) -> Iterator[Done]:
    """Apply the steps one after the other. After a refusal nothing is pruned."""
    from oncue.cli.job_changes import Action
    from oncue.client import OncueApiError

    refused = False
    for step in _with_a_bar(planned):
        try:
            match step.action:
                case Action.CREATE | Action.CHANGE | Action.TAKE_OVER:
                    yield Done(step, client.jobs.put(step.key, **step.fields).job_id)
                case Action.PRUNE if refused:
                    yield Done(step, step.job_id, error="skipped because another job was refused")
                case Action.PRUNE:
                    assert step.job_id is not None, "a pruned job exists"
                    yield Done(step, client.jobs.cancel(step.job_id).job_id)
                case Action.UNCHANGED:
                    yield Done(step, step.job_id)
        except OncueApiError as no:
            refused = True
            yield Done(step, step.job_id, error=str(no))


def _with_a_bar(planned: Sequence[Step]) -> Iterable[Step]:
    if len(planned) < MANY or not sys.stderr.isatty():
        return planned
    from rich.console import Console
    from rich.progress import track

    return track(planned, "applying", console=Console(stderr=True), transient=True)


def _print(done: Sequence[Done], *, dry_run: bool) -> None:
    rows = [row for one in done for row in _rows(one)]
    counts = [
        f"{action} {n}" for action in dict.fromkeys(one.step.action for one in done) if (n := _count(done, action))
    ]
    title = f"{', '.join(counts) or 'nothing to do'}{' (dry run: nothing was applied)' if dry_run else ''}"
    print_table(title, ("", "key", "what"), rows)


def _count(done: Sequence[Done], action: str) -> int:
    return sum(one.step.action == action for one in done)


def _rows(one: Done) -> list[tuple[str, str, str]]:
    said = [f"{name}: {_value(change.old)} → {_value(change.new)}" for name, change in one.step.changes.items()]
    if one.error is not None:
        said.append(f"REFUSED: {one.error}")
    first, *more = said or [""]
    return [(one.step.action, text(one.step.key), text(first)), *(("", "", text(line)) for line in more)]


def _value(value: Any) -> str:
    return "(default)" if value is None else msgspec.json.encode(value).decode()


def _shown(wanted: JobFile, done: Sequence[Done], *, dry_run: bool) -> dict[str, Any]:
    return {
        "set": wanted.set,
        "dry_run": dry_run,
        "steps": [
            {
                "action": one.step.action,
                "key": one.step.key,
                "job_id": one.job_id,
                "changes": one.step.changes,
                "error": one.error,
            }
            for one in done
        ],
    }
