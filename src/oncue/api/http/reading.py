"""Parse requests strictly: the body, the query, the ids in the path."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import nullcontext
from http import HTTPStatus
from math import isfinite
from typing import Any
from urllib.parse import unquote_to_bytes
from uuid import UUID

from starlette.requests import ClientDisconnect, Request

from oncue.api.http.answers import Refused
from oncue.api.http.limits import BYTES_OF_ONE, LARGE, ApiRequest
from oncue.domain.errors import Invalid, NotFound, Problem
from oncue.domain.fields import takes
from oncue.domain.ids import JobId
from oncue.domain.plain_json import LARGEST_INTEGER, SMALLEST_INTEGER
from oncue.domain.plain_text import printable

LARGEST_BODY = 1024 * 1024  # bytes
BYTES_OF_A_VALUE = 64  # in memory
LONGEST_UPLOAD = 10  # seconds until the whole body must have arrived
_LONGEST_INTEGER = len(str(SMALLEST_INTEGER))


async def read_object(request: Request, largest: int = LARGEST_BODY) -> dict[str, Any]:
    """Parse the body, which must be one JSON object."""
    expect_json(request)
    return await _parsed(request, await read_body(request, largest))


async def read_optional_object(request: Request, largest: int = LARGEST_BODY) -> dict[str, Any]:
    """The same for an optional body: without one, an empty object."""
    body = await read_body(request, largest)
    if not body:
        return {}
    expect_json(request)
    return await _parsed(request, body)


async def _parsed(request: Request, body: bytes) -> dict[str, Any]:
    if len(body) <= LARGE:
        return as_object(body)
    if len(body) > LARGEST_BODY:  # of many small values, which take much more memory than text
        _hold(request, min(max(len(body), BYTES_OF_A_VALUE * body.count(b",")), BYTES_OF_ONE))
    return await asyncio.to_thread(as_object, body)  # other requests need not wait


def expect_json(request: Request) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Send JSON with the header Content-Type: application/json.")


def as_object(body: bytes) -> dict[str, Any]:
    found = parse_json(body)
    if not isinstance(found, dict):
        raise Invalid.of("", "wrong_type", "must be a JSON object, for example {}")
    return found


async def read_body(request: Request, largest: int = LARGEST_BODY) -> bytes:
    """Read the body. It is refused as soon as it is known to be too large, and has to arrive within a timeout."""
    declared, held = request.headers.get("content-length", "0"), LARGE
    size = int(declared[:20]) if declared.isdecimal() else 0
    if size > largest:
        raise _too_large(largest)
    if size > held:
        held = _hold(request, size)
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
                if len(body) > held:
                    held = _hold(request, min(2 * len(body), largest))
    except TimeoutError:
        message = f"The body was incomplete after {LONGEST_UPLOAD} seconds. Send the request again."
        raise Refused(HTTPStatus.REQUEST_TIMEOUT, message) from None
    return bytes(body)


def _hold(request: Request, size: int) -> int:
    """Refused: the body and other bodies in progress exceed a limit."""
    if isinstance(request, ApiRequest) and request.share is not None:
        request.share.hold(size)
    return size


def _is_here(request: Request) -> bool:
    """Whether uvicorn has read the whole body, so that reading it does not wait. Other servers do not say."""
    return getattr(getattr(request.receive, "__self__", None), "more_body", True) is False


def _too_large(largest: int) -> Refused:
    return Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"The body exceeds {largest} bytes. Send less at a time.")


def parse_json(body: bytes) -> Any:
    """Parse strict JSON: one value per name, finite numbers, 64-bit integers. Strings are checked at their use."""
    try:
        return _decoder.decode(body.decode())
    except UnicodeDecodeError as wrong:
        raise unreadable(f"it is not UTF-8 at byte {wrong.start}") from None
    except RecursionError:
        raise unreadable("it is nested too deep") from None
    except json.JSONDecodeError as wrong:
        raise unreadable(f"{wrong.msg} at character {wrong.pos}") from None


def unreadable(why: str) -> Refused:
    return Refused(HTTPStatus.BAD_REQUEST, f"The body is not valid JSON: {why}.")


def _one_value_per_name(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        [(twice, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise unreadable(f"the name {printable(twice)!r} comes twice in one object")
    return found


def _integer(text: str) -> int:
    if len(text) > _LONGEST_INTEGER or not SMALLEST_INTEGER <= (number := int(text)) <= LARGEST_INTEGER:
        raise unreadable(f"the integer {text[:24]} does not fit into 64 bits: write it as a string")
    return number


def _fraction(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise unreadable(f"the number {text[:24]} is too large")
    return number


def _no_constant(text: str) -> Any:
    raise unreadable(f"{text} is not JSON")


_decoder = json.JSONDecoder(
    object_pairs_hook=_one_value_per_name, parse_int=_integer, parse_float=_fraction, parse_constant=_no_constant
)


def refuse_parameters(request: Request) -> None:
    """Refuse query parameters of a call that takes none."""
    if request.scope["query_string"] and (unknown := [printable(name) for name in request.query_params]):
        raise Invalid(*(Problem(name, "unknown_field", "is not a parameter of this call") for name in unknown))


def refuse_undecodable(request: Request) -> None:
    """Refuse bytes that are not text. All decode to the same character: two names for one object, and a wrong one."""
    path, query = request.scope.get("raw_path") or b"", request.scope["query_string"]
    if b"%" in path:
        _refuse_undecodable(path, "path")
    for parameter in query.split(b"&") if b"%" in query else ():
        name = parameter.partition(b"=")[0].decode("ascii", "replace")
        _refuse_undecodable(parameter, name if name.isidentifier() else "query")


def _refuse_undecodable(raw: bytes, field: str) -> None:
    try:
        unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        raise Invalid.of(field, "bad_text", "is not UTF-8 after percent-decoding") from None


def path_id(request: Request) -> UUID:
    """The id in the path. Malformed ids are not found, like unknown ones."""
    found = as_uuid(request.path_params["id"])
    if found is None:
        raise NotFound
    return found


@takes(type="string", format="uuid")
def read_id(raw: Any, path: str) -> UUID:
    found = as_uuid(raw) if isinstance(raw, str) else None
    if found is None:
        raise Invalid.of(path, "bad_id", "is an id, like 0190c2a5-7c00-7000-8000-000000000000")
    return found


@takes(type="string", format="uuid")
def read_job_id(raw: Any, path: str) -> JobId:
    found = as_uuid(raw) if isinstance(raw, str) else None
    if found is None:
        raise Invalid.of(path, "bad_id", "is the id of a job, like 0190c2a5-7c00-7000-8000-000000000000")
    return JobId(found)


def as_uuid(text: str) -> UUID | None:
    """Parse an id in the one spelling that we print, in any case: `uuid.UUID` accepts braces, prefixes and more."""
    try:
        found = UUID(text)
    except ValueError:
        return None
    return found if str(found) == text.lower() else None
