"""The trace context of a request: what the job carries that it defines, and its span if it is sampled."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

from starlette.requests import Request
from starlette.responses import Response

from oncue.api.http.limits import ApiRequest
from oncue.api.http.reading import as_uuid
from oncue.domain.ids import JobId
from oncue.domain.trace import Trace, read_trace
from oncue.tracing.port import Tracing

Serve = Callable[[ApiRequest], Awaitable[Response]]

NAME = "oncue.trace"  # the key in a request's scope


def trace_of(request: Request) -> Trace | None:
    """Return what a job carries that this request defines. None: the request has no valid `traceparent`."""
    found: Trace | None = request.scope.get(NAME)
    return found


def traced(serve: Serve, method: str, path: str, tracing: Tracing | None, baggage: Collection[str]) -> Serve:
    """Read the trace context of requests to this route; record those that are sampled and have a valid key."""

    async def serve_traced(request: ApiRequest) -> Response:
        headers = request.headers
        if "traceparent" not in headers:
            return await serve(request)
        state, carried = headers.getlist("tracestate"), headers.getlist("baggage")
        trace = read_trace(headers.getlist("traceparent"), state, carried, baggage)
        span = None if trace is None or tracing is None else tracing.call(method, path, trace)
        request.scope[NAME] = trace if span is None else span.trace
        response = await serve(request)
        if span is not None and request.share is not None:  # else it was not admitted: strangers make no spans
            span.end(response.status_code, _job_id(path, request, response))
        return response

    return serve_traced


def _job_id(path: str, request: Request, response: Response) -> JobId | None:
    """Return the one job that the path names, or that was created."""
    made = response.headers.get("location", "")
    named = request.path_params.get("id", "") if path.startswith("/v1/jobs/{id}") else made.removeprefix("/v1/jobs/")
    found = as_uuid(named)
    return None if found is None else JobId(found)
