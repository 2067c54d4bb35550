"""The span of an outgoing request, and the headers that pass its trace on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from oncue.context import Context
from oncue.domain.addresses import CheckedUrl
from oncue.executors.calling import as_failure
from oncue.tracing.port import current_attempt


class Outgoing:
    """A request; `status` is that of its answer, once there is one."""

    def __init__(self, headers: dict[str, str]) -> None:
        self.headers = headers
        self.status: int | None = None


@contextmanager
def outgoing(ctx: Context, method: str, url: CheckedUrl) -> Iterator[Outgoing]:
    """Record this request if its attempt is sampled. Otherwise it passes on what the attempt does."""
    attempt = current_attempt.get()
    span = None if attempt is None else attempt.request(method, url.shown, url.host, url.port)
    if span is None:
        yield Outgoing(ctx.trace_headers)
        return
    request = Outgoing(span.trace.headers())
    try:
        yield request
    except BaseException as error:
        span.end(request.status, as_failure(error).kind)
        raise
    span.end(request.status, None)
