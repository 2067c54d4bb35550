"""The job definitions of the examples, as they are in their files."""

from datetime import datetime
from zoneinfo import ZoneInfo

import httpx2
import pytest
from tests.examples.server import EXAMPLES, ask, create, definition

DEFINITIONS = sorted(file.stem for file in EXAMPLES.glob("*.json"))
LOCAL_TIMES = {"email_digest": "07:00", "nightly_cleanup": "03:00", "sales_report": "06:00"}


def test_there_are_four_of_them() -> None:
    assert DEFINITIONS == ["email_digest", "nightly_cleanup", "sales_report", "website_check"]


@pytest.mark.parametrize("name", DEFINITIONS)
async def test_a_definition_is_accepted_and_can_be_cancelled(client: httpx2.AsyncClient, name: str) -> None:
    job = await create(client, definition(name))

    assert (job["status"], job["name"]) == ("active", definition(name)["name"])
    assert job["next_run_at"] > job["created_at"]
    gone = await ask(client, "DELETE", f"/jobs/{job['job_id']}", 200)
    assert (gone["status"], gone["next_run_at"]) == ("cancelled", None)


@pytest.mark.parametrize(("name", "local"), LOCAL_TIMES.items())
async def test_a_definition_fires_at_its_local_time(client: httpx2.AsyncClient, name: str, local: str) -> None:
    job = await create(client, definition(name))
    await ask(client, "DELETE", f"/jobs/{job['job_id']}", 200)

    there = datetime.fromisoformat(job["next_run_at"]).astimezone(ZoneInfo("Europe/Berlin"))
    assert f"{there:%H:%M}" == local


async def test_a_payload_that_does_not_fit_is_refused_with_its_field(client: httpx2.AsyncClient) -> None:
    job = definition("email_digest")
    del job["payload"]["sender"]

    refused = await ask(client, "POST", "/jobs", 422, json=job)

    assert [(one["path"], one["code"]) for one in refused["errors"]] == [("payload.sender", "required")]
