"""The Range header: one range of bytes of a value."""

from __future__ import annotations

import re
from http import HTTPStatus

from starlette.requests import Request

from oncue.api.http.answers import Refused

_ONE = re.compile(r"bytes=\s*(\d{0,18})-(\d{0,18})\s*", re.ASCII | re.IGNORECASE)


def wanted_range(request: Request, size: int) -> tuple[int, int] | None:
    """Return the bytes [start, end) that the request asks for. None: all of them.

    Several ranges and other units are ignored, as RFC 9110 allows; so is a range on condition of a version (If-Range),
    because answers name none.
    """
    found = _ONE.fullmatch(request.headers.get("range", ""))
    if found is None or found.groups() == ("", "") or "if-range" in request.headers:
        return None
    first, last = found.groups()
    if not first:
        start, end = max(size - int(last), 0), size
    else:
        start, end = int(first), min(int(last) + 1, size) if last else size
        if last and int(last) < start:
            return None  # not a range at all
    if start >= end:
        message = f"The range begins after the end: this value has {size} bytes."
        status = HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE
        raise Refused(status, message, {"Content-Range": f"bytes */{size}"})
    return start, end
