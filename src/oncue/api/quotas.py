"""Who has no room for what a request would store, and what they are told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from oncue.domain.errors import TooManyClasses
from oncue.domain.quota import exceeded
from oncue.engines.port import Created, Creation, NewJob, Usage


def refuse_over_quota(new: Sequence[NewJob], created: Sequence[Creation]) -> None:
    """QuotaExceeded: there was no room for all of these. Of several, which are stored all or none, none was."""
    refused = next((index for index, one in enumerate(created) if one.outcome is Created.OVER_QUOTA), None)
    if refused is None:
        return
    job, used = new[refused], created[refused].used
    assert job.quota is not None
    assert used is not None
    fitting = [index for index, one in enumerate(created) if one.outcome is Created.NEW]
    before = [_size(new[index]) for index in fitting if index < refused]
    had = Usage(used.jobs - len(before), used.payload - sum(size.payload for size in before))
    told = "" if len(new) == 1 else f"; {len(fitting)} of these {len(new)} would fit"
    error = exceeded(job.quota, used, _size(job), had, told)
    if len(new) > 1 and error.path:
        error.path = f"jobs.{refused}.{error.path}"
    raise error


@contextmanager
def naming_jobs(new: Sequence[NewJob]) -> Iterator[None]:
    """Of several, the error says which one was refused a class."""
    try:
        yield
    except TooManyClasses as error:
        refused = next(index for index, one in enumerate(new) if one.job.spec.class_key == error.key)
        error.path = f"jobs.{refused}.{error.path}"
        raise


def _size(job: NewJob) -> Usage:
    return Usage(1, len(job.job.payload or b""))
