"""Browsers that sign in: what a session may, when it ends, and what other sites cannot do with it."""

import asyncio
from typing import Any

import httpx2
import pytest
from tests.api.conftest import Desk, add_key
from tests.api.streams import streaming
from tests.test_docs import ROOT, table

from oncue.api.application import Application
from oncue.api.sessions import MOST_SESSIONS
from oncue.api.shared.last_uses import COLLECTED_FOR, EXTENDED_EVERY
from oncue.domain.errors import StoreUnavailable
from oncue.domain.instants import DAY, HOUR, MINUTE, SECOND, date_of, day_of, rfc3339
from oncue.domain.keys import SESSION, key_hash, make_key
from oncue.engines.port import Role
from oncue.settings import Settings
from oncue.testing.logs import capture_logs

API = ROOT / "docs" / "api.md"
OWN = {"Sec-Fetch-Site": "same-origin"}
JSON = {"Content-Type": "application/json"}


class Browser:
    """Sends the cookie that it was given, and what a page of the server itself sends."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.cookie = ""
        self.said = ""

    async def sign_in(self, who: str, headers: dict[str, str] = OWN) -> httpx2.Response:
        body = {"key": self.desk.keys.get(who, who)}
        answer = await self.desk.client.post("/v1/session", json=body, headers=headers)
        self.desk.client.cookies.clear()
        if answer.status_code == 201:
            self.said = answer.headers["Set-Cookie"]
            self.cookie = self.said.partition(";")[0]
        return answer

    async def ask(self, method: str, path: str, body: Any = None, **headers: str | None) -> httpx2.Response:
        """Headers are named with underscores; None: not sent."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        sent: dict[str, str | None] = {"Cookie": self.cookie, **OWN} | (JSON if body is not None else {}) | named
        given = {name: value for name, value in sent.items() if value is not None}
        answer = await self.desk.client.request(method, f"/v1{path}", json=body, headers=given)
        self.desk.client.cookies.clear()
        return answer


@pytest.fixture
async def browser(desk: Desk) -> Browser:
    found = Browser(desk)
    assert (await found.sign_in("ada")).status_code == 201
    return found


async def serve(desk: Desk, **settings: Any) -> None:
    app = Application(desk.store.engine, desk.store.clock, Settings(**settings))
    desk.client._transport.app = app  # type: ignore[attr-defined]  # httpx2 has no other way


async def test_a_browser_signs_in_acts_and_signs_out(desk: Desk) -> None:
    browser, now = Browser(desk), rfc3339(desk.store.now)

    signed_in = await browser.sign_in("ada")

    me = await desk.get("/me")
    assert signed_in.json() == {**me, "created_at": now, "expires_at": rfc3339(desk.store.at(12 * HOUR))}
    assert [field for field, _ in table(API, "field of a session", "meaning")] == list(signed_in.json())
    assert browser.said.partition("=")[0] == "oncue_session"
    assert browser.said.split("; ")[1:] == ["Path=/", "Max-Age=604800", "HttpOnly", "SameSite=Strict"]
    assert (await browser.ask("GET", "/session")).json() == signed_in.json()
    job = (await browser.ask("POST", "/jobs", {"task": "mark", "schedule": "every 1h"})).json()
    assert job["user_id"] == "ada"

    signed_out = await browser.ask("DELETE", "/session")

    assert (signed_out.status_code, signed_out.json()["expires_at"]) == (200, now)
    assert signed_out.headers["Set-Cookie"].startswith("oncue_session=; Path=/; Max-Age=0;")
    assert (await browser.ask("GET", "/session")).status_code == 401
    entries = (await desk.get("/audit"))["audit"]
    assert [one["action"] for one in entries] == ["session.delete", "job.create", "session.create"]
    assert {one["key_id"] for one in entries} == {me["key_id"]}


