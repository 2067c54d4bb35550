"""The runs that one worker holds: pages of a walk over all running runs, which are as many as the fleet has slots.

An index by worker would make every claim and every settlement slower.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from oncue.domain.ids import UserNumber, WorkerId
from oncue.domain.run import RunView
from oncue.engines.marks import mark, unmark
from oncue.engines.values import Page

HELD_SCAN = 10_000  # running runs that one page looks at
FIRST = UUID(int=0)


def held_after(after: str | None) -> UUID:
    return unmark(after, UUID) if after else FIRST


def held_page(
    found: Iterable[tuple[RunView, bool]], worker_id: WorkerId, uid: UserNumber | None, limit: int
) -> Page[RunView]:
    """Return a page of the runs found, one of which may be too many. With each: whether the walk stopped there."""
    items: list[RunView] = []
    last = FIRST
    for run, stopped in found:
        if len(items) == limit:
            return Page(tuple(items), mark(last))
        if run.worker_id == worker_id and uid in (None, run.uid):
            items.append(run)
        last = run.run_id
        if stopped:
            return Page(tuple(items), mark(last))
    return Page(tuple(items))
