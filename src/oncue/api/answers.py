"""Answers: JSON or text, with the headers that every one of them carries."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.responses import Response

ALWAYS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}

_encode = msgspec.json.Encoder().encode


def _raw(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


_ALWAYS = _raw(ALWAYS)


class Answer(Response):
    """A body that is there whole. Made without all that the general case needs: it is made for every request."""

    def __init__(
        self,
        body: bytes,
        status: HTTPStatus = HTTPStatus.OK,
        headers: Mapping[str, str] | None = None,
        media_type: str = "application/json",
    ) -> None:
        self.status_code = status
        self.background = None
        self.body = body
        kind, length = (b"content-type", media_type.encode()), (b"content-length", b"%d" % len(body))
        self.raw_headers = [kind, length, *_ALWAYS, *_raw(headers or {})]


def answer(
    value: Any,
    status: HTTPStatus = HTTPStatus.OK,
    headers: dict[str, str] | None = None,
    media_type: str = "application/json",
) -> Response:
    return Answer(_encode(value), status, headers, media_type)


def stored_json(value: bytes, status: HTTPStatus = HTTPStatus.OK) -> Response:
    """JSON as it was stored."""
    return Answer(value, status)


def plain_text(value: bytes) -> Response:
    return Answer(value, media_type="text/plain; charset=utf-8")
