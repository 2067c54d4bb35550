"""Object storage on a real S3 server: SeaweedFS. S3-compatible, which is not the same as tried on Amazon's."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from tests.processes.fleet import Fleet, until
from tests.storage.promises import exercise
from tests.storage.seaweed import ENVIRONMENT, Seaweed, seaweed, settings_for

from oncue.clock import SystemClock
from oncue.domain.errors import StorageRefused, StorageUnavailable
from oncue.domain.instants import MINUTE, Duration
from oncue.domain.reference import Reference
from oncue.storage.open import open_storage

TASKS = Path(__file__).parent.parent / "storage" / "large_tasks.py"

pytestmark = pytest.mark.ops
shared = pytest.mark.xdist_group("seaweed")  # those that use the same server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seaweed]:
    with seaweed(tmp_path_factory.mktemp("seaweed")) as running:
        yield running


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@shared
async def test_s3_keeps_the_promises(server: Seaweed) -> None:
    await exercise(open_storage(settings_for(server), SystemClock()))


@shared
async def test_a_link_is_read_without_a_key_and_only_that_object(server: Seaweed) -> None:
    storage, content = open_storage(settings_for(server), SystemClock()), b"0123456789"
    key = f"v1/result/1/2026-11-17/{secrets.token_hex(16)}"
    await storage.put(key, content)

    url = await storage.link(Reference.to(key, content), Duration(MINUTE))

    assert url is not None
    async with httpx2.AsyncClient() as client:
        assert (await client.get(url)).content == content
        assert (await client.get(url.replace("/result/", "/payload/"))).status_code == 403


@shared
async def test_a_list_has_more_pages_than_one(server: Seaweed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oncue.storage.objects.PAGE", 3)
    storage = open_storage(settings_for(server), SystemClock())
    keys = {f"v1/log/9/2026-11-17/{secrets.token_hex(16)}" for _ in range(10)}
    for key in keys:
        await storage.put(key, b"1")

    pages = [page async for page in storage.listed("v1/log")]

    assert [len(page) for page in pages] == [3, 3, 3, 1]
    assert {one.key for page in pages for one in page} == keys


@shared
async def test_a_wrong_key_is_refused_at_once(server: Seaweed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    with pytest.raises(StorageRefused):
        await open_storage(settings_for(server), SystemClock()).put("v1/payload/1/2026-11-17/aa", b"1")


async def test_a_server_that_is_stopped_is_unavailable_and_then_back(tmp_path: Path) -> None:
    with seaweed(tmp_path / "weed") as server:
        storage = open_storage(settings_for(server), SystemClock())
        await storage.put("v1/payload/1/2026-11-17/aa", b"1")
        server.stop()
        with pytest.raises(StorageUnavailable):
            await storage.put("v1/payload/1/2026-11-17/bb", b"1")
        server.start()
        await storage.put("v1/payload/1/2026-11-17/bb", b"1")


@pytest.fixture
def s3_fleet(tmp_path: Path) -> Iterator[tuple[Fleet, Seaweed]]:
    """`oncue up` with a server of its own, which may be stopped."""
    fleet = Fleet(tmp_path)
    with seaweed(tmp_path / "weed") as server:
        where = [
            f"--{name.replace('_', '-')}={value}" for name, value in server.settings().items() if value is not True
        ]
        options = (*where, "--storage-path-style", "--storage-patience", "5s", "--lease", "2s")
        try:
            fleet.start("up", *options, tasks=TASKS, env=server.environment)
            fleet.ready(workers=1)
            yield fleet, server
        finally:
            fleet.close()


def test_five_megabytes_go_in_and_twenty_come_out_by_s3(s3_fleet: tuple[Fleet, Seaweed]) -> None:
    fleet, _ = s3_fleet
    text = "p" * 5_000_000
    run_id = fleet.create("large", {"text": text, "size": 20_000_000})
    assert fleet.at_rest([run_id])[run_id]["status"] == "succeeded"
    result = fleet.call("GET", f"/runs/{run_id}/result")
    assert (result["length"], result["text"]) == (len(text), "r" * 20_000_000)
    assert fleet.call("GET", f"/jobs/{run_id}")["payload"]["text"] == text


@pytest.mark.first
def test_while_the_server_is_stopped_small_work_goes_on_and_no_result_is_lost(
    s3_fleet: tuple[Fleet, Seaweed],
) -> None:
    fleet, server = s3_fleet
    before = fleet.create("large", {"text": "p" * 1_000_000})
    assert fleet.at_rest([before])[before]["status"] == "succeeded"
    server.stop()
    runs = [fleet.create("large", {"size": 1_000_000}) for _ in range(10)]
    small = [fleet.create("large") for _ in range(10)]

    status, _, headers = fleet.raw("POST", "/v1/jobs", {"task": "large", "payload": {"text": "p" * 1_000_000}})
    assert (status, headers["Retry-After"]) == (503, "10")
    assert {run["status"] for run in fleet.at_rest(small).values()} == {"succeeded"}
    ended = fleet.at_rest(runs).values()
    assert [(run["status"], run["degraded"], run["attempt_number"]) for run in ended] == [
        ("succeeded", ["result"], 1)
    ] * 10
    server.start()
    until(lambda: not any(fleet.run(run_id)["degraded"] for run_id in runs), "results are attached", fleet.tell, 90)
    assert {len(fleet.call("GET", f"/runs/{run_id}/result")["text"]) for run_id in runs} == {1_000_000}
