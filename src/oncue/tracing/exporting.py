"""Send spans by OTLP from a thread of their own. What it cannot send in time is dropped and counted."""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from oncue.log import log
from oncue.metrics.metric import Labels

MOST_WAITING = 2_048  # spans


class WatchedExporter(SpanExporter):
    """Logs when spans begin to be lost, and when they are sent again."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self.taken = 0  # spans that no longer wait
        self.dropped = 0  # spans that found no room
        self.failed = 0  # spans that could not be sent
        self._lost = 0  # of these, since the last that were sent
        self._told = 0  # of the dropped

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        try:
            result = self._exporter.export(spans)
        except BaseException:
            self.failed += len(spans)
            raise
        finally:
            self.taken += len(spans)
        self._tell(result, len(spans))
        return result

    def _tell(self, result: SpanExportResult, count: int) -> None:
        lost_before, dropped = self._lost, self.dropped - self._told
        self._told += dropped
        if result is SpanExportResult.SUCCESS:
            self._lost = 0
        else:
            self._lost += count
            self.failed += count
        if self._lost and not lost_before:
            log.warning("Spans cannot be exported and are lost", kind="spans_lost", spans=count)
        elif lost_before and not self._lost:
            log.info("Spans are exported again", kind="spans_back", lost=lost_before)
        if dropped:
            log.warning(
                "There are more spans than can be exported; some were dropped", kind="spans_dropped", dropped=dropped
            )

    def shutdown(self) -> None:
        self._exporter.shutdown()


class BoundedProcessor(BatchSpanProcessor):
    """At most MOST_WAITING spans wait to be exported, with those that are under way."""

    def __init__(self, exporter: WatchedExporter) -> None:
        super().__init__(exporter, max_queue_size=MOST_WAITING)
        self._watched = exporter
        self._given = 0

    def on_end(self, span: ReadableSpan) -> None:
        if self._given - self._watched.taken >= MOST_WAITING:
            self._watched.dropped += 1
            return
        self._given += 1
        super().on_end(span)

    def lost(self) -> dict[Labels, int]:
        return {("full",): self._watched.dropped, ("failed",): self._watched.failed}


def otlp_processor() -> BoundedProcessor:
    return BoundedProcessor(WatchedExporter(OTLPSpanExporter()))
