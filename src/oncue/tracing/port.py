"""What the other packages know of tracing. Without an exporter there is no `Tracing`, and nothing of it is called.

A run is sampled or not before it meets the SDK: a span costs about as much as executing a small run. No method raises,
and none waits: a run must not suffer because it is watched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Protocol

from oncue.domain.ids import JobId
from oncue.domain.instants import Instant
from oncue.domain.job import Spec
from oncue.domain.planning import DueJob, Plan
from oncue.domain.run import Claimed
from oncue.domain.trace import Trace
from oncue.metrics.metric import Labels

Decide = Callable[[DueJob], Plan | None]


class CallSpan(Protocol):
    """A call of the API that makes or changes something."""

    @property
    def trace(self) -> Trace:
        """What the job that it defines carries."""
        ...

    def end(self, status: int, job_id: JobId | None) -> None: ...


class PlanSpan(Protocol):
    """A pass of a scheduler. There is a span only if it planned a run that is sampled."""

    def watched(self, decide: Decide) -> Decide: ...

    def end(self, jobs: int, runs: int) -> None: ...


class RequestSpan(Protocol):
    """An outgoing request of an attempt."""

    @property
    def trace(self) -> Trace: ...

    def end(self, status: int | None, error_type: str | None) -> None: ...


class AttemptSpan(Protocol):
    @property
    def trace(self) -> Trace:
        """What the attempt passes on."""
        ...

    def enter(self) -> None:
        """Make it current in this asyncio task and the threads that it starts."""
        ...

    def request(self, method: str, url: str, host: str, port: int) -> RequestSpan | None:
        """Begin a request; `url` is without user and query."""
        ...

    def end(self, ended_at: Instant, error_type: str | None) -> None:
        """End it. Only the type of an error is told, never its message."""
        ...


class Tracing(Protocol):
    """The spans of one process."""

    def call(self, method: str, route: str, trace: Trace) -> CallSpan | None:
        """Begin a call with this trace context. None: not sampled."""
        ...

    def plan(self, now: Instant) -> PlanSpan: ...

    def attempt(self, run: Claimed, spec: Spec) -> AttemptSpan | None:
        """Begin an attempt. None: its run is not sampled."""
        ...

    def lost(self) -> Mapping[Labels, int]:
        """Return how many spans were not exported, by the reason."""
        ...

    def close(self) -> None:
        """Send what is left, for 2 s at most. Blocks."""
        ...


# The sampled attempt whose code executes, for the spans of built-in tasks.
current_attempt: ContextVar[AttemptSpan | None] = ContextVar("oncue_attempt_span", default=None)
