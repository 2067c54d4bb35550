"""`oncue apply`: jobs as code. The server compares sets of jobs with what is stored, and makes them so."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from oncue.cli.asking import SERVER, asking, problem_of, say_refusal, tell_data
from oncue.cli.output import Output
from oncue.cli.printing import print_json, print_table, say, text
from oncue.cli.refusing import REFUSED, refuse_empty, say_invalid
from oncue.cli.roles import options
from oncue.domain.declared import LARGEST_STAMP
from oncue.domain.errors import Problem

if TYPE_CHECKING:
    from oncue.cli.job_file import JobSet
    from oncue.client import FieldProblem

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
  oncue apply jobs.yaml --prune
  oncue apply jobs/ extra.yaml
  oncue apply shop.tasks --prune
  oncue export --set shop | oncue apply - --check

Jobs are matched by key among your own jobs. Applied jobs carry the tag applied:SET. --prune cancels active and paused
jobs with this tag that are missing from the files, and changes no other job. If a key belongs to a job of another set,
or to a job created by hand, nothing is applied; --adopt takes such jobs into this set. Nothing is applied either if any
job is refused. A directory stands for its .yaml, .yml and .json files, - for standard input; a module or .py file for
the schedules that its tasks declare, which belong to the set NAME of its Tasks("NAME").
"""


@click.command("apply", epilog=EXAMPLES)
@click.argument("files", metavar="FILE|DIR|MODULE|-...", nargs=-1, required=True)
@click.option("--dry-run", is_flag=True, help="Show the steps without applying them.")
@click.option("--check", is_flag=True, help="Like --dry-run; exit with 1 if anything would change.")
@click.option("--prune", is_flag=True, help="Cancel jobs of a set that are missing from the files.")
@click.option("--adopt", is_flag=True, help="Take jobs with these keys from other sets, or created by hand.")
@click.option(
    "--stamp",
    type=click.IntRange(0, LARGEST_STAMP),
    envvar="ONCUE_BUILD",
    metavar="N",
    help="Refuse if the set was applied with a higher number; of Python code the default is when it was written.",
)
@options(SERVER)
def command(
    url: str | None,
    output: Output,
    files: tuple[str, ...],
    dry_run: bool,
    check: bool,
    prune: bool,
    adopt: bool,
    stamp: int | None,
) -> None:
    """Create and change jobs from files or code."""
    from oncue.cli.job_file import read_job_sets

    refuse_empty(files, "a file, a directory or a module")
    sets, problems = read_job_sets(files)
    problems += _unnamed(sets) if prune else ()
    say_invalid(problems, {"tasks": "FILE"}, as_json=output.as_json)
    flags: dict[str, Any] = {"prune": prune, "adopt": adopt, "stamp": stamp}
    rehearsed = dry_run or check
    if (len(sets) > 1 and not rehearsed) or problems:  # none is applied if one is refused, and all that is wrong told
        _ask_each(url, output, sets, {**flags, "dry_run": True}, refused=bool(problems))
    answers = _ask_each(url, output, sets, {**flags, "dry_run": rehearsed})
    if output.as_data:
        tell_data(answers[0] if len(answers) == 1 else {"sets": answers}, output)
    else:
        _print(answers, dry_run=rehearsed)
    steps = [step for answer in answers for step in answer["steps"]]
    sys.exit(1 if check and any(step["action"] != "unchanged" for step in steps) else 0)


def _unnamed(sets: Sequence[JobSet]) -> list[Problem]:
    """Return why sets cannot be pruned: they have no name."""
    like = {True: "set: shop", False: "Tasks('shop')"}
    what = [(one.places[0].file, like[one.stamp is None]) for one in sets if not one.named]
    message = "--prune needs the name of the set in {}, like {}"
    return [Problem("set", "required", message.format(*one)) for one in what]


