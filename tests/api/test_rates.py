"""A rate is read back as it was asked for."""

from typing import Any

import pytest
from tests.api.conftest import Desk


@pytest.mark.parametrize("rate", [{"limit": 2, "per": "1m"}, {"limit": 2, "per": "1m", "key": "cancel_requests"}, None])
async def test_a_rate_is_read_back_with_its_key_if_it_has_one(desk: Desk, rate: dict[str, Any] | None) -> None:
    job = await desk.create(rate=rate)

    assert job["rate"] == rate
    assert await desk.get(f"/jobs/{job['job_id']}") == job


async def test_a_job_with_a_rate_starts_when_it_was_granted_one(desk: Desk) -> None:
    jobs = {(await desk.create(rate={"limit": 1, "per": "1m", "key": "cancel_requests"}))["job_id"] for _ in range(2)}
    assert await desk.store.claimable() == []

    assert (await desk.store.permit()).runs == 1

    [run_id] = await desk.store.claimable()
    assert str(run_id) in jobs
