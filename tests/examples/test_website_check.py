"""The website check, against a website that is up, down, or up again."""

from typing import Any

import httpx2
from tests.examples.outside import Website, website
from tests.examples.server import definition, run_now, run_when


def check_of(site: Website) -> dict[str, Any]:
    job = definition("website_check")
    return job | {"payload": job["payload"] | {"url": site.address}, "retry": {"backoff": "50ms"}}


async def test_a_website_that_is_up_is_asked_once(client: httpx2.AsyncClient) -> None:
    async with website() as site:
        run_id = await run_now(client, check_of(site))
        run = await run_when(client, run_id, "succeeded")

    assert run["result"]["status"] == 200
    assert [request["oncue-run-id"] for request in site.requests] == [run_id]


async def test_a_short_outage_is_only_a_failed_attempt(client: httpx2.AsyncClient) -> None:
    async with website(503, 500) as site:
        run = await run_when(client, await run_now(client, check_of(site)), "succeeded")

    assert [one["error_type"] for one in run["attempts"]] == ["HttpStatus", "HttpStatus", None]


async def test_a_website_that_stays_down_is_a_dead_letter(client: httpx2.AsyncClient) -> None:
    async with website(500, 500, 500) as site:
        run = await run_when(client, await run_now(client, check_of(site)), "dead")

    assert f"GET {site.address} answered 500" in run["error_message"]
    assert (run["attempt_number"], len(site.requests)) == (3, 3)
