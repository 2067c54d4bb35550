"""Results and payloads by their own calls: ranges of bytes, downloads, and links to object storage."""

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.api.conftest import Desk

from oncue.domain.ids import RunId
from oncue.domain.instants import MINUTE, rfc3339
from oncue.domain.reference import read_reference
from oncue.intake.large_values import LargeValues
from oncue.settings import Settings
from oncue.storage.open import open_storage

WHOLE = b'{"a":"0123456789"}'
INLINE, LARGE = 256, 10  # the most that is kept in the database


@pytest.fixture(params=[INLINE, LARGE])
def cap(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
async def where(desk: Desk, tmp_path: Path, cap: int) -> str:
    """The path of a payload of these bytes, in the database or in a folder."""
    use(desk, Settings(data_dir=str(tmp_path)), cap)
    job = await desk.create(payload={"a": "0123456789"})
    assert bool(job["large"]) == (cap == LARGE)
    return f"/v1/runs/{job['job_id']}/payload"


def use(desk: Desk, settings: Settings, cap: int) -> None:
    api = desk.app.api
    api.storage = open_storage(settings, desk.store.clock)
    api.large = api.intake.large = LargeValues(desk.store.engine, api.storage, desk.store.clock, cap)


async def asked(desk: Desk, where: str, **headers: str) -> tuple[int, bytes, str | None]:
    answer = await desk.call("GET", where, headers=headers)
    return answer.status_code, answer.content, answer.headers.get("Content-Range")


@pytest.mark.parametrize(
    ("asked_for", "start", "end"),
    [("bytes=0-4", 0, 5), ("bytes=5-", 5, 18), ("bytes=-3", 15, 18), ("bytes=17-99", 17, 18), ("bytes=-99", 0, 18)],
)
async def test_a_range_of_bytes(desk: Desk, where: str, asked_for: str, start: int, end: int) -> None:
    assert await asked(desk, where, Range=asked_for) == (206, WHOLE[start:end], f"bytes {start}-{end - 1}/18")


@pytest.mark.parametrize("asked_for", ["bytes=18-", "bytes=18-20", "bytes=-0"])
async def test_a_range_after_the_end_is_refused(desk: Desk, where: str, asked_for: str) -> None:
    status, _, covered = await asked(desk, where, Range=asked_for)
    assert (status, covered) == (416, "bytes */18")


@pytest.mark.parametrize("asked_for", ["bytes=0-1,3-4", "lines=1-2", "bytes=4-2", "bytes=-", "bytes=x-1", "bytes=1 -2"])
async def test_what_is_not_one_range_of_bytes_is_ignored(desk: Desk, where: str, asked_for: str) -> None:
    assert await asked(desk, where, Range=asked_for) == (200, WHOLE, None)


async def test_a_range_on_condition_of_a_version_is_ignored(desk: Desk, where: str) -> None:
    assert await asked(desk, where, **{"Range": "bytes=0-4", "If-Range": '"any"'}) == (200, WHOLE, None)


async def test_a_value_is_a_download(desk: Desk, where: str) -> None:
    headers = (await desk.call("GET", where)).headers
    run_id = where.split("/")[3]
    assert headers["Content-Disposition"] == f'attachment; filename="payload-{run_id}.json"'
    assert (headers["Accept-Ranges"], headers["X-Content-Type-Options"]) == ("bytes", "nosniff")
    assert headers["Content-Type"] == "application/json"


async def test_there_is_no_link_to_the_database_or_into_a_folder(desk: Desk, where: str, cap: int) -> None:
    answer = await desk.call("GET", f"{where}?link=true")
    assert answer.status_code == 409
    assert ("in the database" if cap == INLINE else "cannot sign links") in answer.json()["detail"]
    assert (await desk.call("GET", f"{where}?link=false")).content == WHOLE
    assert (await desk.call("GET", f"{where}?link=perhaps")).status_code == 422


async def test_nobody_else_gets_a_link_or_a_range(desk: Desk, where: str) -> None:
    assert (await desk.call("GET", f"{where}?link=true", key="bob")).status_code == 404
    assert (await desk.call("GET", where, key="bob", headers={"Range": "bytes=0-1"})).status_code == 404


async def test_of_a_value_that_became_shorter_no_range_is_given(desk: Desk, tmp_path: Path) -> None:
    use(desk, Settings(data_dir=str(tmp_path)), LARGE)
    job = await desk.create(payload={"a": "0123456789"})
    [file] = [one for one in (tmp_path / "objects" / "v1").rglob("*") if one.is_file()]
    file.write_bytes(WHOLE[:5])
    status, _, _ = await asked(desk, f"/v1/runs/{job['job_id']}/payload", Range="bytes=0-9")
    assert status == 404


async def test_a_result_in_a_bucket_has_a_link(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Signing needs the keys, but not the bucket."""
    result = await large_result(desk, tmp_path)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "any")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "key")
    use(desk, Settings(storage="s3://bucket/below", storage_region="eu-central-1"), LARGE)

    answer = await desk.call("GET", f"/v1/runs/{result['run_id']}/result?link=true")

    told = answer.json()
    assert (answer.status_code, told["size"], told["sha256"]) == (200, len(WHOLE), result["sha256"])
    assert told["expires_at"] == rfc3339(desk.store.now + 5 * MINUTE)
    assert f"/below/{result['key']}?" in told["url"]
    assert "X-Amz-Expires=300" in told["url"]


async def large_result(desk: Desk, folder: Path) -> dict[str, Any]:
    use(desk, Settings(data_dir=str(folder)), LARGE)
    job = await desk.create(payload={"a": "0123456789"})
    worker = await desk.store.worker()
    run = await desk.store.claim_one(worker, RunId(UUID(job["job_id"])))
    kept = read_reference(run.payload)
    assert kept is not None
    await desk.store.succeed(worker, run, result=run.payload)  # any object will do
    return {"run_id": run.run_id, "key": kept.key, "sha256": kept.sha256}
