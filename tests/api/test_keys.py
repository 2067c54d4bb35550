"""Keys over REST: made, listed and revoked by administrators."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.api.conftest import Desk, add_key
from tests.test_docs import ROOT, table

from oncue.domain.instants import HOUR, SECOND, Duration, rfc3339
from oncue.domain.keys import key_hash
from oncue.engines.port import Role

API = ROOT / "docs" / "api.md"


async def key_id(desk: Desk, whose: str) -> str:
    key = await desk.store.accounts.key(key_hash(desk.keys[whose]))
    assert key is not None
    return str(key.key_id)


async def create(desk: Desk, user_id: str, role: str) -> Any:
    answer = await desk.call("POST", "/v1/keys", {"user_id": user_id, "role": role}, key="root")
    assert answer.status_code == 201, answer.text
    return answer.json()


@pytest.mark.parametrize("role", ["admin", "member", "viewer"])
async def test_a_key_that_was_made_works_with_its_role(desk: Desk, role: str) -> None:
    made = await create(desk, "eve", role)

    assert (made["user_id"], made["role"]) == ("eve", role)
    assert (await desk.call("GET", "/v1/tasks", key=made["key"])).status_code == 200
    expected = 403 if role == "viewer" else 201
    assert (await desk.call("POST", "/v1/jobs", {"task": "mark"}, key=made["key"])).status_code == expected
    assert (await desk.call("GET", "/v1/keys", key=made["key"])).status_code == (200 if role == "admin" else 403)


async def test_a_key_with_a_note_works_until_it_expires(desk: Desk) -> None:
    asked = {"user_id": "eve", "role": "member", "note": "CI – Größe 7", "expires_in": "1h"}

    made = (await desk.call("POST", "/v1/keys", asked, key="root")).json()

    assert (made["note"], made["expires_at"]) == (asked["note"], rfc3339(desk.store.at(HOUR)))
    assert (made["last_used_on"], made["revoked_at"]) == (None, None)
    shown = [key for key in (await desk.get("/keys", key="root"))["keys"] if key["key_id"] == made["key_id"]]
    assert shown == [{name: value for name, value in made.items() if name != "key"}]
    desk.store.advance(HOUR - 1)
    assert (await desk.call("GET", "/v1/me", key=made["key"])).status_code == 200
    desk.store.advance(1)
    assert (await desk.call("GET", "/v1/me", key=made["key"])).status_code == 401


async def test_a_second_key_of_a_user_sees_what_the_first_made(desk: Desk) -> None:
    job = await desk.create(schedule="every 1h")

    made = await create(desk, "ada", "member")

    assert (await desk.get(f"/jobs/{job['job_id']}", key=made["key"]))["user_id"] == "ada"


async def test_the_list_has_every_key_and_no_secret(desk: Desk) -> None:
    desk.store.advance(SECOND)
    made = await create(desk, "eve", "member")

    listed = await desk.call("GET", "/v1/keys", key="root")

    keys = listed.json()["keys"]
    assert [field for field, _ in table(API, "field of a key", "meaning")] == list(keys[0])
    assert sorted(key["user_id"] for key in keys) == ["ada", "ada", "bob", "eve", "root"]
    assert {name: value for name, value in made.items() if name != "key"} == keys[-1]
    stored = await desk.store.accounts.keys()
    for secret in (*desk.keys.values(), made["key"], *(key.key_hash.hex() for key in stored)):
        assert secret not in listed.text


async def test_a_revoked_key_is_refused_at_once_where_it_was_revoked(desk: Desk) -> None:
    bobs = await key_id(desk, "bob")
    assert (await desk.call("GET", "/v1/tasks", key="bob")).status_code == 200

    answer = await desk.call("DELETE", f"/v1/keys/{bobs}", key="root")

    assert (answer.status_code, answer.json()["key_id"]) == (200, bobs)
    assert answer.json()["revoked_at"] == rfc3339(desk.store.now)
    assert (await desk.call("GET", "/v1/tasks", key="bob")).status_code == 401
    assert (await desk.call("GET", "/v1/tasks")).status_code == 200


async def test_revoking_again_gives_the_same_answer(desk: Desk) -> None:
    path = f"/v1/keys/{await key_id(desk, 'bob')}"
    first = await desk.call("DELETE", path, key="root")
    desk.store.advance(HOUR)

    again = await desk.call("DELETE", path, key="root")

    assert (again.status_code, again.json()) == (200, first.json())
    assert first.json() in (await desk.get("/keys", key="root"))["keys"]


async def test_the_last_key_of_an_administrator_that_works_is_not_revoked(desk: Desk) -> None:
    store, roots = desk.store, await key_id(desk, "root")
    uid = await store.accounts.user("root", store.now)
    await add_key(store, uid, "root", Role.ADMIN, revoked_at=store.now)
    await add_key(store, uid, "root", Role.ADMIN, expires_at=store.now)

    refused = await desk.call("DELETE", f"/v1/keys/{roots}", key="root")

    assert (refused.status_code, "Create another admin key" in refused.json()["detail"]) == (409, True)
    assert await desk.get("/keys", key="root")
    other = await create(desk, "eve", "admin")
    assert (await desk.call("DELETE", f"/v1/keys/{roots}", key="root")).status_code == 200
    assert (await desk.call("DELETE", f"/v1/keys/{other['key_id']}", key=other["key"])).status_code == 409


@pytest.mark.parametrize("unknown", ["01990000-0000-7000-8000-000000000000", "no-id"])
async def test_a_key_that_there_is_not_is_404(desk: Desk, unknown: str) -> None:
    assert (await desk.call("DELETE", f"/v1/keys/{unknown}", key="root")).status_code == 404


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ({}, ["user_id", "role"]),
        ({"user_id": "eve"}, ["role"]),
        ({"user_id": "eve", "role": "owner"}, ["role"]),
        ({"user_id": "eve", "role": None}, ["role"]),
        ({"user_id": " ", "role": "admin"}, ["user_id"]),
        ({"user_id": "e\u202eve", "role": "admin"}, ["user_id"]),
        ({"user_id": "e" * 201, "role": "admin"}, ["user_id"]),
        ({"user_id": 7, "role": []}, ["user_id", "role"]),
        ({"user_id": "eve", "role": "admin", "expires": 1}, ["expires"]),
        ({"user_id": "eve", "role": "admin", "note": "a\nb", "expires_in": "soon"}, ["note", "expires_in"]),
        ({"user_id": "eve", "role": "admin", "note": "n" * 201, "expires_in": 7}, ["note", "expires_in"]),
        ({"user_id": "eve", "role": "admin", "expires_in": "0s"}, ["expires_in"]),
    ],
)
async def test_what_is_wrong_with_a_key_is_told_by_field_and_nothing_is_stored(
    desk: Desk, body: dict[str, Any], wrong: list[str]
) -> None:
    before = await desk.store.accounts.keys()

    answer = await desk.call("POST", "/v1/keys", body, key="root")

    assert (answer.status_code, [error["path"] for error in answer.json()["errors"]]) == (422, wrong)
    assert await desk.store.accounts.keys() == before


@pytest.mark.parametrize(
    ("who", "user_id", "role"), [("root", "root", "admin"), ("ada", "ada", "member"), ("viewer", "ada", "viewer")]
)
async def test_whoever_asks_is_told_whose_key_it_is(desk: Desk, who: str, user_id: str, role: str) -> None:
    assert await desk.get("/me", key=who) == {"user_id": user_id, "role": role, "key_id": await key_id(desk, who)}


async def test_of_administrators_who_revoke_each_other_one_is_left(desk: Desk) -> None:
    other, roots = await create(desk, "eve", "admin"), await key_id(desk, "root")

    answers = await asyncio.gather(
        desk.call("DELETE", f"/v1/keys/{roots}", key=other["key"]),
        desk.call("DELETE", f"/v1/keys/{other['key_id']}", key="root"),
    )

    done, refused = sorted(one.status_code for one in answers)
    assert (done, refused in (401, 409)) == (200, True)  # 401: the other was done before this one's key was looked at
    working = [key for key in await desk.store.accounts.keys() if key.role is Role.ADMIN and key.revoked_at is None]
    assert len(working) == 1


async def eventually(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0)


async def test_one_of_many_requests_looks_a_known_key_up_again_and_the_others_do_not_wait(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches a look-up for each request of that moment, and a key that is trusted for longer than half a second."""
    accounts, found, asked = desk.store.engine.accounts, asyncio.Event(), list[bytes]()
    look_up = accounts.key
    await desk.call("GET", "/v1/tasks")

    async def slowly(hashed: bytes) -> Any:
        asked.append(hashed)
        await found.wait()
        return await look_up(hashed)

    monkeypatch.setattr(accounts, "key", slowly)
    assert (await desk.call("GET", "/v1/tasks")).status_code == 200
    assert not asked
    await desk.store.clock.advance(Duration(SECOND // 4))
    renewing = asyncio.create_task(desk.call("GET", "/v1/tasks"))
    await eventually(lambda: len(asked) == 1)
    others = [await desk.call("GET", "/v1/tasks") for _ in range(3)]
    assert ([one.status_code for one in others], len(asked)) == ([200] * 3, 1)

    await desk.store.clock.advance(Duration(SECOND // 4))
    late = asyncio.create_task(desk.call("GET", "/v1/tasks"))
    await eventually(lambda: len(asked) == 2)
    found.set()
    assert [(await one).status_code for one in (renewing, late)] == [200, 200]
