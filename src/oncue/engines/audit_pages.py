"""Pages of the audit log: which rows an engine reads for one, and which of these are in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from oncue.domain.ids import UserNumber
from oncue.engines.marks import mark, unmark
from oncue.engines.port import AUDIT_LOOKED_AT, AuditEntry, AuditFilter, Page

BEFORE_ALL = -(2**63)
AFTER_ALL = 2**63 - 1

Row = TypeVar("Row")


def audit_place(after: str | None, only: AuditFilter) -> tuple[int, int]:
    """Return (at, number) of an entry: the page has earlier ones."""
    end = (AFTER_ALL if only.until is None else only.until, 0)
    return min(unmark(after, tuple[int, int]), end) if after else end


def rows_to_read(uid: UserNumber | None, limit: int, only: AuditFilter) -> int:
    """Return how many rows to read: one more than the page has, or more where some of them do not fit."""
    return (AUDIT_LOOKED_AT if _skips(uid, only) else limit) + 1


def _skips(uid: UserNumber | None, only: AuditFilter) -> bool:
    return only.action is not None or (only.object_id is not None and uid is not None)


def audit_page(
    found: Sequence[Row],
    uid: UserNumber | None,
    limit: int,
    only: AuditFilter,
    read: Callable[[Row], AuditEntry],
    place: Callable[[Row], object],
) -> Page[AuditEntry]:
    """Return the entries that fit. The last row tells whether there are more, and is in none of the pages."""
    last = rows_to_read(uid, limit, only) - 1
    entries = list[AuditEntry]()
    for number, row in enumerate(found[:last], 1):
        entry = read(row)
        if only.action in (None, entry.action) and uid in (None, entry.uid):
            entries.append(entry)
        if len(entries) == limit:
            return Page(tuple(entries), mark(place(row)) if number < len(found) else None)
    return Page(tuple(entries), mark(place(found[last - 1])) if len(found) > last else None)
