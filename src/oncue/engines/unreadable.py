"""Definitions that cannot be decoded, from a newer oncue or damaged: only such a row is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar
from uuid import UUID

import msgspec

from oncue.domain.instants import MINUTE, SECOND, Duration, Instant
from oncue.domain.job import decode_spec
from oncue.log import log

NEWER_SCHEDULER_WAIT = Duration(5 * SECOND)  # for a newer scheduler, if any, to plan what this one cannot decode

Row = TypeVar("Row")
Value = TypeVar("Value")


def readable(rows: Iterable[Row], read: Callable[[Row], Value]) -> tuple[list[Value], list[Row]]:
    """Return the decoded values, and the rows that could not be decoded."""
    values: list[Value] = []
    bad: list[Row] = []
    for row in rows:
        try:
            values.append(read(row))
        except ValueError:
            bad.append(row)
    return values, bad


def put_off(job_id: UUID, next_at: Instant, now: Instant) -> Instant | None:
    """Return when to try again to plan such a job; its floor stays, so no occurrence is lost. None: leave it alone.

    A scheduler that can decode it plans it on time, so it is put off only when it is clear that there is none.
    """
    if next_at > now - NEWER_SCHEDULER_WAIT:
        return None
    log.error(
        "The definition of a job cannot be read; planning is retried in a minute",
        kind="job_put_off",
        job_id=str(job_id),
    )
    return Instant(now + MINUTE)


class _Keyed(msgspec.Struct):
    key: str | None = None


_read_key = msgspec.json.Decoder(_Keyed)


def key_of(spec: bytes | None) -> str | None:
    """Return the stable key in an encoded definition, decoding it only if there may be one."""
    if spec is None or b'"key":' not in spec:
        return None
    try:
        return _read_key.decode(spec).key
    except msgspec.MsgspecError:
        return None


def name_of(spec: bytes | None) -> str | None:
    """Return the name in an encoded definition, decoding it only if there may be one."""
    if spec is None or b'"name":' not in spec:
        return None
    try:
        return decode_spec(spec).name
    except ValueError:  # a run must be able to end although its definition cannot be decoded
        return None
