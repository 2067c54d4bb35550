"""The context of a run that its task gets: ids, reporting, checkpoints, and whether to stop."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Generator
from contextvars import ContextVar
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Protocol
from uuid import UUID

import msgspec

from oncue.domain.errors import Invalid
from oncue.domain.instants import Instant, moment
from oncue.domain.plain_json import encoded, number
from oncue.domain.trace import Trace

if TYPE_CHECKING:  # at run time nothing asks for the default, and the package may be missing
    from typing_extensions import TypeVar

    S_co = TypeVar("S_co", covariant=True, default=object)
else:
    from typing import TypeVar

    S_co = TypeVar("S_co", covariant=True)

LARGEST_CHECKPOINT = 8 * 1024 * 1024
LONGEST_PROGRESS = 200  # bytes; two numbers are shorter


class _Progress(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    done: int | float
    total: int | float | None = None


def checked_progress(stored: bytes) -> bytes:
    """Check progress for storage. Invalid: it is not progress; user code may have written it without `ctx`."""
    try:
        if len(stored) > LONGEST_PROGRESS:
            raise ValueError
        said = msgspec.json.decode(stored, type=_Progress)
    except ValueError:
        raise Invalid.of("progress", "bad_progress", "must be two numbers, done and total") from None
    return _so_far(said.done, said.total)


def checked_checkpoint(stored: bytes) -> bytes:
    """Check the size of a checkpoint. Invalid: it is too large."""
    if len(stored) > LARGEST_CHECKPOINT:
        message = f"has {len(stored)} bytes; at most {LARGEST_CHECKPOINT} are allowed; store a reference instead"
        raise Invalid.of("checkpoint", "too_large", message)
    return stored


def _so_far(done: Any, total: Any) -> bytes:
    whole = None if total is None else number(total, "progress.total")
    return msgspec.json.encode({"done": number(done, "progress.done"), "total": whole})


class RunInfo(msgspec.Struct, frozen=True, gc=False):
    """What a task may know of its run. Sent as JSON to process-isolated runs."""

    run_id: UUID
    job_id: UUID
    task: str
    attempt: int
    scheduled_for: Instant
    checkpoint: bytes | None = None
    trace: Trace | None = None
    job_name: str | None = None


class Submission(msgspec.Struct, frozen=True):
    """Jobs that a run's code wants: their fields as the API takes them. Sent as JSON."""

    jobs: list[Any]
    idempotency_key: str | None = None


class Reports(Protocol):
    """Receives a run's log, progress and checkpoints. Called from the loop, from threads, or in another process."""

    @property
    def cancelled(self) -> bool:
        """Whether the run has to stop."""
        ...

    def write(self, text: str) -> None:
        """Append to the run's log, whole lines or not. Never waits; text beyond the cap is dropped."""
        ...

    def progress(self, stored: bytes) -> None:
        """Report progress; an older value that is not written yet is replaced. Never waits."""
        ...

    def save(self, stored: bytes) -> Awaitable[None]:
        """Store a checkpoint. In a thread or process it is stored on return; in the loop, when awaited."""
        ...

    def submit(self, asked: bytes) -> Awaitable[tuple[UUID, ...]]:
        """Create the jobs of a Submission for the owner of the run, and return their ids.

        In a thread or process they are created on return, which is then a `Created`; in the loop, when awaited.
        """
        ...


class Done:
    """An awaitable that is already done."""

    def __await__(self) -> Generator[Any, None, None]:
        yield from ()


class Created(msgspec.Struct, frozen=True):
    """The ids of jobs that were created, also for those who await them."""

    ids: tuple[UUID, ...]

    def __await__(self) -> Generator[Any, None, tuple[UUID, ...]]:
        yield from ()
        return self.ids


# The run whose code executes. Set around user code, also in its threads, so that print and logging find its log.
current: ContextVar[Reports | None] = ContextVar("oncue_run", default=None)

_LOGGER = logging.getLogger("oncue.task")


class Context(Generic[S_co]):
    """`ctx`, the first argument of a task that takes it. `Context[State]` says what `ctx.state` is.

    @tasks.task
    def send(ctx: Context, to: str) -> None:
        ctx.log.info("attempt %d for %s", ctx.attempt, to)
        post_mail(to, message_id=ctx.idempotency_key)
    """

    __slots__ = ("_info", "_reports", "_state")

    def __init__(self, info: RunInfo, reports: Reports, state: Any = None) -> None:
        self._info = info
        self._reports = reports
        self._state = state

    @property
    def run_id(self) -> UUID:
        """The id of the run: the same for every attempt."""
        return self._info.run_id

    @property
    def job_id(self) -> UUID:
        """The id of the job that this is a run of."""
        return self._info.job_id

    @property
    def task(self) -> str:
        """The name of the task."""
        return self._info.task

    @property
    def job_name(self) -> str | None:
        """The name of the job, if it has one."""
        return self._info.job_name

    @property
    def state(self) -> S_co:
        """What the lifespan of the task's set has yielded in this process; without a lifespan, None."""
        return self._state  # type: ignore[no-any-return]  # of the type that the task asks for

    @property
    def attempt(self) -> int:
        """The number of this attempt: 1, 2, …; one more after every failure, loss or preemption."""
        return self._info.attempt

    @property
    def scheduled_for(self) -> datetime:
        """The nominal instant, in UTC: the same for every attempt, however late."""
        return moment(self._info.scheduled_for)

    @property
    def idempotency_key(self) -> str:
        """A key that is the same for every attempt of this run: pass it to services that deduplicate requests."""
        return str(self._info.run_id)

    @property
    def traceparent(self) -> str | None:
        """The W3C trace context to pass on: of this attempt's span, or of the request that defined the job."""
        return None if self._info.trace is None else self._info.trace.parent

    @property
    def trace_headers(self) -> dict[str, str]:
        """`traceparent`, `tracestate` and `baggage` to send along with a request; those that there are."""
        return {} if self._info.trace is None else self._info.trace.headers()

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger that writes to the run's log."""
        return logging.LoggerAdapter(_LOGGER, {"oncue_run": self._reports})

    @property
    def cancelled(self) -> bool:
        """Whether this run has to stop, as when it was cancelled or timed out. Its return value is then ignored."""
        return self._reports.cancelled

    def progress(self, done: float, total: float | None = None) -> None:
        """Report progress: `ctx.progress(3, 10)`. Call it as often as you like; it is written once a second.

        Invalid: not finite numbers.
        """
        self._reports.progress(_so_far(done, total))

    def checkpoint(self) -> Any:
        """Return the last value that an earlier attempt of this run saved, or None."""
        stored = self._info.checkpoint
        return None if stored is None else msgspec.json.decode(stored)

    def save_checkpoint(self, value: Any) -> Awaitable[None]:
        """Save a JSON value for later attempts of this run. In async tasks: `await ctx.save_checkpoint(value)`.

        Invalid: it is not JSON, or too large.
        """
        return self._reports.save(encoded(value, "checkpoint", LARGEST_CHECKPOINT))
