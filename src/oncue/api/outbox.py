"""Jobs that applications enqueued in their own transactions and that are not created yet, for administrators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from oncue.api.http.answers import answer
from oncue.api.http.auth import Caller
from oncue.api.listing import page, wanted_page
from oncue.api.shared.context import Api
from oncue.domain.fields import Reader, choice
from oncue.domain.instants import rfc3339
from oncue.engines.outbox_values import Enqueued
from oncue.engines.port import Page

REFUSED, WAITING = "refused", "waiting"
FILTERS: Mapping[str, Reader] = {"status": choice({WAITING: False, REFUSED: True})}
MOST_AT_ONCE = 100  # rows of a page: they are read with their payloads, which may be large


async def show(api: Api, request: Request, caller: Caller) -> Response:
    wanted = wanted_page(request, caller, FILTERS)
    after = 0 if wanted.after is None else int(wanted.after)
    limit = min(wanted.limit, MOST_AT_ONCE)
    rows = await api.engine.outbox.listed(limit, after, refused=wanted.filters.get("status"))
    found = Page(tuple(rows), str(rows[-1].seq) if len(rows) == limit else None)
    return answer(page("outbox", found, _shown, wanted))


def _shown(row: Enqueued) -> dict[str, Any]:
    return {
        "job_id": row.job_id,
        "status": REFUSED if row.refused else WAITING,
        "task": row.task,
        "user_id": row.user_id,
        "db_role": row.db_role,
        "enqueued_at": rfc3339(row.at),
        "retry_at": rfc3339(row.retry_at) if row.why is not None and not row.refused else None,
        "why": row.why,
    }
