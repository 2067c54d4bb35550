"""When the store is away, when something breaks, and what is not there at all."""

import asyncio

import httpx2
import pytest
from tests.api.conftest import Desk

from oncue.domain.errors import StoreUnavailable
from oncue.logs.lines import as_text, explained, scrubbed
from oncue.testing.logs import capture_logs


async def away(*_: object, **__: object) -> None:
    raise StoreUnavailable("connection to 10.0.0.5 refused")


async def broken(*_: object, **__: object) -> None:
    raise ZeroDivisionError("secret of the house")


def is_problem(answer: httpx2.Response, status: int) -> bool:
    body = answer.json()
    return (
        answer.status_code == status == body["status"]
        and answer.headers["Content-Type"] == "application/problem+json"
        and answer.headers["Cache-Control"] == "no-store"
        and {"type", "title", "status", "detail", "errors"} <= set(body)
    )


async def test_a_store_that_is_away_is_503_with_a_time_to_come_back(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk.store.engine.jobs, "create", away)

    answer = await desk.call("POST", "/v1/jobs", {"task": "mark"})

    assert is_problem(answer, 503)
    assert answer.headers["Retry-After"] == "1"
    assert "10.0.0.5" not in answer.text


async def test_also_when_it_cannot_tell_who_asks(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk.store.engine.accounts, "key", away)

    assert is_problem(await desk.call("GET", "/v1/tasks"), 503)


async def test_what_nobody_expected_is_logged_and_not_told(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk.store.engine.fleet, "workers", broken)

    with capture_logs() as logged:
        answer = await desk.call("GET", "/v1/workers")

    assert is_problem(answer, 500)
    assert "secret of the house" not in answer.text
    assert [(line["log_level"], line["path"]) for line in logged] == [("error", "/v1/workers")]
    assert isinstance(logged[0]["exc_info"], ZeroDivisionError)


async def test_no_key_gets_into_the_log_however_it_is_printed(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk.store.engine.accounts, "key", broken)

    with capture_logs() as logged:
        assert is_problem(await desk.call("GET", "/v1/workers"), 500)

    printed = "".join(as_text(scrubbed(explained(line, errors=True)), colours=False) for line in logged)
    assert "ZeroDivisionError" in printed
    assert desk.keys["ada"] not in "".join(printed.split())


async def test_healthy_and_ready_are_open(desk: Desk) -> None:
    assert (await desk.client.get("/healthz")).status_code == 200
    assert (await desk.client.get("/readyz")).status_code == 200


async def test_without_its_store_it_lives_and_is_not_ready(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk.store.engine, "probe", away)

    assert (await desk.client.get("/healthz")).status_code == 200
    assert is_problem(await desk.client.get("/readyz"), 503)


async def test_before_what_is_awaited_has_happened_it_is_not_ready(desk: Desk) -> None:
    awaited = desk.app.api.awaited = asyncio.Event()

    early = await desk.client.get("/readyz")
    awaited.set()

    assert is_problem(early, 503)
    assert early.headers["Retry-After"] == "1"
    assert (await desk.client.get("/readyz")).status_code == 200


@pytest.mark.parametrize("path", ["/nowhere", "/v1", "/v1/", "/v1/job", "/v1/jobs/", "/v1/tasks/x", "/healthz/"])
async def test_an_unknown_path_is_404(desk: Desk, path: str) -> None:
    assert is_problem(await desk.call("GET", path), 404)


@pytest.mark.parametrize("method", ["POST", "TRACE", "BREW"])
async def test_another_method_is_405_and_the_right_ones_are_named(desk: Desk, method: str) -> None:
    answer = await desk.call(method, "/v1/jobs/00000000-0000-7000-8000-000000000000")

    assert is_problem(answer, 405)
    assert set(answer.headers["Allow"].split(", ")) == {"DELETE", "GET", "HEAD", "PATCH", "PUT"}
