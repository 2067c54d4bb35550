"""GET /v1/outbox: what applications enqueued and is not created yet, for administrators only."""

from collections.abc import Sequence

import pytest
from tests.api.conftest import Desk

from oncue.domain.ids import JobId, UserNumber
from oncue.domain.instants import NEVER, SECOND, Instant, rfc3339
from oncue.engines.outbox_values import Enqueued
from oncue.engines.port import Role


def row(desk: Desk, seq: int, retry_at: int = 0, why: str | None = None) -> Enqueued:
    now = desk.store.now
    author = (UserNumber(1), "shop", Role.MEMBER, "web")
    what = ("ship", "{}", "{}", None, True, now, now)
    return Enqueued(seq, JobId(desk.store.new_id()), *author, *what, Instant(retry_at), why)


async def test_administrators_see_what_waits_and_what_was_refused(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    now = desk.store.now
    rows = [row(desk, 1, NEVER, "no such task"), row(desk, 4), row(desk, 9, now + SECOND, "over quota")]

    async def listed(limit: int, after: int = 0, *, refused: bool | None = None) -> Sequence[Enqueued]:
        return [one for one in rows if one.seq > after and refused in (None, one.refused)][:limit]

    monkeypatch.setattr(desk.store.engine.outbox, "listed", listed)

    first = await desk.get("/outbox?limit=2", key="root")
    second = await desk.get(f"/outbox?page_token={first['next_page_token']}", key="root")
    refused = await desk.get("/outbox?status=refused", key="root")

    assert [(one["status"], one["retry_at"]) for one in first["outbox"]] == [("refused", None), ("waiting", None)]
    assert (second["next_page_token"], second["outbox"]) == (
        None,
        [
            {
                "job_id": str(rows[2].job_id),
                "status": "waiting",
                "task": "ship",
                "user_id": "shop",
                "db_role": "web",
                "enqueued_at": rfc3339(now),
                "retry_at": rfc3339(Instant(now + SECOND)),
                "why": "over quota",
            }
        ],
    )
    assert [one["why"] for one in refused["outbox"]] == ["no such task"]
    assert [(await desk.call("GET", "/v1/outbox", key=key)).status_code for key in ("ada", "")] == [403, 401]
    assert (await desk.call("GET", "/v1/outbox?status=gone", key="root")).status_code == 422
