"""Definitions that cannot be read, of a newer oncue or damaged: such a row is left out, and its neighbours are not."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar
from uuid import UUID

import structlog

from oncue.domain.instants import MINUTE, SECOND, Duration, Instant
from oncue.domain.job import decode_spec

PATIENCE = Duration(5 * SECOND)  # for a newer scheduler, if there is one, to plan what this one cannot read

Row = TypeVar("Row")
Value = TypeVar("Value")

log = structlog.get_logger()


def readable(rows: Iterable[Row], read: Callable[[Row], Value]) -> tuple[list[Value], list[Row]]:
    """What could be read, and the rows that could not."""
    values: list[Value] = []
    bad: list[Row] = []
    for row in rows:
        try:
            values.append(read(row))
        except ValueError:
            bad.append(row)
    return values, bad


def put_off(job_id: UUID, next_at: Instant, now: Instant) -> Instant | None:
    """When to try to plan such a job again. Its floor stays where it is: nothing is passed over. None: leave it alone.

    Whoever can read it plans it on time, so it is put off only when it is clear that nobody does.
    """
    if next_at > now - PATIENCE:
        return None
    log.error("the definition of this job cannot be read; planning it is put off by a minute", job_id=str(job_id))
    return Instant(now + MINUTE)


def name_of(spec: bytes | None) -> str | None:
    """The name in an encoded definition, which is decoded only if there may be one."""
    if spec is None or b'"name":' not in spec:
        return None
    try:
        return decode_spec(spec).name
    except ValueError:  # a run whose definition cannot be read must be able to end all the same
        return None
