"""Whether this process lives, and whether it can serve: open to everybody, and telling nothing else."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from oncue.api.answers import answer
from oncue.api.context import Api
from oncue.domain.errors import StoreUnavailable

PATIENCE = 1  # seconds


async def alive(api: Api, request: Request) -> Response:
    return answer({"status": "ok"})


async def ready(api: Api, request: Request) -> Response:
    try:
        async with asyncio.timeout(PATIENCE):
            await api.engine.now()
    except TimeoutError:
        raise StoreUnavailable(f"the store did not answer within {PATIENCE} s") from None
    return answer({"status": "ok"})