async def test_a_session_has_the_role_of_its_key_and_a_viewer_may_sign_in_and_out(desk: Desk) -> None:
    browser = Browser(desk)

    assert (await browser.sign_in("viewer")).json()["role"] == "viewer"
    assert (await browser.ask("GET", "/jobs")).status_code == 200
    assert (await browser.ask("POST", "/jobs", {"task": "mark"})).status_code == 403
    assert (await browser.ask("GET", "/keys")).status_code == 403
    assert (await browser.ask("DELETE", "/session")).status_code == 200
    assert (await browser.sign_in("root")).json()["role"] == "admin"
    assert (await browser.ask("GET", "/keys")).status_code == 200


async def test_a_request_with_a_key_has_no_session_to_end(desk: Desk) -> None:
    shown = await desk.get("/session", "root")

    assert (shown["user_id"], shown["created_at"], shown["expires_at"]) == ("root", None, None)
    assert (await desk.call("DELETE", "/v1/session", key="root")).status_code == 409


@pytest.mark.parametrize(
    ("body", "status", "wrong"),
    [
        (b"{}", 422, ["key"]),
        (b'{"key": 7}', 422, ["key"]),
        (b'{"key": "\\u0000"}', 422, ["key"]),
        (b'{"key": "' + b"x" * 201 + b'"}', 422, ["key"]),
        (b'{"key": "oc_x", "role": "admin"}', 422, ["role"]),
        (b'{"key": "oc_x"}', 401, []),
        (b'{"key": "' + make_key(bytes(32)).encode() + b'"}', 401, []),
        (b'{"key": "' + make_key(bytes(32), SESSION).encode() + b'"}', 401, []),
        (b"[]", 422, [""]),
        (b"{", 400, []),
        (b" " * 20_000, 413, []),
    ],
)
async def test_a_bad_sign_in_is_refused_and_sets_no_cookie(
    desk: Desk, body: bytes, status: int, wrong: list[str]
) -> None:
    with capture_logs() as lines:
        answer = await desk.client.post("/v1/session", content=body, headers={**JSON, **OWN})

    assert (answer.status_code, "Set-Cookie" in answer.headers) == (status, False), answer.text
    assert [one["path"] for one in answer.json()["errors"]] == wrong
    assert desk.app.api.failed_keys.count == (status == 401)
    assert [one["kind"] for one in lines] == ["key_refused"] * (status == 401)
    assert "oc_" not in answer.text


async def test_a_refused_sign_in_is_told_by_the_beginning_of_its_own_key(desk: Desk) -> None:
    wrong, header = make_key(bytes(32)), {"Authorization": f"Bearer {desk.keys['ada']}"}
    with capture_logs() as lines:
        answer = await desk.client.post("/v1/session", json={"key": wrong}, headers={**OWN, **header})

    assert answer.status_code == 401
    assert [one["key_begins"] for one in lines] == [wrong[:7]]
    assert wrong[:10] not in str(lines)


async def test_a_key_that_was_revoked_or_has_expired_does_not_sign_in(desk: Desk) -> None:
    browser, store = Browser(desk), desk.store

    for how in ({"revoked_at": store.now}, {"expires_at": store.now}):
        key = await add_key(store, store.uid, "ada", Role.ADMIN, **how)
        assert (await browser.sign_in(key)).status_code == 401, how


# ------------------------------------------------------------------------------------------------------------ its end


async def test_a_session_ends_within_a_second_after_its_key_was_revoked(browser: Browser) -> None:
    desk = browser.desk
    assert (await browser.ask("GET", "/me")).status_code == 200
    key = await desk.store.accounts.key(key_hash(desk.keys["ada"]))
    assert key is not None
    await desk.store.accounts.revoke(key.key_id, desk.store.now)  # by another process

    await desk.store.clock.advance(SECOND)

    assert (await browser.ask("GET", "/me")).status_code == 401


async def test_a_session_ends_at_once_where_its_key_was_revoked(browser: Browser) -> None:
    key_id = (await browser.ask("GET", "/session")).json()["key_id"]

    assert (await browser.desk.call("DELETE", f"/v1/keys/{key_id}", key="root")).status_code == 200

    assert (await browser.ask("GET", "/me")).status_code == 401


