"""Listings come in pages: how many, and where to go on."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request

from oncue.api.auth import Caller
from oncue.domain.errors import Invalid, Problem
from oncue.domain.fields import Reader, read_fields, takes
from oncue.domain.instants import Instant, parse_instant
from oncue.domain.plain_text import printable
from oncue.engines.port import Page

LARGEST_PAGE = 1_000
USUAL_PAGE = 100
LOOKED_AT_ONCE, MOST_LOOKED_AT = 100, 200  # items of the store for one page of ours, where a filter leaves out some
NO_FILTERS: Mapping[str, Reader] = MappingProxyType({})
_SEAL = 9  # bytes

T = TypeVar("T")


class Wanted(msgspec.Struct, frozen=True):
    """The page a request asks for, and of what; `after` is the engine's mark."""

    limit: int
    after: str | None
    scope: str
    filters: dict[str, Any] = {}


def wanted_page(request: Request, caller: Caller, filters: Mapping[str, Reader] = NO_FILTERS) -> Wanted:
    """Invalid: a parameter that is wrong or that we do not know, or a token that is not from this very listing."""
    given, problems = _parameters(request)
    found = read_fields(given, {**filters, **PAGING}, problems)
    if problems:
        raise Invalid(*problems)
    limit, token = found.pop("limit", USUAL_PAGE), found.pop("page_token", None)
    scope = f"{request.url.path} {caller.uid} {urlencode([(name, given[name]) for name in sorted(found)])}"
    return Wanted(limit, None if token is None else _unseal(token, scope), scope, found)


def read_query(request: Request, readers: Mapping[str, Reader]) -> dict[str, Any]:
    """The parameters of a call that is no listing."""
    given, problems = _parameters(request)
    found = read_fields(given, readers, problems)
    if problems:
        raise Invalid(*problems)
    return found


def _parameters(request: Request) -> tuple[dict[str, str], list[Problem]]:
    pairs = request.query_params.multi_items()
    twice = {name for name, n in Counter(name for name, _ in pairs).items() if n > 1}
    return dict(pairs), [Problem(printable(name), "given_twice", "give it once") for name in sorted(twice)]


@takes(type="string", format="date-time")
def instant(raw: Any, path: str) -> Instant:
    """A filter by time. An offset's plus sign is a space in a query, unless it is written as %2B."""
    return parse_instant(re.sub(r" (?=\d\d:\d\d$)", "+", raw), path)


def window(filters: Mapping[str, Any]) -> tuple[Instant | None, Instant | None]:
    """From `start_time` up to, and without, `end_time`."""
    start, end = filters.get("start_time"), filters.get("end_time")
    if start is not None and end is not None and end <= start:
        raise Invalid.of("end_time", "bad_window", "must be later than start_time")
    return start, end


async def filled_page(
    read: Callable[[int, str | None], Awaitable[Page[T]]], wanted: Wanted, keep: Callable[[T], bool] | None = None
) -> Page[T]:
    """A page of those to keep. A bounded number of them is looked at: it may be short while there is more."""
    if keep is None:
        return await read(wanted.limit, wanted.after)
    items, after, looked_at = list[T](), wanted.after, 0
    while looked_at < MOST_LOOKED_AT:
        room = wanted.limit - len(items)
        asked = max(room, LOOKED_AT_ONCE) if looked_at else room  # nearly always all of the first ones fit
        found = await read(asked, after)
        looked_at += len(found.items)
        fitting = [number for number, item in enumerate(found.items, 1) if keep(item)]
        if len(fitting) > room:  # the page ends with the last one it has room for: ask where that is
            found = await read(fitting[room - 1], after)
        items += filter(keep, found.items)
        after = found.next
        if after is None or len(items) >= wanted.limit or len(found.items) < asked:
            break
    return Page(tuple(items), after)


def page(name: str, found: Page[T], shown: Callable[[T], Any], wanted: Wanted) -> dict[str, Any]:
    """The answer: the items under `name`, and the token of the next page, null on the last one."""
    items: Sequence[Any] = [shown(item) for item in found.items]
    return {name: items, "next_page_token": None if found.next is None else _seal(found.next, wanted.scope)}


@takes(type="integer", minimum=1, maximum=LARGEST_PAGE, default=USUAL_PAGE)
def _limit(raw: str, path: str) -> int:
    if not (raw.isascii() and raw.isdecimal() and len(raw) < 6 and 1 <= int(raw) <= LARGEST_PAGE):
        raise Invalid.of(path, "out_of_range", f"is a whole number from 1 to {LARGEST_PAGE}")
    return int(raw)


@takes(type="string")
def _token(raw: str, path: str) -> str:
    return raw


PAGING: Mapping[str, Reader] = {"limit": _limit, "page_token": _token}  # what every listing takes beside its filters


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
