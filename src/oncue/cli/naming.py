"""Jobs as people name them on the command line: by id, or by a name that only one of them has."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

if TYPE_CHECKING:
    from oncue.client import Client

MOST_TOLD = 5


def job_argument(function: Any) -> Any:
    return click.argument("job", metavar="JOB")(function)


def job_id_of(client: Client, job: str) -> str:
    """An id as it is; a name as the id of the job that has it and has not ended. ClientError: none has, or several."""
    from oncue.client import ClientError

    try:
        return str(UUID(job))
    except ValueError:
        pass
    found = [
        one.job_id
        for status in ("active", "paused")
        for one in islice(client.jobs.list(name=job, status=status, limit=MOST_TOLD), MOST_TOLD)
    ]
    if not found:
        raise ClientError(f"no job that has not ended is called {job!r}: look with `oncue jobs list`")
    if len(found) > 1:
        told = ", ".join(found[:MOST_TOLD])
        raise ClientError(f"several jobs are called {job!r}: say which one by its id, {told}")
    return found[0]
