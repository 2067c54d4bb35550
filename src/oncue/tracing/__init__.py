"""Traces: spans of calls, plans, attempts and outgoing requests, if `OTEL_*` says where to send them."""
