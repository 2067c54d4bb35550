"""Answers: JSON or text, with the headers that every one of them carries."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import msgspec
from starlette.responses import Response

ALWAYS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}

_encode = msgspec.json.Encoder().encode


def answer(
    value: Any,
    status: HTTPStatus = HTTPStatus.OK,
    headers: dict[str, str] | None = None,
    media_type: str = "application/json",
) -> Response:
    return Response(_encode(value), status, {**ALWAYS, **(headers or {})}, media_type)


def stored_json(value: bytes, status: HTTPStatus = HTTPStatus.OK) -> Response:
    """JSON as it was stored."""
    return Response(value, status, ALWAYS, "application/json")


def plain_text(value: bytes) -> Response:
    return Response(value, headers=ALWAYS, media_type="text/plain")
