"""The trace context of a process-isolated run."""

from __future__ import annotations

import sys

from oncue.domain.trace import Trace


def make_current(trace: Trace) -> None:
    """Make it OpenTelemetry's current context, if the task's module has imported that: it takes longer than most runs
    to import.
    """
    if "opentelemetry.trace" in sys.modules:
        from opentelemetry import context

        from oncue.tracing.remote import context_of

        context.attach(context_of(trace))
