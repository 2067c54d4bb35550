"""The web shop: its handlers enqueue what a worker runs."""

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from examples.fastapi_shop import app, send_receipt, tasks

import oncue


@pytest.fixture
async def browser(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[httpx2.AsyncClient]:
    """Of a shop with an oncue of its own."""
    async with oncue.embedded(tasks) as client:
        monkeypatch.setenv("ONCUE_URL", client.url)
        monkeypatch.setenv("ONCUE_API_KEY", client._http.headers["Authorization"].removeprefix("Bearer "))
        async with (
            app.router.lifespan_context(app) as state,
            httpx2.AsyncClient(transport=httpx2.ASGITransport(with_state(state)), base_url="http://shop") as browser,
        ):
            yield browser


def with_state(state: Any) -> Any:
    """The shop as a web server calls it: with what its lifespan has yielded."""

    async def call(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "state": dict(state)}, receive, send)

    return call


async def test_a_receipt_is_enqueued_once_and_sent_by_a_worker(browser: httpx2.AsyncClient) -> None:
    first, again = [await browser.post("/orders/7/receipt", params={"to": "you@example.org"}) for _ in range(2)]
    assert (first.status_code, first.json()) == (202, again.json())

    client = await tasks.clients.for_async(None)
    await client.runs.wait(first.json()["run"], timeout=60)
    answer = await browser.get(f"/receipts/{first.json()['run']}")

    assert answer.json() == {"status": "succeeded", "result": "receipt for order 7 sent to you@example.org"}
    assert len([run async for run in client.runs.list(task=send_receipt.name)]) == 1
    assert (await browser.get("/receipts/01a1ec94-d625-7791-b549-7d4e80e220e7")).status_code == 404
