"""Requests of clients that stay in the process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import httpx2

URL = "http://oncue.test"


class Transport(httpx2.BaseTransport):
    def __init__(self, answer: Callable[[httpx2.Request], httpx2.Response]) -> None:
        self._answer = answer

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        request.read()
        return self._answer(request)


class AsyncTransport(httpx2.AsyncBaseTransport):
    def __init__(self, answer: Callable[[httpx2.Request], Awaitable[httpx2.Response]]) -> None:
        self._answer = answer

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        await request.aread()
        return await self._answer(request)