async def test_a_session_ends_with_a_key_that_expires(desk: Desk) -> None:
    browser, store = Browser(desk), desk.store
    key = await add_key(store, store.uid, "ada", Role.MEMBER, expires_at=store.at(MINUTE))

    assert (await browser.sign_in(key)).json()["expires_at"] == rfc3339(store.at(MINUTE))

    store.advance(MINUTE - 1)
    assert (await browser.ask("GET", "/me")).status_code == 200
    store.advance(1)
    assert (await browser.ask("GET", "/me")).status_code == 401


@pytest.mark.parametrize("how", ["signed out", "key revoked", "idle"])
async def test_an_open_event_stream_ends_with_its_session(browser: Browser, how: str) -> None:
    store = browser.desk.store
    async with streaming(browser.desk, cookie=browser.cookie) as stream:
        if how == "signed out":
            assert (await browser.ask("DELETE", "/session")).status_code == 200
        elif how == "key revoked":
            [key] = [one for one in await store.accounts.keys() if one.key_hash == key_hash(browser.desk.keys["ada"])]
            await store.accounts.revoke(key.key_id, store.now)
            await store.clock.advance(SECOND // 2)
        else:
            await store.clock.advance(12 * HOUR)  # an open stream is no use of a session
        await stream.end()


async def test_a_session_that_is_used_lasts_and_one_that_is_idle_ends(browser: Browser) -> None:
    store = browser.desk.store
    for _ in range(3):
        store.advance(12 * HOUR - EXTENDED_EVERY)
        assert (await browser.ask("GET", "/me")).status_code == 200
        await written(browser.desk)

    store.advance(12 * HOUR)

    assert (await browser.ask("GET", "/me")).status_code == 401


async def test_a_session_ends_after_its_lifetime_however_much_it_is_used(desk: Desk) -> None:
    await serve(desk, session_idle=HOUR, session_lifetime=2 * HOUR)
    browser = Browser(desk)
    signed_in = await browser.sign_in("ada")
    assert signed_in.json()["expires_at"] == rfc3339(desk.store.at(HOUR))
    end = desk.store.at(2 * HOUR)
    while desk.store.now < end - 30 * MINUTE:
        await desk.store.clock.advance(30 * MINUTE)
        assert (await browser.ask("GET", "/me")).status_code == 200
        await written(desk)
    assert (await browser.ask("GET", "/session")).json()["expires_at"] == rfc3339(end)

    desk.store.advance(end - desk.store.now)

    assert (await browser.ask("GET", "/me")).status_code == 401


async def written(desk: Desk) -> None:
    """Let time pass until what was noted in the background is written."""
    app: Application = desk.client._transport.app  # type: ignore[attr-defined]
    uses = app.api.last_uses
    while uses._timer is not None or (uses._writing is not None and not uses._writing.done()):
        await desk.store.clock.advance(COLLECTED_FOR)
        if uses._writing is not None:
            await asyncio.wait_for(uses._writing, 10)


async def test_a_key_has_a_bounded_number_of_sessions_and_the_oldest_end(browser: Browser) -> None:
    desk = browser.desk
    first, second = browser.cookie, Browser(desk)
    for _ in range(MOST_SESSIONS):
        desk.store.advance(1)
        await second.sign_in("ada")
    await desk.store.clock.advance(SECOND)

    assert (await second.ask("GET", "/me")).status_code == 200
    assert (await browser.ask("GET", "/me")).status_code == 401, first


# --------------------------------------------------------------------------------------------------------- the last use


async def test_the_day_of_the_last_use_is_written_once_a_day_and_not_by_the_request(desk: Desk) -> None:
    written_days: list[dict[Any, int]] = []
    used = desk.store.sessions.used

    async def counted(keys: Any, sessions: Any) -> None:
        written_days.append(dict(keys))
        await used(keys, sessions)

    desk.app.api.last_uses._sessions = type("Counted", (), {"used": staticmethod(counted)})()  # type: ignore[assignment]
    for key in ("ada", "bob", "ada"):
        await desk.get("/me", key)
    assert written_days == []

    await written(desk)
    await desk.get("/me")
    await desk.store.clock.advance(COLLECTED_FOR)

    today = day_of(desk.store.now)
    assert [sorted(one.values()) for one in written_days] == [[today, today]], "both keys at once, and no second time"
    shown = {one["user_id"]: one["last_used_on"] for one in (await desk.get("/keys", "root"))["keys"]}
    assert (shown["bob"], shown["root"]) == (date_of(today), None)
    await desk.store.clock.advance(DAY)
    await desk.get("/me", "bob")
    await written(desk)
    assert written_days[-1].popitem()[1] == today + 1


async def test_a_last_use_that_could_not_be_written_is_written_by_the_next_use(desk: Desk) -> None:
    used, tried = desk.store.sessions.used, 0

    async def fails(keys: Any, sessions: Any) -> None:
        nonlocal tried
        tried += 1
        if tried == 1:
            raise StoreUnavailable("away")
        await used(keys, sessions)

    desk.app.api.last_uses._sessions = type("Failing", (), {"used": staticmethod(fails)})()  # type: ignore[assignment]
    for _ in range(2):
        assert (await desk.call("GET", "/v1/me")).status_code == 200
        await written(desk)

    assert tried == 2
    assert any(one["last_used_on"] for one in (await desk.get("/keys", "root"))["keys"])


# ---------------------------------------------------------------------------------------------------------- other sites


@pytest.mark.parametrize(
    ("headers", "allowed"),
    [
        ({}, True),
        ({"Sec_Fetch_Site": "cross-site"}, False),
        ({"Sec_Fetch_Site": "same-site"}, False),
        ({"Sec_Fetch_Site": "none"}, False),
        ({"Sec_Fetch_Site": "cross-site", "Origin": "http://oncue"}, False),
        ({"Sec_Fetch_Site": None}, False),
        ({"Sec_Fetch_Site": None, "Origin": "null"}, False),
        ({"Sec_Fetch_Site": None, "Origin": ""}, False),
        ({"Sec_Fetch_Site": None, "Origin": "http://evil.example"}, False),
        ({"Sec_Fetch_Site": None, "Origin": "http://oncue.evil.example"}, False),
        ({"Sec_Fetch_Site": None, "Origin": "http://oncue:81"}, False),
        ({"Sec_Fetch_Site": None, "Origin": "http://oncue@evil.example"}, False),
        ({"Sec_Fetch_Site": None, "Origin": "http://["}, False),
        ({"Sec_Fetch_Site": None, "Origin": "http://oncue"}, True),
        ({"Sec_Fetch_Site": None, "Origin": "HTTP://ONCUE"}, True),
    ],
)
async def test_another_site_changes_nothing_with_the_cookie(
    browser: Browser, headers: dict[str, str | None], allowed: bool
) -> None:
    job = await browser.desk.create(schedule="every 1h")

    paused = await browser.ask("POST", f"/jobs/{job['job_id']}/pause", **headers)
    ended = await browser.ask("DELETE", f"/jobs/{job['job_id']}", **headers)

    assert [paused.status_code, ended.status_code] == [200 if allowed else 403] * 2, paused.text
    status = (await browser.desk.get(f"/jobs/{job['job_id']}"))["status"]
    assert status == ("cancelled" if allowed else "active")


@pytest.mark.parametrize(
    ("site", "status"), [("same-origin", 200), ("none", 200), (None, 200), ("same-site", 403), ("cross-site", 403)]
)
async def test_another_site_cannot_even_read_with_the_cookie(desk: Desk, site: str | None, status: int) -> None:
    browser, headers = Browser(desk), {} if site is None else {"Sec-Fetch-Site": site}
    await browser.sign_in("root")

    for path in ("/v1/jobs", "/metrics", "/metrics/cluster"):
        answer = await desk.client.get(path, headers={"Cookie": browser.cookie, **headers})

        assert answer.status_code == status, path


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
async def test_what_a_form_can_send_is_refused_with_the_cookie(browser: Browser, kind: str) -> None:
    job = await browser.desk.create(schedule="every 1h")

    answer = await browser.ask("POST", f"/jobs/{job['job_id']}/pause", Content_Type=kind)

    assert answer.status_code == 415
    assert (await browser.desk.get(f"/jobs/{job['job_id']}"))["status"] == "active"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (OWN, 201),
        ({}, 201),
        ({"Origin": "http://oncue"}, 201),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site", "Origin": "http://oncue"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://[::1"}, 403),
    ],
)
async def test_another_site_signs_nobody_in(desk: Desk, headers: dict[str, str], status: int) -> None:
    """Else what a victim does would be stored for the attacker."""
    assert (await Browser(desk).sign_in("bob", headers)).status_code == status


