"""Whether this process is alive, and whether it can serve. Needs no key and reveals nothing else."""

from __future__ import annotations

from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response

from oncue.api.http.answers import AGAIN_SOON, Refused, answer
from oncue.api.shared.context import Api


async def alive(api: Api, request: Request) -> Response:
    return answer({"status": "ok"})


async def ready(api: Api, request: Request) -> Response:
    """Ready when the database keeps writes, and all that the starter of this server awaits has happened."""
    if api.awaited is not None and not api.awaited.is_set():
        raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "The server is starting. Retry in 1 second.", AGAIN_SOON)
    await api.readiness.check()
    return answer({"status": "ok"})
