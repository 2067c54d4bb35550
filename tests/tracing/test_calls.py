"""Spans of calls to the API, and what a job carries of the request that defined it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest
from opentelemetry.trace import SpanKind, StatusCode
from tests.api.conftest import Desk, desk_on
from tests.domain.test_trace import NOT_SAMPLED, PARENT, SPAN_ID, TRACE_ID
from tests.tracing.conftest import Spans
from tests.tracing.test_attempts import parent_of

from oncue.api.application import Application
from oncue.domain.ids import JobId
from oncue.domain.trace import Trace
from oncue.settings import Settings
from oncue.testing.conformance import EmptyStore
from oncue_conformance.store import only

HEADERS = {"traceparent": PARENT, "tracestate": "vendor=1", "baggage": "tenant=7,secret=geheim"}


class TracedDesk:
    def __init__(self, desk: Desk, spans: Spans) -> None:
        self.desk = desk
        self.spans = spans

    async def call(self, method: str, path: str, body: Any = None, headers: Any = HEADERS, **how: Any) -> Any:
        answer = await self.desk.call(method, f"/v1{path}", body, headers=headers, **how)
        return answer.json() if answer.content else None

    async def carried(self, job_id: str) -> Trace | None:
        return (await self.desk.store.snapshot(JobId(UUID(job_id)))).job.spec.trace


@pytest.fixture(params=[True, False], ids=["recorded", "not recorded"])
async def traced(empty_store: EmptyStore, request: pytest.FixtureRequest) -> AsyncIterator[TracedDesk]:
    async with desk_on(empty_store) as desk:
        spans = Spans(desk.store.clock, 0.0)
        tracing = spans.tracing if request.param else None
        desk.app = Application(
            desk.store.engine, desk.store.clock, Settings(trace_baggage=("tenant",)), tracing=tracing
        )
        desk.client._transport.app = desk.app  # type: ignore[attr-defined]
        yield TracedDesk(desk, spans)


async def test_a_job_carries_the_trace_of_the_request_that_defined_it(traced: TracedDesk) -> None:
    """Without an exporter as it was sent; else with the call's span for the parent."""
    job = (await traced.call("POST", "/jobs", {"task": "mark", "schedule": "every 1h"}))["job_id"]

    carried = await traced.carried(job)
    assert carried is not None
    assert (carried.state, carried.baggage) == ("vendor=1", "tenant=7")
    if not traced.spans.ended:
        assert carried.parent == PARENT
        return
    span = only(traced.spans.ended)
    assert span.context is not None
    assert carried.parent == f"00-{TRACE_ID}-{span.context.span_id:016x}-01"
    assert (span.name, span.kind, parent_of(span)) == ("POST /v1/jobs", SpanKind.SERVER, (TRACE_ID, SPAN_ID))
    assert span.attributes == {
        "http.request.method": "POST",
        "http.route": "/v1/jobs",
        "http.response.status_code": 201,
        "oncue.job.id": job,
    }


async def test_every_way_to_define_a_job(traced: TracedDesk) -> None:
    """Catches a way that forgets it, and a change without a trace that takes away the one there is."""
    many = (await traced.call("POST", "/jobs/batch", {"jobs": [{"task": "mark"}] * 2}))["job_ids"]
    for job in many:
        assert (carried := await traced.carried(job)) is not None
        assert carried.trace_id == int(TRACE_ID, 16)
    put = {"task": "mark", "schedule": "every 1h"}
    job = (await traced.call("PUT", "/jobs/by-key/k", put))["job_id"]
    first = await traced.carried(job)
    assert first is not None
    other = {"traceparent": PARENT.replace(TRACE_ID, "a" * 32)}

    assert (await traced.call("PUT", "/jobs/by-key/k", put, other))["version"] == 1  # the same job
    assert await traced.carried(job) == first
    assert (await traced.call("PATCH", f"/jobs/{job}", {"timeout": "5s"}, {}))["version"] == 2
    assert await traced.carried(job) == first
    assert (await traced.call("PATCH", f"/jobs/{job}", {"timeout": "6s"}, other))["version"] == 3
    assert (changed := await traced.carried(job)) is not None
    assert changed.trace_id == int("a" * 32, 16)
    told = await traced.call("GET", f"/jobs/{job}")
    assert "trace" not in told


@pytest.mark.parametrize(
    "sent", [{}, {"traceparent": PARENT.upper()}, {"traceparent": "x" * 60_000}, {"tracestate": "a=1"}]
)
async def test_what_is_no_trace_context_is_ignored(traced: TracedDesk, sent: dict[str, str]) -> None:
    job = await traced.call("POST", "/jobs", {"task": "mark"}, sent)

    assert await traced.carried(job["job_id"]) is None
    assert traced.spans.ended == ()


async def test_an_unsampled_one_is_carried_and_not_recorded(traced: TracedDesk) -> None:
    job = await traced.call("POST", "/jobs", {"task": "mark"}, {"traceparent": NOT_SAMPLED})

    assert await traced.carried(job["job_id"]) == Trace(NOT_SAMPLED)
    assert traced.spans.ended == ()


@pytest.mark.parametrize("traced", [True], indirect=True)
async def test_what_is_recorded_and_what_is_not(traced: TracedDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes of whoever has a key, with their status. Strangers and readers make no spans."""
    job = (await traced.call("POST", "/jobs", {"task": "mark", "schedule": "every 1h"}))["job_id"]
    await traced.call("POST", f"/jobs/{job}/pause")
    await traced.call("POST", "/jobs", {"task": "no such"})
    await traced.call("GET", f"/jobs/{job}")
    await traced.call("POST", "/jobs", {"task": "mark"}, key="a stranger")

    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError("geheim")

    monkeypatch.setattr(traced.desk.app.api.commits, "store", broken)
    await traced.call("POST", "/jobs", {"task": "mark", "payload": {"a": "geheim"}, "name": "geheim"})

    seen = [
        (s.name, (s.attributes or {})["http.response.status_code"], s.status.status_code) for s in traced.spans.ended
    ]
    assert seen == [
        ("POST /v1/jobs", 201, StatusCode.UNSET),
        ("POST /v1/jobs/{id}/pause", 200, StatusCode.UNSET),
        ("POST /v1/jobs", 422, StatusCode.UNSET),
        ("POST /v1/jobs", 500, StatusCode.ERROR),
    ]
    assert (traced.spans.ended[1].attributes or {})["oncue.job.id"] == job
    assert "geheim" not in traced.spans.everything()
