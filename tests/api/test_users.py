"""Forgetting a user over REST; what schedulers then do is in tests/services/test_forgetting.py."""

import pytest
from tests.api.conftest import Desk

from oncue.engines.port import Role


async def test_an_administrator_has_a_user_forgotten(desk: Desk) -> None:
    answer = await desk.call("DELETE", "/v1/users/ada?purge=true", key="root")

    assert answer.status_code == 202, answer.text
    assert answer.json() == {"user_id": "ada", "number": desk.store.uid}
    [forgotten] = await desk.store.forgetting.pending()
    assert (forgotten.uid, forgotten.user_id) == (desk.store.uid, "ada")
    await desk.store.clock.advance(1_000_000)
    assert (await desk.call("GET", "/v1/jobs", key="ada")).status_code == 401
    assert (await desk.call("DELETE", "/v1/users/ada?purge=true", key="root")).status_code == 202  # a repeat
    entry = (await desk.store.audit.entries()).items[0]
    assert entry.action == "user.forget"


@pytest.mark.parametrize(
    ("path", "key", "status"),
    [
        ("/v1/users/ada", "root", 422),
        ("/v1/users/ada?purge=false", "root", 422),
        ("/v1/users/nobody?purge=true", "root", 404),
        ("/v1/users/root?purge=true", "root", 409),
        ("/v1/users/bob?purge=true", "ada", 403),
    ],
)
async def test_what_is_refused_changes_nothing(desk: Desk, path: str, key: str, status: int) -> None:
    answer = await desk.call("DELETE", path, key=key)

    assert answer.status_code == status, answer.text
    assert await desk.store.forgetting.pending() == []
    assert Role.ADMIN in {one.role for one in await desk.store.accounts.keys() if one.revoked_at is None}
