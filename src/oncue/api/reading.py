"""What a request says, read strictly: its body, its query, the ids in its path."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import nullcontext
from http import HTTPStatus
from math import isfinite
from typing import Any
from uuid import UUID

from starlette.requests import ClientDisconnect, Request

from oncue.api.problems import Refused
from oncue.domain.errors import Invalid, NotFound, Problem
from oncue.domain.fields import takes
from oncue.domain.ids import JobId
from oncue.domain.plain_json import LARGEST_INTEGER, SMALLEST_INTEGER
from oncue.domain.plain_text import printable

LARGEST_BODY = 1024 * 1024
LARGE = 64 * 1024  # what has more is read beside the event loop
MOST_VALUES = 4_000_000  # of one request: each takes much more room in memory than in its body
LONGEST_UPLOAD = 10  # seconds until the whole body has to be here
_LONGEST_INTEGER = len(str(SMALLEST_INTEGER))


async def read_object(request: Request, *, largest: int = LARGEST_BODY) -> dict[str, Any]:
    """The body, which must be one JSON object."""
    _expect_json(request)
    body = await _body(request, largest)
    if len(body) <= LARGE:
        return _object(body)
    if sum(body.count(sign) for sign in (b"{", b"[", b",")) > MOST_VALUES:
        raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a request has at most {MOST_VALUES} values: send fewer")
    return await asyncio.to_thread(_object, body)  # others need not wait for it


async def read_optional_object(request: Request) -> dict[str, Any]:
    """The same, where no body asks for nothing in particular."""
    body = await _body(request)
    if not body:
        return {}
    _expect_json(request)
    return _object(body)


def _expect_json(request: Request) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send JSON, with the header Content-Type: application/json")


def _object(body: bytes) -> dict[str, Any]:
    found = parse_json(body)
    if not isinstance(found, dict):
        raise Invalid.of("", "wrong_type", "the body is a JSON object, like {}")
    return found


async def _body(request: Request, largest: int = LARGEST_BODY) -> bytes:
    """Refused as soon as it is known to be too large, and not waited for without end."""
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared[:20]) > largest:
        raise _too_large(largest)
    body = bytearray()
    try:
        async with nullcontext() if _is_here(request) else asyncio.timeout(LONGEST_UPLOAD):
            more = True
            while more:
                part = await request.receive()
                if part["type"] == "http.disconnect":
                    raise ClientDisconnect
                body += part.get("body", b"")
                more = part.get("more_body", False)
                if len(body) > largest:
                    raise _too_large(largest)
    except TimeoutError:
        message = f"the body was not complete after {LONGEST_UPLOAD} s: send it again"
        raise Refused(HTTPStatus.REQUEST_TIMEOUT, message) from None
    return bytes(body)


def _is_here(request: Request) -> bool:
    """Whether nothing has to be waited for: uvicorn has read all of the body. Another server does not say."""
    return getattr(getattr(request.receive, "__self__", None), "more_body", True) is False


def _too_large(largest: int) -> Refused:
    return Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a request has at most {largest} bytes: send less at a time")


def parse_json(body: bytes) -> Any:
    """Strict JSON: one value per name, finite numbers, integers of 64 bits. Strings are checked where they are used."""
    try:
        return _decoder.decode(body.decode())
    except UnicodeDecodeError as wrong:
        raise _unreadable(f"it is not UTF-8 at byte {wrong.start}") from None
    except RecursionError:
        raise _unreadable("it is nested too deep") from None
    except json.JSONDecodeError as wrong:
        raise _unreadable(f"{wrong.msg} at character {wrong.pos}") from None


def _unreadable(why: str) -> Refused:
    return Refused(HTTPStatus.BAD_REQUEST, f"the body is not readable as JSON: {why}")


def _one_value_per_name(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        [(twice, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise _unreadable(f"the name {printable(twice)!r} comes twice in one object")
    return found


def _integer(text: str) -> int:
    if len(text) > _LONGEST_INTEGER or not SMALLEST_INTEGER <= (number := int(text)) <= LARGEST_INTEGER:
        raise _unreadable(f"the integer {text[:24]} does not fit into 64 bits: write it as a string")
    return number


def _fraction(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise _unreadable(f"the number {text[:24]} is too large")
    return number


def _no_constant(text: str) -> Any:
    raise _unreadable(f"{text} is not JSON")


_decoder = json.JSONDecoder(
    object_pairs_hook=_one_value_per_name, parse_int=_integer, parse_float=_fraction, parse_constant=_no_constant
)


def refuse_parameters(request: Request) -> None:
    """Of a call that takes none."""
    if request.scope["query_string"] and (unknown := [printable(name) for name in request.query_params]):
        raise Invalid(*(Problem(name, "unknown_field", "there is no such parameter here") for name in unknown))


def path_id(request: Request) -> UUID:
    """The id in the path. What is no id names nothing, like an unknown one."""
    found = as_uuid(request.path_params["id"])
    if found is None:
        raise NotFound
    return found


@takes(type="string", format="uuid")
def read_job_id(raw: Any, path: str) -> JobId:
    found = as_uuid(raw) if isinstance(raw, str) else None
    if found is None:
        raise Invalid.of(path, "bad_id", "is the id of a job, like 0190c2a5-7c00-7000-8000-000000000000")
    return JobId(found)


def as_uuid(text: str) -> UUID | None:
    """Ids in the one spelling that we print, in whatever case: `uuid.UUID` takes braces, prefixes and more."""
    try:
        found = UUID(text)
    except ValueError:
        return None
    return found if str(found) == text.lower() else None
