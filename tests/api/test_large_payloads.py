"""Payloads that are too large for the database: taken, shown, edited, and refused while storage is away."""

import asyncio
import threading
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.api.conftest import Desk

from oncue.domain.errors import StorageUnavailable
from oncue.domain.ids import JobId, RunId
from oncue.domain.reference import read_reference
from oncue.domain.run import State
from oncue.domain.secret_refs import SecretAccess
from oncue.intake.large_values import LargeValues
from oncue.intake.payloads import beside_others
from oncue.settings import Settings
from oncue.storage.objects import ObjectStorage
from oncue.storage.open import open_storage

MB = 1_000_000
LARGE = {"a": "ü" * (5 * MB // 2), "b": 1}


@pytest.fixture
def desk(desk: Desk, tmp_path: Path) -> Desk:
    """With storage in a folder of the test."""
    settings = Settings(data_dir=str(tmp_path))
    api = desk.app.api
    api.storage = open_storage(settings, desk.store.clock)
    api.large = api.intake.large = LargeValues(desk.store.engine, api.storage, desk.store.clock, settings.inline_cap)
    return desk


async def created(desk: Desk, **how: Any) -> dict[str, Any]:
    answer = await desk.call("POST", "/v1/jobs", {"task": "mark", "payload": LARGE, **how})
    assert answer.status_code == 201, answer.text[:500]
    found: dict[str, Any] = answer.json()
    return found


def objects(folder: Path) -> list[Path]:
    return [file for file in (folder / "objects" / "v1").rglob("*") if file.is_file()]


async def test_a_large_payload_is_taken_and_shown(desk: Desk, tmp_path: Path) -> None:
    job = await created(desk)
    where = f"/v1/jobs/{job['job_id']}"

    [size] = job["large"].values()
    assert (job["payload"], 5 * MB < size < 5 * MB + 100) == (None, True)
    assert (await desk.call("GET", where)).json()["payload"] == LARGE
    assert (await desk.call("GET", f"/v1/runs/{job['job_id']}/payload")).json() == LARGE
    [listed] = (await desk.call("GET", "/v1/jobs")).json()["jobs"]
    assert (listed["payload"], listed["large"]) == (None, {"payload": size})
    assert [file.stat().st_size for file in objects(tmp_path)] == [size]


async def test_more_than_the_cap_is_refused(desk: Desk) -> None:
    answer = await desk.call("POST", "/v1/jobs", {"task": "mark", "payload": {"a": "x" * (8 << 20)}})
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (422, "too_large")


async def test_an_edit_keeps_the_payload_that_it_does_not_name(desk: Desk, tmp_path: Path) -> None:
    job = await created(desk, schedule="every 1h")
    where = f"/v1/jobs/{job['job_id']}"

    renamed = await desk.call("PATCH", where, {"name": "new"})
    [listed] = (await desk.call("GET", "/v1/jobs")).json()["jobs"]
    sent_back = await desk.call("PATCH", where, {**listed, "name": "newer"})
    replaced = await desk.call("PATCH", where, {"payload": {"b": 2}})

    assert [one.status_code for one in (renamed, sent_back, replaced)] == [200, 200, 200]
    assert sent_back.json()["large"] == listed["large"] == renamed.json()["large"] == job["large"]
    assert (replaced.json()["payload"], replaced.json()["large"]) == ({"b": 2}, {})
    assert len(objects(tmp_path)) == 1


async def test_the_same_large_definition_again_changes_nothing(desk: Desk) -> None:
    where, body = "/v1/jobs/by-key/mine", {"task": "mark", "payload": LARGE, "schedule": "every 1h"}
    first = await desk.call("PUT", where, body)
    again = await desk.call("PUT", where, {**body, "payload": dict(reversed(LARGE.items()))})
    [listed] = (await desk.call("GET", "/v1/jobs")).json()["jobs"]
    sent_back = await desk.call("PUT", where, listed)
    other = await desk.call("PUT", where, {**body, "payload": {**LARGE, "b": 2}})

    assert [one.status_code for one in (first, again, sent_back, other)] == [201, 200, 200, 200]
    assert [one.json()["version"] for one in (first, again, sent_back, other)] == [1, 1, 1, 2]


async def test_a_batch_takes_large_payloads(desk: Desk, tmp_path: Path) -> None:
    jobs = [{"task": "mark", "payload": {"a": str(number) * 300_000}} for number in range(10)]
    job_ids = (await desk.call("POST", "/v1/jobs/batch", {"jobs": jobs})).json()["job_ids"]

    payloads = [(await desk.call("GET", f"/v1/jobs/{job_id}")).json()["payload"] for job_id in job_ids]
    assert payloads == [job["payload"] for job in jobs]
    assert len(objects(tmp_path)) == 10


async def test_while_storage_is_away_large_payloads_are_503_and_small_ones_are_taken(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await created(desk)

    async def away(*_: object) -> None:
        raise StorageUnavailable("away")

    monkeypatch.setattr(ObjectStorage, "put", away)
    monkeypatch.setattr(ObjectStorage, "get", away)
    refused = await desk.call("POST", "/v1/jobs", {"task": "mark", "payload": LARGE})
    unread = await desk.call("GET", f"/v1/jobs/{job['job_id']}")

    assert (refused.status_code, unread.status_code) == (503, 503)
    assert refused.headers["Retry-After"] == "10"
    assert (await desk.call("POST", "/v1/jobs", {"task": "mark"})).status_code == 201
    assert len((await desk.call("GET", "/v1/jobs")).json()["jobs"]) == 2
    assert (await desk.call("DELETE", f"/v1/jobs/{job['job_id']}")).status_code == 200


async def test_a_large_result_is_fetched_by_its_own_call(desk: Desk, tmp_path: Path) -> None:
    store = desk.store
    job = await created(desk)
    run_id, worker = RunId(UUID(job["job_id"])), await store.worker()
    run = await store.claim_one(worker, run_id)
    await store.succeed(worker, run, result=run.payload)  # any object will do
    kept = read_reference(run.payload)
    assert kept is not None

    shown = (await desk.call("GET", f"/v1/runs/{run_id}")).json()
    assert (shown["result"], shown["large"], shown["degraded"]) == (
        None,
        {"payload": kept.size, "result": kept.size},
        [],
    )
    assert (await desk.call("GET", f"/v1/runs/{run_id}/result")).json() == LARGE
    for file in objects(tmp_path):
        file.unlink()
    assert (await desk.call("GET", f"/v1/runs/{run_id}/result")).status_code == 404


async def test_a_run_says_that_its_result_was_not_kept(desk: Desk) -> None:
    store = desk.store
    run_id, worker = await store.one_shot(), await store.worker()
    run = await store.claim_one(worker, run_id)
    lost = b'\x01{"key":"","size":20000000,"sha256":"00"}'
    await store.succeed(worker, run, result=lost)

    shown = (await desk.call("GET", f"/v1/runs/{run_id}")).json()
    assert (shown["status"], shown["result"], shown["large"], shown["degraded"]) == ("succeeded", None, {}, ["result"])
    answer = await desk.call("GET", f"/v1/runs/{run_id}/result")
    assert (answer.status_code, State.SUCCEEDED) == (404, (await store.run(run_id)).state)


async def test_of_large_payloads_with_many_values_one_is_read_at_a_time(desk: Desk) -> None:
    """A million small values take a hundred times as much memory as a megabyte of text."""
    body = b'{"task": "mark", "payload": {"a": [' + b"1," * 2_000_000 + b"1]}}"

    answers = await asyncio.gather(*(desk.call("POST", "/v1/jobs", body) for _ in range(5)))

    assert sorted({answer.status_code for answer in answers}) == [422, 429]
    answer = await desk.call("POST", "/v1/jobs", body)
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (422, "too_many_values")


async def test_a_payload_with_many_values_is_checked_beside_other_requests() -> None:
    """Catches a check in the event loop, which all other requests would wait for."""
    for values, beside in ((10, False), (100_000, True)):
        thread = await beside_others({"a": [0] * values}, threading.get_ident)
        assert (thread != threading.get_ident()) is beside


async def test_a_job_whose_payload_is_lost_can_be_seen_paused_and_mended(desk: Desk, tmp_path: Path) -> None:
    where, body = "/v1/jobs/by-key/mine", {"task": "mark", "payload": LARGE, "schedule": "every 1h"}
    job = (await desk.call("PUT", where, body)).json()
    path = f"/v1/jobs/{job['job_id']}"
    for file in objects(tmp_path):
        file.unlink()

    shown = (await desk.call("GET", path)).json()
    assert (shown["payload"], [(one["path"], one["code"]) for one in shown["warnings"]]) == (
        None,
        [("payload", "lost")],
    )
    assert (await desk.call("POST", f"{path}/pause")).json()["status"] == "paused"
    assert (await desk.call("POST", f"{path}/resume")).json()["status"] == "active"
    renamed = await desk.call("PATCH", path, {"name": "new"})
    assert (renamed.status_code, renamed.json()["errors"][0]["code"]) == (422, "lost")

    assert (await desk.call("PUT", where, body)).status_code == 200
    assert (await desk.call("GET", path)).json()["payload"] == LARGE


async def test_pausing_needs_no_storage(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches an answer that says that nothing was changed, after the change."""
    path = f"/v1/jobs/{(await created(desk, schedule='every 1h'))['job_id']}"

    async def away(*_: object) -> bytes:
        raise StorageUnavailable("away")

    monkeypatch.setattr(ObjectStorage, "get", away)

    for action, status in (("pause", "paused"), ("resume", "active")):
        answer = await desk.call("POST", f"{path}/{action}")
        assert (answer.status_code, answer.json()["status"]) == (200, status)


async def test_a_large_payload_may_name_secrets_also_when_it_is_replaced(desk: Desk) -> None:
    """Catches a decision that looks into the reference instead of the payload."""
    payload = {"token": {"secret": "crm"}, "a": "x" * MB}
    job = await created(desk, payload=payload, schedule="every 1h")
    where = f"/v1/jobs/{job['job_id']}"
    for answer in (
        await desk.call("GET", where),
        await desk.call("PATCH", where, {"payload": payload | {"b": 1}}),
        await desk.call("PATCH", where, {"payload": payload | {"b": 2}}, key="root"),
    ):
        assert answer.status_code == 200, answer.text[:500]
        snap = await desk.store.engine.jobs.read(None, JobId(UUID(job["job_id"])))
        assert snap is not None
        assert snap.job.spec.secrets == SecretAccess("ada")