def _ask_each(
    url: str | None, output: Output, sets: Sequence[JobSet], flags: Mapping[str, Any], *, refused: bool = False
) -> list[Any]:
    """Return the answers of all sets. The command ends when one is refused, in a dry run after all were asked."""
    answers = []
    for one in sets:
        answers.append(_ask(url, output, one, flags))
        if answers[-1] is None and not flags["dry_run"]:
            break
    if refused or None in answers:
        sys.exit(REFUSED)
    return answers


def _ask(url: str | None, output: Output, jobs: JobSet, flags: Mapping[str, Any]) -> Any:
    """Return the answer. None: the set was refused, and the reasons are printed."""
    from oncue.client import Invalid
    from oncue.client import jobs as calls

    stamp = jobs.stamp if flags["stamp"] is None else flags["stamp"]
    names = Places(jobs)
    with asking(url, as_json=output.as_json, names=names) as client:
        try:
            answer = client.ask(calls.apply(jobs.set, jobs.jobs, **{**flags, "stamp": stamp}).plain())
        except Invalid as no:
            no.errors = tuple(map(names.told, no.errors))
            if output.as_json:
                errors = [{**msgspec.to_builtins(one), "place": names.place_of(one.path)} for one in no.errors]
                print_json({**problem_of(no), "errors": errors}, err=True)
            else:
                say_refusal(no, names, as_json=False)
            return None
    for warning in answer["warnings"]:
        if warning["code"] == "same_stamp":
            say(
                f"warning: the set {jobs.set} was applied with the stamp {stamp} and other jobs before",
                err=True,
            )
        elif warning.get("message"):
            say(f"warning: {Places(jobs)[warning['path']]}: {text(warning['message'], longest=None)}", err=True)
    return answer


class Places(Mapping[str, str]):
    """Names a job in an error by its line and key, where the API names it by its place: `jobs.3.task` is
    `jobs.yaml:12: report: task`.
    """

    def __init__(self, jobs: JobSet) -> None:
        self._jobs = jobs

    def __getitem__(self, path: str) -> str:
        if path == "adopt":
            return "--adopt"
        number, field = self._job(path)
        if number is None:
            raise KeyError(path)
        return f"{self._jobs.name_of(number, field)}{f': {field}' if field else ''}"

    def place_of(self, path: str) -> str | None:
        """Return the file and line of a field of a job."""
        number, field = self._job(path)
        return None if number is None else self._jobs.places[number].of(field)

    def told(self, one: FieldProblem) -> FieldProblem:
        """Name the line of the other job in the message about a repeated key."""
        if one.code != "not_unique":
            return one
        message = re.sub(r"\bjobs\.\d+", lambda other: self.place_of(other[0]) or other[0], one.message)
        return msgspec.structs.replace(one, message=message)

    def _job(self, path: str) -> tuple[int | None, str]:
        match path.split(".", 2):
            case ["jobs", number, *field] if number.isdecimal() and int(number) < len(self._jobs.jobs):
                return int(number), "".join(field)
        return None, ""

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def _print(answers: Sequence[Any], *, dry_run: bool) -> None:
    for answer in answers:
        steps = answer["steps"]
        actions = dict.fromkeys(step["action"] for step in steps)
        counts = [f"{action} {sum(step['action'] == action for step in steps)}" for action in actions]
        title = ", ".join(counts) or "nothing to do"
        if len(answers) > 1:
            title = f"{answer['set']}: {title}"
        title += " (dry run: nothing was applied)" if dry_run else ""
        print_table(text(title), ("", "key", "what"), [row for step in steps for row in _rows(step)])


def _rows(step: Any) -> list[tuple[str, str, str]]:
    said = [f"from the set {owner}" for owner in step["owners"]]
    said += [f"{name}: {_value(one['old'])} → {_value(one['new'])}" for name, one in step["changes"].items()]
    first, *more = said or [""]
    return [(step["action"], text(step["key"]), text(first)), *(("", "", text(line)) for line in more)]


def _value(value: Any) -> str:
    return "(none)" if value in (None, [], {}) else text(value)
