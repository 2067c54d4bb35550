"""A trace context of another process, as OpenTelemetry's API has it."""

from __future__ import annotations

from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState, set_span_in_context

from oncue.domain.trace import Trace


def span_context_of(trace: Trace) -> SpanContext:
    state = TraceState.from_header([trace.state]) if trace.state else None
    return SpanContext(trace.trace_id, trace.span_id, True, TraceFlags(trace.flags), state)


def context_of(trace: Trace) -> Context:
    """Return a context in which it is current, and nothing else."""
    return set_span_in_context(NonRecordingSpan(span_context_of(trace)), Context())
