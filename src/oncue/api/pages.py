"""Listings come in pages: how many, and where to go on."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request

from oncue.api.auth import Caller
from oncue.domain.errors import Invalid, Problem
from oncue.domain.plain_json import printable
from oncue.engines.port import Page

LARGEST_PAGE = 1_000
USUAL_PAGE = 100
_SEAL = 9  # bytes

T = TypeVar("T")


class Wanted(msgspec.Struct, frozen=True):
    """The page a request asks for; `after` is the engine's mark."""

    limit: int
    after: str | None
    scope: str


def wanted_page(request: Request, caller: Caller) -> Wanted:
    """Invalid: a parameter we do not know, a limit out of bounds, or a token that is not from this very listing."""
    problems = [
        Problem(printable(name), "unknown_field", "there is no such parameter here")
        for name in request.query_params
        if name not in ("limit", "page_token")
    ]
    if problems:
        raise Invalid(*problems)
    scope = f"{request.url.path} {caller.uid}"
    token = request.query_params.get("page_token")
    return Wanted(_limit(request.query_params.get("limit")), None if token is None else _unseal(token, scope), scope)


def page(name: str, found: Page[T], shown: Callable[[T], Any], wanted: Wanted) -> dict[str, Any]:
    """The answer: the items under `name`, and the token of the next page, null on the last one."""
    items: Sequence[Any] = [shown(item) for item in found.items]
    return {name: items, "next_page_token": None if found.next is None else _seal(found.next, wanted.scope)}


def _limit(text: str | None) -> int:
    if text is None:
        return USUAL_PAGE
    if not (text.isascii() and text.isdecimal() and len(text) < 6 and 1 <= int(text) <= LARGEST_PAGE):
        raise Invalid.of("limit", "out_of_range", f"is a whole number from 1 to {LARGEST_PAGE}")
    return int(text)


def _seal(mark: str, scope: str) -> str:
    """A mark bound to its listing and its reader, so that any other token is noticed, not misread."""
    return base64.urlsafe_b64encode(_digest(mark, scope) + mark.encode()).decode().rstrip("=")


def _unseal(token: str, scope: str) -> str:
    try:
        opened = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        seal, mark = opened[:_SEAL], opened[_SEAL:].decode("ascii")
    except (binascii.Error, ValueError):
        seal, mark = b"", ""
    if seal != _digest(mark, scope):
        raise Invalid.of("page_token", "bad_page_token", "this token is not from this listing: start again without it")
    return mark


def _digest(mark: str, scope: str) -> bytes:
    return hashlib.blake2b(f"{scope} {mark}".encode(), digest_size=_SEAL).digest()
