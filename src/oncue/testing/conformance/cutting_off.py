"""A caller that changes a job with many runs is interrupted half-way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from oncue.domain.errors import StoreUnavailable
from oncue.domain.ids import JobId
from oncue.domain.instants import Instant
from oncue.engines.port import Cancelled, Engine


class CutOff(StoreUnavailable):
    """The database is unavailable, or the process that changed the job is gone."""


@contextmanager
def cut_off(engine: Engine) -> Iterator[None]:
    """In this block a call that changes a job gets no further than its first bite."""

    async def gone(job_id: JobId, now: Instant) -> Cancelled:
        raise CutOff

    finish = engine.jobs.finish
    engine.jobs.finish = gone  # type: ignore[method-assign]  # of this one engine
    try:
        yield
    finally:
        engine.jobs.finish = finish  # type: ignore[method-assign]  # restored
