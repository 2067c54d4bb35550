"""GET /v1/findings: for administrators only, open findings first."""

from tests.api.conftest import Desk

from oncue.domain.instants import MINUTE
from oncue.engines.port import Finding


async def test_administrators_see_what_the_self_audit_found(desk: Desk) -> None:
    store = desk.store
    job_id, run_id = store.new_id(), store.new_id()
    findings = [
        Finding("occurrence", str(job_id), "gone", store.now, store.now),
        Finding("sums", "", "3", store.now, store.now),
    ]
    await store.auditing.record_findings(findings, store.now)
    await store.auditing.clear_findings("sums", [""], store.now)
    store.advance(MINUTE)
    await store.auditing.record_findings([Finding("lane", str(run_id), "empty", store.now, store.now)], store.now)

    first = await desk.get("/findings?limit=2", key="root")
    second = await desk.get(f"/findings?page_token={first['next_page_token']}", key="root")

    assert [one["check"] for one in first["findings"]] == ["lane", "occurrence"]
    assert [(one["check"], one["object_id"]) for one in second["findings"]] == [("sums", None)]
    assert second["findings"][0]["cleared_at"] is not None
    assert first["findings"][1] == {
        "check": "occurrence",
        "object_id": str(job_id),
        "detail": "gone",
        "first_seen": "2030-01-01T00:00:00.000Z",
        "seen_at": "2030-01-01T00:00:00.000Z",
        "cleared_at": None,
    }


async def test_nobody_else_does(desk: Desk) -> None:
    assert [(await desk.call("GET", "/v1/findings", key=key)).status_code for key in ("ada", "")] == [403, 401]