async def test_a_key_in_the_header_wins_over_the_cookie_whatever_it_is(browser: Browser) -> None:
    bob, unknown = browser.desk.keys["bob"], make_key(bytes(32))

    assert (await browser.ask("GET", "/me", Authorization=f"Bearer {bob}")).json()["user_id"] == "bob"
    for bad in (f"Bearer {unknown}", "Bearer", "", "Basic YTpi"):
        assert (await browser.ask("GET", "/me", Authorization=bad)).status_code == 401, bad
    foreign = {"Authorization": f"Bearer {bob}", "Sec_Fetch_Site": "cross-site"}
    assert (await browser.ask("POST", "/jobs", {"task": "mark"}, **foreign)).status_code == 201, "no cookie is used"


@pytest.mark.parametrize(
    "cookie",
    [
        "oncue_session=",
        "oncue_session=x",
        f"oncue_session={make_key(bytes(32), SESSION)}",
        f"oncue_session={make_key(bytes(32))}",
        "oncue_session=\x00; a=b",
        "oncue_session=" + "x" * 10_000,
        "other=1",
    ],
)
async def test_a_forged_cookie_is_401(desk: Desk, cookie: str) -> None:
    assert (await desk.client.get("/v1/me", headers={"Cookie": cookie})).status_code == 401


