"""Read a long list in a body one part at a time: parsing all at once would take many times the memory of the body."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.requests import Request

from oncue.api.http.answers import Refused
from oncue.api.http.limits import LARGE
from oncue.api.http.reading import LARGEST_BODY, as_object, expect_json, parse_json, read_body, unreadable
from oncue.domain.errors import Invalid
from oncue.domain.plain_text import printable

MOST_VALUES = 2_000_000  # of one body: each may be a part, which takes more memory than its bytes in the body

NOTHING = msgspec.Raw(b"null")

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_parts = msgspec.json.Decoder(list[msgspec.Raw]).decode


async def read_items(request: Request, name: str, largest: int) -> list[msgspec.Raw]:
    """Return the parts of the only list in the body, an object. They are split, not parsed: see `read_item`."""
    body = await _body(request, largest)
    try:
        return _cut(body, name)
    except RecursionError:
        raise unreadable("it is nested too deep") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as wrong:
        if len(body) <= LARGEST_BODY:
            parts, others = _read(body, name)
            _refuse_unknown(others, name)
            return parts
        raise (_no_list(name) if isinstance(wrong, msgspec.ValidationError) else unreadable(str(wrong))) from None


async def read_items_and_more(request: Request, name: str, largest: int) -> tuple[list[msgspec.Raw], dict[str, Any]]:
    """Return the parts of a list in the body, an object, and the other fields. A part is split, not parsed."""
    body = await _body(request, largest)
    try:
        found = _fields(body).get(name, NOTHING)
        parts = _parts(found)
    except RecursionError:
        raise unreadable("it is nested too deep") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as wrong:
        if len(body) <= LARGEST_BODY:
            return _read(body, name)
        raise (_no_list(name) if isinstance(wrong, msgspec.ValidationError) else unreadable(str(wrong))) from None
    start = body.find(bytes(found))
    rest = body[:start] + b"[]" + body[start + len(found) :]
    if len(rest) > LARGE:
        raise Invalid.of("", "too_large", f"the fields beside {name} exceed {LARGE} bytes")
    fields = as_object(rest)
    if fields.pop(name) != []:  # the same text also stands elsewhere, before the list
        raise Invalid.of("", "unreadable", f"write the field {name} first")
    return parts, fields


async def _body(request: Request, largest: int) -> bytes:
    expect_json(request)
    body = await read_body(request, largest)
    if body.count(b",") >= MOST_VALUES:
        raise Refused(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"The body has more than {MOST_VALUES} values. Send fewer at a time."
        )
    return body


def _no_list(name: str) -> Invalid:
    return Invalid.of(name, "wrong_type", f'must be a list: {{"{name}": […]}}')


def _cut(body: bytes, name: str) -> list[msgspec.Raw]:
    found = _fields(body).get(name, NOTHING)
    _refuse_others(body, name, found)
    return _parts(found)


def _read(body: bytes, name: str) -> tuple[list[msgspec.Raw], dict[str, Any]]:
    """Parse a body that could not be split, into parts and other fields. The JSON parser reports best what is wrong; or
    a part has half a surrogate pair, and the check of the parts then says which one.
    """
    fields = as_object(body)
    parts = fields.pop(name, None)
    if not isinstance(parts, list):
        raise _no_list(name)
    return [msgspec.Raw(json.dumps(part).encode()) for part in parts], fields


def _refuse_others(body: bytes, name: str, found: msgspec.Raw) -> None:
    """Refuse everything in the body but the list. The first bracket belongs to the list; if it belongs to another
    field, the body has more than the list, and the rest of the body is not an object with only this field.
    """
    start = -1 if found is NOTHING else body.find(b"[")
    around = body if start < 0 else body[:start] + b"[]" + body[start + len(found) :]
    if len(around) > LARGE:
        raise Invalid.of("", "unknown_field", f"the body may have only the field {name}")
    _refuse_unknown(as_object(around), name)


def _refuse_unknown(fields: Iterable[str], name: str) -> None:
    for other in fields:
        if other != name:
            raise Invalid.of(printable(other), "unknown_field", f"unknown field; the body may have only {name}")


async def read_item(raw: msgspec.Raw, largest: int = LARGEST_BODY) -> Any:
    """Parse one part, as strictly as a body."""
    if len(raw) > largest:
        raise Invalid.of("", "too_large", f"exceeds {largest} bytes")
    return parse_json(bytes(raw)) if len(raw) <= LARGE else await asyncio.to_thread(parse_json, bytes(raw))
