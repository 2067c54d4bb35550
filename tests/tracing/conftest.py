"""Spans that stay in memory, and a store for the services that make them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.executors.test_http import server as server  # a fixture
from tests.services.conftest import logged as logged  # a fixture

from oncue.clock import Clock
from oncue.testing.conformance import EmptyStore, Store
from oncue.tracing.otel import OtelTracing


class Spans:
    """A Tracing, and what it has recorded, in the order of their ends."""

    def __init__(self, clock: Clock, ratio: float) -> None:
        self._exporter = InMemorySpanExporter()
        self.tracing = OtelTracing.on(SimpleSpanProcessor(self._exporter), clock, ratio, "test")

    @property
    def ended(self) -> tuple[ReadableSpan, ...]:
        return self._exporter.get_finished_spans()

    def __getitem__(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.ended if span.name == name]

    def everything(self) -> str:
        """Whatever would be sent."""
        return "".join(span.to_json() for span in self.ended)


@pytest.fixture(params=["sqlite"])
def engine_name(request: pytest.FixtureRequest) -> str:
    """Tracing knows no engine."""
    name: str = request.param
    return name


@pytest.fixture
async def store(empty_store: EmptyStore) -> AsyncIterator[Store]:
    async with await Store.on(await empty_store()) as store:
        yield store


@pytest.fixture
def recording(store: Store) -> Callable[[float], Spans]:
    return lambda ratio: Spans(store.clock, ratio)
