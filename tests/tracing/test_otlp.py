"""From a client's traceparent to a called server, through real processes, received as OTLP over HTTP."""

from __future__ import annotations

import http.client
import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from tests.domain.test_trace import PARENT, SPAN_ID, TRACE_ID
from tests.processes.fleet import Fleet, Json, until

SECRET = "geheim-4711"


class Receiver(ThreadingHTTPServer):
    """A collector for `/v1/traces`, and a server to call for every other path."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.raw = b""
        self.spans: list[tuple[str, Span]] = []  # each with the role of the process it comes from
        self.called: dict[str, str | None] = {}  # by path, the traceparent that came with it

    def named(self, name: str) -> list[Span]:
        return [span for _, span in self.spans if span.name == name]


class Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"] or 0))
        if self.path == "/v1/traces":
            assert self.headers["x-key"] == "collector"
            self.server.raw += body
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                told = {one.key: one.value.string_value for one in resource.resource.attributes}
                assert told["service.name"] == "shop"
                for scope in resource.scope_spans:
                    self.server.spans += [(told["oncue.role"], span) for span in scope.spans]
        else:
            self.server.called[self.path] = self.headers["traceparent"]
        self.send_response(503 if self.path.startswith("/bad") else 200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None: ...


@contextmanager
def receiving() -> Iterator[Receiver]:
    with Receiver() as receiver:
        thread = threading.Thread(target=receiver.serve_forever)
        thread.start()
        try:
            yield receiver
        finally:
            receiver.shutdown()
            thread.join()


@contextmanager
def fleet_in(folder: Path) -> Iterator[Fleet]:
    fleet = Fleet(folder)
    try:
        yield fleet
    finally:
        fleet.close()


def create(fleet: Fleet, job: Json) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", fleet.port, timeout=30)
    headers = {"Authorization": f"Bearer {fleet.key}", "Content-Type": "application/json", "traceparent": PARENT}
    connection.request("POST", "/v1/jobs", json.dumps(job), headers)
    answer = connection.getresponse()
    told = json.loads(answer.read())
    connection.close()
    assert answer.status == 201, told
    job_id: str = told["job_id"]
    return job_id


@pytest.mark.kills
def test_one_trace_from_the_clients_call_to_the_server_that_is_called(tmp_path: Path) -> None:
    """Spans wait a minute before they are sent, so what arrives was flushed when the processes ended."""
    with receiving() as receiver, fleet_in(tmp_path) as fleet:
        environment = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
            "OTEL_EXPORTER_OTLP_HEADERS": "x-key=collector",
            "OTEL_BSP_SCHEDULE_DELAY": "60000",
            "OTEL_SERVICE_NAME": "shop",
        }
        member = fleet.start("up", "--http-allow", "127.0.0.1/32", "--trace-ratio", "1", env=environment)
        fleet.ready(workers=1)
        called = {
            "url": f"{receiver.url}/good?key={SECRET}",
            "method": "POST",
            "body": SECRET,
            "headers": {"x": SECRET},
        }
        good = create(fleet, {"task": "http", "payload": called, "name": SECRET})
        bad = {"url": f"{receiver.url}/bad/{'x' * 8}?key={SECRET}", "method": "POST"}
        failing = create(fleet, {"task": "http", "payload": bad, "max_retries": 0})
        ticking = create(fleet, {"task": "mark", "schedule": "every 1s"})
        fleet.at_rest([good, failing])
        until(lambda: any(run["status"] == "succeeded" for run in fleet.runs_of(ticking)), "it ticks", fleet.tell)
        member.send(signal.SIGTERM)
        assert member.ended() == 0, member.said

    calls = {attribute(span, "oncue.job.id"): span for span in receiver.named("POST /v1/jobs")}
    attempts = {attribute(span, "messaging.message.id"): span for span in receiver.named("run http")}
    requests = {span.parent_span_id: span for span in receiver.named("POST")}
    assert {role for role, _ in receiver.spans} == {"up", "worker"}
    for job in (good, failing):
        call, attempt = calls[job], attempts[job]
        request = requests[attempt.span_id]
        assert {span.trace_id.hex() for span in (call, attempt, request)} == {TRACE_ID}
        assert call.parent_span_id.hex() == SPAN_ID
        assert attempt.parent_span_id == call.span_id
        path = "/good?" if job == good else "/bad/"
        [passed] = [parent for called, parent in receiver.called.items() if called.startswith(path)]
        assert passed is not None
        assert passed.split("-")[1:3] == [TRACE_ID, request.span_id.hex()]
    status = attempts[failing].status
    assert (status.code, status.message) == (Status.STATUS_CODE_ERROR, "HttpStatus")

    ticks = receiver.named("run mark")
    assert ticks
    for tick in ticks:
        assert tick.trace_id.hex() == attribute(tick, "messaging.message.id").replace("-", "")
        assert (tick.parent_span_id, [link.span_id for link in tick.links]) == (b"", [calls[ticking].span_id])
    assert receiver.named("plan")
    assert SECRET.encode() not in receiver.raw


def attribute(span: Span, name: str) -> str:
    [value] = [one.value.string_value for one in span.attributes if one.key == name]
    return value
