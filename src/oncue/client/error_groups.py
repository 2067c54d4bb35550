"""Calls on groups of errors."""

from __future__ import annotations

from oncue.client.call import Call, Page, get, page_of, path
from oncue.shapes.errors import ErrorGroup


def page(*, limit: int | None = None, page_token: str | None = None) -> Call[Page[ErrorGroup]]:
    """List groups of errors, those with the newest failure first. Dead letters take a group's `fingerprint`."""
    return get(path("errors"), page_of("errors", ErrorGroup), limit=limit, page_token=page_token)
