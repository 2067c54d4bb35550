"""What the store cannot keep is refused to whoever asked for it, and to nobody who asked at the same time."""

import asyncio
from typing import Any

import msgspec
import pytest
from tests.api.conftest import Desk

from oncue.domain.errors import StoreRefused
from oncue.domain.ids import RunId
from oncue.engines.port import AuditEntry
from oncue.testing.logs import capture_logs


async def test_jobs_made_at_the_same_time_do_not_share_a_refusal(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    real = desk.store.engine.jobs.create

    async def create(news: Any, now: Any, **how: Any) -> Any:
        if any(new.job.spec.name == "poison" for new in news):
            raise StoreRefused("it cannot keep this")
        return await real(news, now, **how)

    monkeypatch.setattr(desk.store.engine.jobs, "create", create)
    names = [f"job {number}" for number in range(10)]
    names[3] = "poison"
    answers = await asyncio.gather(
        *(desk.call("POST", "/v1/jobs", {"task": "mark", "name": name, "schedule": "every 1h"}) for name in names)
    )

    assert [answer.status_code for answer in answers] == [422 if name == "poison" else 201 for name in names]
    problem = answers[3].json()
    assert problem["errors"][0]["code"] == "not_storable"
    assert "refused a text or a number" in problem["detail"]


async def test_a_line_of_the_audit_log_that_is_refused_takes_no_other_with_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = desk.store.engine.audit.record

    async def record(audit_entries: Any) -> None:
        if any(b"poison" in (audit_entry.detail or b"") for audit_entry in audit_entries):
            raise StoreRefused("it cannot keep this")
        await real(audit_entries)

    monkeypatch.setattr(desk.store.engine.audit, "record", record)
    queues = ["a", "poison", "b", "c"]
    with capture_logs() as logged:
        await asyncio.gather(*(desk.call("POST", f"/v1/queues/{queue}/pause", key="root") for queue in queues))

    written = [line["detail"]["queue"] for line in (await desk.get("/audit", "root"))["audit"]]
    assert sorted(written) == ["a", "b", "c"]
    [lacking] = [line for line in logged if line["kind"] == "audit_missing"]
    [audit_entry] = msgspec.convert(lacking["audit_entries"], list[AuditEntry])
    assert audit_entry.action == "queue.pause"


async def test_what_is_kept_with_odd_characters_is_shown(desk: Desk) -> None:
    store = desk.store
    run_id = RunId(msgspec.convert((await desk.create(max_retries=0))["job_id"], RunId))
    worker = await store.worker()
    run = await store.claim_one(worker, run_id)
    await store.succeed(worker, run, result=rb'{"a\u0000b":"\u001b[2J"}')

    shown = await desk.get(f"/runs/{run_id}")

    assert shown["result"] == {"a\0b": "\x1b[2J"}