async def test_a_cookie_is_no_key_and_a_key_is_no_cookie(browser: Browser) -> None:
    token = browser.cookie.partition("=")[2]
    assert (await browser.ask("GET", "/me")).status_code == 200  # it is cached

    assert (await browser.desk.call("GET", "/v1/me", key=token)).status_code == 401
    assert (await browser.desk.call("GET", "/v1/me")).status_code == 200
    forged = {"Cookie": f"oncue_session={browser.desk.keys['ada']}"}
    assert (await browser.desk.client.get("/v1/me", headers=forged)).status_code == 401


# ------------------------------------------------------------------------------------------------------------------ TLS


async def test_with_https_the_cookie_is_secure_and_bound_to_the_host(desk: Desk) -> None:
    await serve(desk, public_url="https://jobs.example.org/")
    browser = Browser(desk)

    await browser.sign_in("ada")

    assert browser.said.startswith("__Host-oncue_session=")
    assert browser.said.endswith("; Path=/; Max-Age=604800; HttpOnly; SameSite=Strict; Secure")
    assert (await browser.ask("GET", "/me")).status_code == 200
    assert (await browser.ask("DELETE", "/session")).headers["Set-Cookie"].startswith("__Host-oncue_session=;")
    planted = browser.cookie.removeprefix("__Host-")
    assert (await desk.client.get("/v1/me", headers={"Cookie": planted})).status_code == 401


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("https://jobs.example.org", 201),
        ("http://jobs.example.org", 403),
        ("https://oncue", 201),
        ("http://oncue", 403),
        ("https://jobs.example.org.evil.example", 403),
    ],
)
async def test_behind_a_proxy_the_own_origin_is_the_public_address(desk: Desk, origin: str, status: int) -> None:
    await serve(desk, public_url="https://jobs.example.org")
    browser = Browser(desk)
    await browser.sign_in("ada")

    answer = await browser.ask("POST", "/jobs", {"task": "mark"}, Sec_Fetch_Site=None, Origin=origin)

    assert answer.status_code == status


async def test_a_header_of_a_proxy_decides_nothing(desk: Desk) -> None:
    browser = Browser(desk)

    await browser.sign_in("ada", {**OWN, "X-Forwarded-Proto": "https", "Forwarded": "proto=https"})

    assert browser.said.startswith("oncue_session=")
