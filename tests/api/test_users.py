"""Users over REST: listed and forgotten; what schedulers then do is in tests/services/test_forgetting.py."""

import pytest
from tests.api.conftest import Desk
from tests.test_docs import ROOT, table

from oncue.api.application import Application
from oncue.domain.instants import rfc3339
from oncue.engines.port import Role
from oncue.settings import Settings


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


async def test_an_administrator_lists_users_with_what_they_have(desk: Desk) -> None:
    settings = Settings(max_jobs_per_user=5, max_payload_bytes_per_user=1_000)
    desk.client._transport.app = Application(desk.store.engine, desk.store.clock, settings)  # type: ignore[attr-defined]
    await desk.create(schedule="every 1h", payload={"x": "y"})
    await desk.create(schedule="every 1h", key="root")

    first = await desk.get("/users?limit=2", key="root")
    second = await desk.get(f"/users?limit=2&page_token={first['next_page_token']}", key="root")

    ada, bob = first["users"]
    assert [field for field, _ in table(ROOT / "docs" / "api.md", "field of a user", "meaning")] == list(ada)
    assert ada == {
        "user_id": "ada",
        "number": desk.store.uid,
        "created_at": rfc3339(desk.store.now),
        "keys": 2,
        "open_jobs": 1,
        "more_jobs": False,
        "max_jobs": 5,
        "payload_bytes": 9,
        "max_payload_bytes": 1_000,
    }
    assert (bob["user_id"], bob["keys"], bob["open_jobs"], bob["payload_bytes"]) == ("bob", 1, 0, None)
    assert [(one["user_id"], one["open_jobs"]) for one in second["users"]] == [("root", 1)]
    assert second["next_page_token"] is None
    for key in ("ada", "viewer"):
        assert (await desk.call("GET", "/v1/users", key=key)).status_code == 403
