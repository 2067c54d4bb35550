"""From the environment to a Tracing. OpenTelemetry is imported only if the environment names where spans go."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec

from oncue.clock import Clock
from oncue.log import log
from oncue.settings import Settings
from oncue.tracing.port import Tracing

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def open_tracing(settings: Settings, clock: Clock, role: str) -> Tracing | None:
    """Return None if there is no exporter: none is configured, or it cannot be used, which is logged."""
    if not is_wanted(os.environ):
        return None
    try:
        from oncue.tracing.otel import OtelTracing
    except ModuleNotFoundError:
        log.warning("Traces need: pip install 'oncue[otel]'; nothing is traced", kind="traces_off")
        return None
    try:
        return OtelTracing.exporting(clock, settings.trace_ratio, role)
    except Exception as wrong:  # an OTEL_* variable with an impossible value
        log.error("The exporter of traces cannot be set up; nothing is traced", kind="traces_off", why=str(wrong))
        return None


def can_export(environment: Mapping[str, str]) -> bool:
    """Whether spans are wanted, and the extra that sends them is installed."""
    return is_wanted(environment) and find_spec("opentelemetry") is not None


def is_wanted(environment: Mapping[str, str]) -> bool:
    """Whether the environment names an OTLP endpoint and does not switch tracing off."""
    off = environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    exporter = environment.get("OTEL_TRACES_EXPORTER", "").strip().lower() or "otlp"
    return not off and exporter == "otlp" and any(environment.get(name, "").strip() for name in ENDPOINTS)
