"""Resolve the JOB argument of a command: an id, or the name of one active or paused job."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

if TYPE_CHECKING:
    from oncue.client import Client

MOST_SHOWN = 5  # ids, when a name is ambiguous


def job_argument(function: Any) -> Any:
    return click.argument("job", metavar="JOB")(function)


def job_id_of(client: Client, job: str) -> str:
    """Return the id of the job that is meant. ClientError: no active or paused job has this name, or several have."""
    from oncue.client import ClientError

    try:
        return str(UUID(job))
    except ValueError:
        pass
    found = [
        one.job_id
        for status in ("active", "paused")
        for one in islice(client.jobs.list(name=job, status=status, limit=MOST_SHOWN), MOST_SHOWN)
    ]
    if not found:
        raise ClientError(
            f"No active or paused job matches {job!r}. Use an id or the exact name; see `oncue jobs list`."
        )
    if len(found) > 1:
        ids = ", ".join(found[:MOST_SHOWN])
        raise ClientError(f"Several jobs are named {job!r}. Use the id of one of them: {ids}")
    return found[0]
