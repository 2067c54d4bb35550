"""Requests of clients that stay in the process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

import httpx2
import msgspec

URL = "http://oncue.test"
RUNS = "/v1/runs/"


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


def as_json(status: int, body: Any) -> httpx2.Response:
    headers = {"Content-Type": "application/json"}
    return httpx2.Response(status, headers=headers, content=msgspec.json.encode(body))


def problem(status: int, code: str, why: str) -> httpx2.Response:
    return as_json(status, {"title": HTTPStatus(status).phrase, "status": status, "code": code, "detail": why})


def refusal(why: str) -> httpx2.Response:
    """Answer what no stand-in can do."""
    return problem(501, "not_implemented", why)
