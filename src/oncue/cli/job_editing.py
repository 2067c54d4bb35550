"""Change fields of a job, and print each change: old → new."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec

from oncue.cli.asking import tell_data
from oncue.cli.output import Output, say_sentence
from oncue.cli.printing import say
from oncue.cli.sentences import changed
from oncue.shapes.jobs import Job, JobFields

if TYPE_CHECKING:
    from oncue.client import Client

MOST_READS = 3  # of a job that another client keeps changing


def edit_job(
    client: Client,
    job_id: UUID,
    fields: Mapping[str, Any],
    timezone: str | None,
    if_match: str | None,
    output: Output,
) -> None:
    """Read a job, change it if it is still the same, and print what changed."""
    from oncue.client import Stale, jobs

    for reads in range(1, MOST_READS + 1):
        before = client.ask(jobs.show(job_id).plain())
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
