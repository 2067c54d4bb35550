"""Spans by the SDK of OpenTelemetry. Times come from oncue's clock, so that spans of all machines fit together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from threading import Thread
from typing import ParamSpec, TypeVar

from opentelemetry import context as otel_context
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import Link, Span, SpanKind, StatusCode, Tracer, set_span_in_context
from opentelemetry.util.types import AttributeValue

from oncue import __version__
from oncue.clock import Clock
from oncue.domain.ids import JobId
from oncue.domain.instants import MILLISECOND, Instant, rfc3339
from oncue.domain.job import Spec
from oncue.domain.planning import DueJob, Plan
from oncue.domain.run import Claimed, Trigger
from oncue.domain.trace import LOW_56, Trace, continues, is_sampled, threshold, traceparent
from oncue.log import log
from oncue.metrics.metric import Labels
from oncue.tracing.exporting import otlp_processor
from oncue.tracing.port import Decide, current_attempt
from oncue.tracing.remote import context_of, span_context_of

FLUSH_TIMEOUT = 2.0  # seconds at the end of the process
MOST_LINKS = 32
NANOSECONDS = 1_000  # in an instant's microsecond

P = ParamSpec("P")
R = TypeVar("R")
Lost = Callable[[], Mapping[Labels, int]]


# The id of the next trace, if it is a run's: attempts on different workers meet in one trace.
_next_trace: ContextVar[int | None] = ContextVar("oncue_next_trace", default=None)


class RunIds(RandomIdGenerator):
    def generate_trace_id(self) -> int:
        return _next_trace.get() or super().generate_trace_id()


def unharmed(method: Callable[P, R]) -> Callable[P, R | None]:
    """Turn what the SDK raises into a log line and None."""

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R | None:
        try:
            return method(*args, **kwargs)
        except Exception:
            log.exception("A span could not be recorded", kind="span_failed")
            return None

    return call


class OtelTracing:
    def __init__(
        self, tracer: Tracer, clock: Clock, ratio: float, close: Callable[[], None], lost: Lost = dict
    ) -> None:
        self._tracer = tracer
        self._clock = clock
        self._least = threshold(ratio)
        self._close = close
        self.lost = lost

    @classmethod
    def exporting(cls, clock: Clock, ratio: float, role: str) -> OtelTracing:
        """Export by OTLP over HTTP, as `OTEL_*` says."""
        processor = otlp_processor()
        return cls.on(processor, clock, ratio, role, processor.lost)

    @classmethod
    def on(cls, processor: SpanProcessor, clock: Clock, ratio: float, role: str, lost: Lost = dict) -> OtelTracing:
        ours = {"service.name": "oncue", "service.version": __version__, "oncue.role": role}
        resource = Resource(ours).merge(OTELResourceDetector().detect())  # OTEL_SERVICE_NAME goes first
        provider = TracerProvider(resource=resource, id_generator=RunIds(), shutdown_on_exit=False)
        provider.add_span_processor(processor)
        return cls(provider.get_tracer("oncue", __version__), clock, ratio, provider.shutdown, lost)

    def close(self) -> None:
        closing = Thread(target=self._close, daemon=True)  # it may wait for an unreachable endpoint much longer
        closing.start()
        closing.join(FLUSH_TIMEOUT)

    @unharmed
    def call(self, method: str, route: str, trace: Trace) -> OtelCall | None:
        if not trace.sampled:
            return None
        attributes = {"http.request.method": method, "http.route": route}
        span = self._start(f"{method} {route}", SpanKind.SERVER, attributes, self._clock.now(), parent=trace)
        return OtelCall(span, passed_on(span, trace), self._clock)

    def plan(self, now: Instant) -> OtelPlan:
        return OtelPlan(self._start, self._clock, self._least, now)

    def attempt(self, run: Claimed, spec: Spec) -> OtelAttempt | None:
        if spec.trace is None and run.run_id.int & LOW_56 < self._least:
            return None  # as most runs are, without another call
        try:
            return self._attempt(run, spec) if is_sampled(run, spec.trace, self._least) else None
        except Exception:
            log.exception("A span could not be recorded", kind="span_failed")
            return None

    def _attempt(self, run: Claimed, spec: Spec) -> OtelAttempt:
        name, kind, attributes = f"run {spec.task}", SpanKind.CONSUMER, attributes_of(run, spec)
        if spec.trace is not None and continues(run):
            span = self._start(name, kind, attributes, run.claimed_at, parent=spec.trace)
        else:
            with trace_id(run.run_id.int):
                span = self._start(name, kind, attributes, run.claimed_at, links=links_to([spec.trace]))
        return OtelAttempt(span, passed_on(span, spec.trace), self._clock, self._start)

    def _start(
        self,
        name: str,
        kind: SpanKind,
        attributes: dict[str, AttributeValue] | dict[str, str],
        at: Instant,
        *,
        parent: Trace | Span | None = None,
        links: Sequence[Link] = (),
    ) -> Span:
        within = otel_context.Context()  # whatever else is current
        if isinstance(parent, Trace):
            within = context_of(parent)
        elif parent is not None:
            within = set_span_in_context(parent, within)
        return self._tracer.start_span(name, within, kind, attributes, links, at * NANOSECONDS)


def attributes_of(run: Claimed, spec: Spec) -> dict[str, AttributeValue]:
    """Return what may be told of an attempt: no payload, and nothing that its code said."""
    return {
        "messaging.system": "oncue",
        "messaging.operation.type": "process",
        "messaging.destination.name": spec.queue,
        "messaging.message.id": str(run.run_id),
        "oncue.job.id": str(run.job_id),
        "oncue.attempt": run.attempt,
        "oncue.trigger": run.trigger.name.lower(),
        "oncue.scheduled_for": rfc3339(run.wanted if run.nominal is None else run.nominal),
        "oncue.lag_ms": run.lag // MILLISECOND,
        "oncue.priority": spec.priority.name.lower(),
    }


def passed_on(span: Span, carried: Trace | None) -> Trace:
    """Return the context of a span, as the next ones read it."""
    found = span.get_span_context()
    baggage = "" if carried is None else carried.baggage
    return Trace(traceparent(found.trace_id, found.span_id, found.trace_flags), found.trace_state.to_header(), baggage)


def links_to(creations: Sequence[Trace | None]) -> list[Link]:
    return [Link(span_context_of(trace)) for trace in creations if trace is not None]


@contextmanager
def trace_id(of: int) -> Iterator[None]:
    before = _next_trace.set(of)
    try:
        yield
    finally:
        _next_trace.reset(before)


def failed(span: Span, error_type: str) -> None:
    span.set_attribute("error.type", error_type)
    span.set_status(StatusCode.ERROR, error_type)


class OtelCall:
    def __init__(self, span: Span, trace: Trace, clock: Clock) -> None:
        self.trace = trace
        self._span = span
        self._clock = clock

    @unharmed
    def end(self, status: int, job_id: JobId | None) -> None:
        self._span.set_attribute("http.response.status_code", status)
        if job_id is not None:
            self._span.set_attribute("oncue.job.id", str(job_id))
        if status >= 500:
            failed(self._span, str(status))
        self._span.end(self._clock.now() * NANOSECONDS)


class OtelPlan:
    def __init__(self, start: Callable[..., Span], clock: Clock, least: int, now: Instant) -> None:
        self._start = start
        self._clock = clock
        self._least = least
        self._now = now
        self._late: dict[JobId, int] = {}  # by job: a store may decide twice about one
        self._sampled: dict[JobId, Trace | None] = {}

    def watched(self, decide: Decide) -> Decide:
        def deciding(job: DueJob) -> Plan | None:
            plan = decide(job)
            if plan is not None:
                self._note(plan)
            return plan

        return deciding

    def _note(self, plan: Plan) -> None:
        self._late[plan.job.job_id] = sum(run.trigger is Trigger.CATCH_UP for run in plan.runs)
        if any(run.run_id.int & LOW_56 >= self._least for run in plan.runs):
            self._sampled[plan.job.job_id] = plan.job.spec.trace

    def end(self, jobs: int, runs: int) -> None:
        if self._sampled:
            self._record(jobs, runs)

    @unharmed
    def _record(self, jobs: int, runs: int) -> None:
        late = sum(self._late.values())
        attributes = {"oncue.jobs": jobs, "oncue.runs": runs, "oncue.planned_late": late}
        links = links_to(list(self._sampled.values()))[:MOST_LINKS]
        span = self._start("plan", SpanKind.INTERNAL, attributes, self._now, links=links)
        span.end(self._clock.now() * NANOSECONDS)


class OtelRequest:
    def __init__(self, span: Span, trace: Trace, clock: Clock) -> None:
        self.trace = trace
        self._span = span
        self._clock = clock

    @unharmed
    def end(self, status: int | None, error_type: str | None) -> None:
        if status is not None:
            self._span.set_attribute("http.response.status_code", status)
        if error_type is None and status is not None and status >= 400:
            error_type = str(status)
        if error_type is not None:
            failed(self._span, error_type)
        self._span.end(self._clock.now() * NANOSECONDS)


class OtelAttempt:
    def __init__(self, span: Span, trace: Trace, clock: Clock, start: Callable[..., Span]) -> None:
        self.trace = trace
        self._span = span
        self._clock = clock
        self._start = start

    @unharmed
    def enter(self) -> None:
        current_attempt.set(self)
        otel_context.attach(set_span_in_context(self._span))  # never detached: the context ends with its asyncio task

    @unharmed
    def request(self, method: str, url: str, host: str, port: int) -> OtelRequest:
        attributes = {"http.request.method": method, "url.full": url, "server.address": host, "server.port": port}
        span = self._start(method, SpanKind.CLIENT, attributes, self._clock.now(), parent=self._span)
        return OtelRequest(span, passed_on(span, self.trace), self._clock)

    @unharmed
    def end(self, ended_at: Instant, error_type: str | None) -> None:
        if error_type is not None:
            failed(self._span, error_type)
        self._span.end(ended_at * NANOSECONDS)
