"""Export in the background: no run waits for it, what does not fit is counted, and without it nothing is loaded."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from tests.domain.test_trace import PARENT

from oncue.clock import SystemClock
from oncue.domain.trace import Trace
from oncue.metrics.exposed import Exposed
from oncue.metrics.metric import Labels
from oncue.process.parts import tracing
from oncue.settings import Settings
from oncue.testing.logs import capture_logs
from oncue.tracing import otel
from oncue.tracing.exporting import MOST_WAITING, BoundedProcessor, WatchedExporter
from oncue.tracing.open import is_wanted, open_tracing


class Slow(SpanExporter):
    """Takes nothing until it may."""

    def __init__(self, result: SpanExportResult = SpanExportResult.SUCCESS) -> None:
        self.may = threading.Event()
        self.spans: list[ReadableSpan] = []
        self.result = result

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        assert self.may.wait(60)
        self.spans += spans
        return self.result

    def shutdown(self) -> None: ...


def export(slow: Slow, spans: int) -> tuple[list[Any], dict[Labels, int]]:
    """What is logged and counted while so many spans end, before any of them is taken."""
    provider, processor = TracerProvider(shutdown_on_exit=False), BoundedProcessor(WatchedExporter(slow))
    provider.add_span_processor(processor)
    tracer = provider.get_tracer("test")
    with capture_logs() as logged:
        for _ in range(spans):
            tracer.start_span("x").end()
        slow.may.set()
        provider.shutdown()
    return logged, processor.lost()


def test_what_does_not_fit_is_dropped_and_counted() -> None:
    """Catches a span that waits for room, and one that is lost without a word."""
    slow = Slow()

    logged, lost = export(slow, MOST_WAITING + 952)

    assert len(slow.spans) == MOST_WAITING
    assert [(line["log_level"], line.get("dropped")) for line in logged] == [("warning", 952)]
    assert lost == {("full",): 952, ("failed",): 0}


def test_that_spans_are_lost_is_told_once() -> None:
    logged, lost = export(Slow(SpanExportResult.FAILURE), MOST_WAITING)

    assert len(logged) == 1
    assert "cannot be exported" in logged[0]["event"]
    assert lost == {("full",): 0, ("failed",): MOST_WAITING}


async def test_lost_spans_are_a_metric(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = WatchedExporter(Slow())
    monkeypatch.setattr(otel, "otlp_processor", lambda: BoundedProcessor(watched))
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    exposed = Exposed(SystemClock())

    async with tracing(Settings(), SystemClock(), "test", exposed.numbers):
        watched.dropped, watched.failed = 3, 2

    told = exposed.text().decode().splitlines()
    assert 'oncue_spans_lost_total{why="full"} 3' in told
    assert 'oncue_spans_lost_total{why="failed"} 2' in told


def test_the_end_waits_no_longer_than_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches an exit that hangs for half a minute because a collector accepts connections and is silent."""
    monkeypatch.setattr(otel, "FLUSH_TIMEOUT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        tracing = open_tracing(Settings(), SystemClock(), "test")
        assert tracing is not None
        call = tracing.call("POST", "/v1/jobs", Trace(PARENT))
        assert call is not None
        call.end(201, None)
        began = time.monotonic()

        tracing.close()

        assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x:4318/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_SDK_DISABLED": "TRUE"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_TRACES_EXPORTER": "none"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_SERVICE_NAME": "shop", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://x"}, False),
    ],
)
def test_an_endpoint_is_what_switches_it_on(environment: dict[str, str], wanted: bool) -> None:
    assert is_wanted(environment) is wanted


@pytest.mark.parametrize(("installed", "endpoint"), [(True, False), (False, True)])
def test_nothing_is_imported_without_an_endpoint_and_nothing_breaks_without_the_extra(
    installed: bool, endpoint: bool
) -> None:
    code = f"""
import os, sys
if not {installed}:
    sys.modules["opentelemetry"] = None
if {endpoint}:
    os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://127.0.0.1:1"
import oncue.app, oncue.api.application, oncue.services.worker_process, oncue.executors.registry
from oncue.domain.trace import Trace
from oncue.settings import Settings
from oncue.tracing.current import make_current
from oncue.tracing.open import open_tracing
assert open_tracing(Settings(), None, "x") is None
make_current(Trace("{PARENT}"))
assert [name for name in sys.modules if name.startswith("opentelemetry.")] == []
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)

    assert done.returncode == 0, done.stderr
    assert ("pip install 'oncue[otel]'" in done.stderr) is endpoint


def test_a_setting_that_nobody_can_use_is_told_and_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "100000")

    with capture_logs() as logged:
        assert open_tracing(Settings(), SystemClock(), "test") is None
    assert [line["log_level"] for line in logged] == ["error"]


def test_what_opentelemetry_says_of_our_spans_is_a_line_of_ours_without_the_key_of_the_collector() -> None:
    """It quotes the headers that it cannot read."""
    code = """
import os
os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://127.0.0.1:1"
os.environ["OTEL_EXPORTER_OTLP_HEADERS"] = "Bearer geheim"
import logging
from oncue import logs
from oncue.clock import SystemClock
from oncue.settings import Settings
from oncue.tracing.open import open_tracing
logs.configure("api")
assert open_tracing(Settings(), SystemClock(), "api") is not None
logging.getLogger("shop").warning("of a user's module")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)

    assert done.returncode == 0, done.stderr
    ours, theirs = done.stderr.splitlines()
    assert (json.loads(ours)["kind"], json.loads(ours)["library"]) == ("library", "opentelemetry.util.re")
    assert theirs == "of a user's module"
    assert "geheim" not in done.stderr
