"""Change fields of a job, and print each change: old → new."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec

from oncue.cli.asking import tell_data
from oncue.cli.output import Output, say_sentence
from oncue.cli.printing import say, text
from oncue.cli.refusing import confirm
from oncue.cli.sentences import changed, job_shown
from oncue.domain.declared import ALONE, TAG
from oncue.shapes.jobs import Job, JobFields

if TYPE_CHECKING:
    from oncue.client import Client

MOST_READS = 3  # of a job that another client keeps changing


def tell_put_back(job: Job, then: str, output: Output, *, question: str = "", yes: bool = False) -> None:
    """Say that the next apply undoes what is about to be done to a declared job; on a terminal, ask the question."""
    sets = [tag.removeprefix(TAG) for tag in job.tags if tag.startswith(TAG)]
    if not sets:
        return
    in_code = all(one.startswith(ALONE) for one in sets)
    names = " and ".join(map(text, sets))
    where = f"code ({names})" if in_code else f"the set {names}"
    when = "the next start" if in_code else "the next apply, or start of the code,"
    then = then.replace("the file or the code", "the code") if in_code else then
    shown = job_shown(job, output)
    say_sentence(f"{shown[:1].upper()}{shown[1:]} is declared in {where}: {when} {then}", output, err=True)
    if question and not yes and sys.stdin.isatty():
        confirm(question)


def edit_job(
    client: Client,
    job_id: UUID,
    fields: Mapping[str, Any],
    timezone: str | None,
    if_match: str | None,
    output: Output,
    *,
    yes: bool = False,
) -> None:
    """Read a job, change it if it is still the same, and print what changed."""
    from oncue.client import Stale, jobs

    for reads in range(1, MOST_READS + 1):
        before = client.ask(jobs.show(job_id).plain())
        if reads == 1:
            job = msgspec.convert(before, Job)
            kept = [tag for tag in job.tags if tag.startswith(TAG) and tag not in (fields.get("tags") or ())]
            then = "puts it back. Change the file or the code instead."
            if kept and "tags" in fields:
                then = f"is refused when the job has no tag {text(kept[0])}. Keep the tag."
            tell_put_back(job, then, output, question="Change it all the same?", yes=yes)
        sent = _with_zone(fields, before, timezone)
        try:
            call = jobs.edit(job_id, if_match=if_match or before.get("version"), **sent)
            after = client.ask(call.plain())
            break
        except Stale:
            if if_match is not None or reads == MOST_READS:
                raise
    if output.as_data:
        tell_data(after, output)
        return
    lines = [f"  {line}" for line in differences(before, after)]
    verb = "Changed" if lines else "Nothing changed in"
    say_sentence(changed(verb, msgspec.convert(after, Job), output), output)
    if lines:
        say("\n".join(lines))


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return a line for each field that has another value, in the order of the API; members of objects apart."""
    lines = []
    for name in JobFields.__annotations__:
        old, new = before.get(name), after.get(name)
        if name != "payload" and isinstance(old, dict) and isinstance(new, dict):
            lines += [_line(f"{name}.{key}", old.get(key), new.get(key)) for key in {**old, **new}]
        else:
            lines.append(_line(name, old, new))
    return [line for line in lines if line]


def _with_zone(fields: Mapping[str, Any], before: Mapping[str, Any], timezone: str | None) -> dict[str, Any]:
    if timezone is None:
        return dict(fields)
    from oncue.cli.job_options import in_zone

    return {**fields, "schedule": in_zone(before["schedule"], fields.get("schedule"), timezone)}


def _line(name: str, old: Any, new: Any) -> str:
    return "" if old == new else f"{name}: {_value(old)} → {_value(new)}"


def _value(value: Any) -> str:
    return "(none)" if value is None else value if isinstance(value, str) else msgspec.json.encode(value).decode()
