"""What code under a run is given: who it is, how to report, and whether it was told to stop."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Generator
from contextvars import ContextVar
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

import msgspec

from oncue.domain.errors import Invalid
from oncue.domain.instants import Instant, moment
from oncue.domain.plain_json import encoded, number

LARGEST_CHECKPOINT = 8 * 1024 * 1024
LONGEST_PROGRESS = 200  # bytes; two numbers have less


class _Progress(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    done: int | float
    total: int | float | None = None


def checked_progress(stored: bytes) -> bytes:
    """What says that it is progress, as it is kept. Invalid: it is not; whoever wrote it need not have asked `ctx`."""
    try:
        if len(stored) > LONGEST_PROGRESS:
            raise ValueError
        said = msgspec.json.decode(stored, type=_Progress)
    except ValueError:
        raise Invalid.of("progress", "bad_progress", "is not two numbers, done and total") from None
    return _so_far(said.done, said.total)


def checked_checkpoint(stored: bytes) -> bytes:
    """What says that it is a checkpoint and JSON. Invalid: it is too large."""
    if len(stored) > LARGEST_CHECKPOINT:
        message = (
            f"has {len(stored)} bytes and at most {LARGEST_CHECKPOINT} are kept: store it elsewhere and keep where"
        )
        raise Invalid.of("checkpoint", "too_large", message)
    return stored


def _so_far(done: Any, total: Any) -> bytes:
    whole = None if total is None else number(total, "progress.total")
    return msgspec.json.encode({"done": number(done, "progress.done"), "total": whole})


class RunInfo(msgspec.Struct, frozen=True, gc=False):
    """What a task may know of its run. Travels as JSON to processes of their own."""

    run_id: UUID
    job_id: UUID
    task: str
    attempt: int
    scheduled_for: Instant
    checkpoint: bytes | None = None


class Reports(Protocol):
    """Where a run's words go. Called from the loop, from threads, or in another process."""

    @property
    def cancelled(self) -> bool:
        """It was told to stop."""
        ...

    def write(self, text: str) -> None:
        """A piece of the run's log, whole lines or not. Never waits; what exceeds the cap is dropped."""
        ...

    def progress(self, stored: bytes) -> None:
        """The newest progress; older ones that were not written yet are forgotten. Never waits."""
        ...

    def save(self, stored: bytes) -> Awaitable[None]:
        """Keep a checkpoint. From a thread or process it is kept when this returns; from the loop, when awaited."""
        ...


class Done:
    """Something to await that is over already."""

    def __await__(self) -> Generator[Any, None, None]:
        yield from ()


# Whose code is this? Set around user code, also in its threads, so that print and logging find the run's log.
current: ContextVar[Reports | None] = ContextVar("oncue_run", default=None)

_LOGGER = logging.getLogger("oncue.task")


class Context:
    """`ctx`, the first argument of every task."""

    __slots__ = ("_info", "_reports")

    def __init__(self, info: RunInfo, reports: Reports) -> None:
        self._info = info
        self._reports = reports

    @property
    def run_id(self) -> UUID:
        return self._info.run_id

    @property
    def job_id(self) -> UUID:
        return self._info.job_id

    @property
    def attempt(self) -> int:
        """1, 2, …"""
        return self._info.attempt

    @property
    def scheduled_for(self) -> datetime:
        """The nominal instant, in UTC: the same at every attempt, however late."""
        return moment(self._info.scheduled_for)

    @property
    def idempotency_key(self) -> str:
        """The same at every attempt of this run: hand it to whatever should do a thing only once."""
        return str(self._info.run_id)

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose lines land in the run's log."""
        return logging.LoggerAdapter(_LOGGER, {"oncue_run": self._reports})

    @property
    def cancelled(self) -> bool:
        """Somebody asked this run to stop, or its time is over: what it returns is not wanted any more."""
        return self._reports.cancelled

    def progress(self, done: float, total: float | None = None) -> None:
        """Say how far it is: `ctx.progress(3, 10)`. Call it as often as you like; it is written once a second.

        Invalid: not finite numbers.
        """
        self._reports.progress(_so_far(done, total))

    def checkpoint(self) -> Any:
        """What an earlier attempt of this run saved last, or None."""
        stored = self._info.checkpoint
        return None if stored is None else msgspec.json.decode(stored)

    def save_checkpoint(self, value: Any) -> Awaitable[None]:
        """Keep a value (JSON) for later attempts of this run. In async tasks: `await ctx.save_checkpoint(value)`.

        Invalid: it is not JSON, or too large.
        """
        return self._reports.save(encoded(value, "checkpoint", LARGEST_CHECKPOINT))
