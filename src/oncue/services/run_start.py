"""What an attempt begins with: what its code is told of the run, its span, and the outcome if it cannot begin."""

from __future__ import annotations

from oncue.context import RunInfo
from oncue.domain import attempt
from oncue.domain.attempt import Failure
from oncue.domain.ids import WorkerId
from oncue.domain.instants import Instant
from oncue.domain.job import Spec
from oncue.domain.plain_text import kind_of, message_of
from oncue.domain.run import Claimed, Settlement
from oncue.domain.trace import Trace, passed_on_unsampled
from oncue.tracing.port import AttemptSpan, Tracing


def traced(tracing: Tracing, run: Claimed, spec: Spec) -> tuple[AttemptSpan | None, Trace | None]:
    """Return the span of an attempt, if it is sampled, and the trace context that it passes on."""
    span = tracing.attempt(run, spec)
    if span is not None:
        return span, span.trace
    return None, None if spec.trace is None else passed_on_unsampled(run, spec.trace)


def info_of(run: Claimed, spec: Spec, trace: Trace | None) -> RunInfo:
    nominal = run.wanted if run.nominal is None else run.nominal
    return RunInfo(run.run_id, run.job_id, spec.task, run.attempt, nominal, run.checkpoint, trace, spec.name)


def unstartable(run: Claimed, worker_id: WorkerId, now: Instant, error: Exception) -> Settlement:
    why = f"the run could not start: {message_of(error, attempt.LONGEST_ERROR)}"
    start = run.claimed_at
    try:
        unread, failure = Spec("?"), Failure(error_type=kind_of(error), error=why, retry=False)
        return attempt.failed(run, unread, worker_id, start, now, failure, luck=0.0)
    except Exception:  # not even its stored data can be read
        return attempt.given_up(run, start, now, why)
