"""Large answers come compressed to whoever takes that, and everything else as it is."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from tests.api.conftest import Desk
from tests.api.listening import House, listening

from oncue.api.http import encodings
from oncue.client import Client
from oncue_conformance.store import EmptyStore

MANY = 60  # jobs, whose list is beyond the least size
BROWSER = "gzip, deflate, br, zstd"


async def sent(desk: Desk, path: str, accepts: str, method: str = "GET") -> tuple[bytes, httpx2.Headers]:
    """The bytes of an answer as they are sent."""
    headers = {"Authorization": f"Bearer {desk.keys['ada']}", "Accept-Encoding": accepts}
    async with desk.client.stream(method, path, headers=headers) as answer:
        return b"".join([part async for part in answer.aiter_raw()]), answer.headers


async def many(desk: Desk) -> httpx2.Response:
    jobs = [{"task": "mark", "schedule": "every 1h", "name": f"job {n}"} for n in range(MANY)]
    made = await desk.call("POST", "/v1/jobs/batch", {"jobs": jobs}, headers={"Accept-Encoding": BROWSER})
    assert made.status_code == 201
    return made


@pytest.mark.parametrize("accepts", [BROWSER, "gzip;q=0.5", "br, GZIP"])
async def test_a_large_answer_is_compressed(desk: Desk, accepts: str) -> None:
    await many(desk)
    plain, _ = await sent(desk, "/v1/jobs?limit=60", "identity")

    body, headers = await sent(desk, "/v1/jobs?limit=60", accepts)

    assert gzip.decompress(body) == plain
    assert len(body) < len(plain) / 4
    assert (headers["Content-Encoding"], headers["Vary"]) == ("gzip", "Accept-Encoding")
    assert headers["Content-Length"] == str(len(body))


@pytest.mark.parametrize("accepts", ["identity", "", "br", "gzip;q=0", "gzip; q=0.000, br"])
async def test_who_does_not_take_it_gets_it_as_it_is(desk: Desk, accepts: str) -> None:
    await many(desk)

    body, headers = await sent(desk, "/v1/jobs?limit=60", accepts)

    assert body.startswith(b'{"jobs":[')
    assert (headers.get("Content-Encoding"), headers["Vary"]) == (None, "Accept-Encoding")
    assert headers["Content-Length"] == str(len(body))


async def test_the_head_of_an_answer_is_that_of_the_answer(desk: Desk) -> None:
    await many(desk)

    _, of_answer = await sent(desk, "/v1/jobs?limit=60", BROWSER)
    _, of_head = await sent(desk, "/v1/jobs?limit=60", BROWSER, "HEAD")

    assert of_head == of_answer


async def test_small_answers_and_those_to_changes_stay_as_they_are(desk: Desk) -> None:
    made = await many(desk)

    _, small = await sent(desk, "/v1/me", BROWSER)
    _, short = await sent(desk, "/v1/jobs?limit=2", BROWSER)

    for headers in (made.headers, small, short):
        assert "Content-Encoding" not in headers
        assert "Vary" not in headers


async def test_what_has_a_version_or_ranges_stays_as_it_is(desk: Desk) -> None:
    job = await desk.create(schedule="every 1h", payload={"text": "x" * 20_000})
    worker = await desk.store.worker()
    once = await desk.create()
    [run] = await desk.store.claim_due(worker)
    await desk.store.succeed(worker, run, result=b'"' + b"y" * 20_000 + b'"')

    definition, of_job = await sent(desk, f"/v1/jobs/{job['job_id']}", BROWSER)
    result, of_result = await sent(desk, f"/v1/runs/{once['job_id']}/result", BROWSER)

    assert len(definition) > 20_000
    assert len(result) == 20_002
    assert "Content-Encoding" not in of_job
    assert "Content-Encoding" not in of_result
    changed = await desk.call("POST", f"/v1/jobs/{job['job_id']}/pause", headers={"If-Match": of_job["ETag"]})
    assert changed.status_code == 200


async def test_much_is_compressed_in_a_thread(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    await many(desk)
    lengths = list[int]()

    async def to_thread(work: Any, body: bytes, *how: Any) -> Any:
        lengths.append(len(body))
        return work(body, *how)

    monkeypatch.setattr(encodings.asyncio, "to_thread", to_thread)
    await sent(desk, "/v1/jobs?limit=60", BROWSER)
    monkeypatch.setattr(encodings, "AT_ONCE", 10_000)
    body, _ = await sent(desk, "/v1/jobs?limit=60", BROWSER)

    assert lengths == [len(gzip.decompress(body))]


# -------------------------------------------------------------------------------------------------------- over a socket


@pytest.fixture
def house(empty_sqlite: EmptyStore) -> Iterator[House]:
    with listening(empty_sqlite) as house:
        yield house


def test_over_a_socket_compressed_answers_have_their_end(house: House) -> None:
    with httpx2.Client(base_url=house.address, headers={"Authorization": f"Bearer {house.keys['ada']}"}) as client:
        for accepts in (BROWSER, "identity", BROWSER):
            answer = client.get("/openapi.json", headers={"Accept-Encoding": accepts})
            assert answer.headers["Content-Length"] == str(answer.num_bytes_downloaded)
            assert (accepts == BROWSER) == ("Content-Encoding" in answer.headers)
            assert answer.json()["openapi"]


def test_our_own_client_reads_them(house: House) -> None:
    with Client(house.address, house.keys["ada"]) as client:
        client.jobs.create_many([{"task": "mark", "schedule": "every 1h", "name": f"job {n}"} for n in range(MANY)])

        names = {job.name for job in client.jobs.list(limit=MANY)}

    assert {f"job {n}" for n in range(MANY)} <= names
