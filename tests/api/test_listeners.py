"""Every call of the table: closed without a key, told apart by role, and blind to what is another's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import httpx2
import msgspec
import pytest
from tests.api.conftest import Desk, add_key

from oncue.api.application import CALLS, OPEN_CALLS
from oncue.api.openapi import ITSELF
from oncue.api.routes import Route, is_for_viewers
from oncue.domain import attempt
from oncue.domain.ids import WorkerId
from oncue.domain.instants import HOUR
from oncue.domain.job import decode_spec
from oncue.domain.keys import make_key
from oncue.engines.port import Role

EVENTS = ("GET", "/v1/events")  # told for as long as somebody listens
SAMPLES: dict[str, Any] = {
    "NewJob": {"task": "mark"},
    "NewJobs": {"jobs": [{"task": "mark"}]},
    "TasksOf": {"tasks": []},
    "Declaration": {"set": "s", "jobs": []},
    "KeyedJob": {"task": "mark"},
    "JobChange": {"name": "x"},
    "Resuming": {"missed": "all"},
    "Stretch": {"from": "2029-12-30T00:00:00Z", "to": "2029-12-31T00:00:00Z"},
    "Choice": {"filter": {}},
    "Requeue": {"filter": {}},
    "OwnPayload": {"payload": {}},
    "Replacing": {"payload_patch": {}},
    "BulkOf": {"action": "pause", "filter": {"name": "of no job"}},
    "PreviewOf": {"schedule": "every 1h"},
    "KeyOf": {"user_id": "eve", "role": "member"},
    "SessionOf": {"key": make_key(bytes(32))},  # which nobody has
    "NotificationsOf": {"entries": []},
    "NotificationTest": {"entry": {"webhook": "https://example.org/"}},
    "WebhookUrl": {"url": "https://example.org/"},
}
NAMES = {"queue": "q", "key": "k", "user_id": "u"}


def sample(route: Route) -> Any:
    """A body that the call takes; a name that is new to the table of calls needs one here."""
    return None if route.body is None else SAMPLES[route.body]


def ids_of(path: str) -> str | None:
    """What the id in a path is of: jobs, runs or keys."""
    return path.split("/")[2] if "{id}" in path else None


# --------------------------------------------------------------------------------------------------- without a good key


@pytest.fixture
async def bad_keys(desk: Desk) -> dict[str, str | None]:
    store = desk.store
    return {
        "none": None,
        "malformed": "oc_malformed",
        "unknown": make_key(bytes(32)),
        "revoked": await add_key(store, store.uid, "ada", Role.ADMIN, revoked_at=store.now),
        "expired": await add_key(store, store.uid, "ada", Role.ADMIN, expires_at=store.now),
    }


async def test_every_call_without_a_good_key_is_401_before_the_body_is_read(
    desk: Desk, bad_keys: dict[str, str | None]
) -> None:
    read = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal read
        read += 1
        yield b"{}"

    for (method, path), route in CALLS.items():
        if route.signs_in:
            continue  # its key is in the body: tests/api/test_sessions.py
        for kind, key in bad_keys.items():
            headers = {"Content-Type": "application/json"} | ({} if key is None else {"Authorization": f"Bearer {key}"})
            answer = await desk.client.request(
                method, path.format(id=uuid4(), **NAMES), headers=headers, content=body() if method != "GET" else None
            )
            assert answer.status_code == 401, (method, path, kind)
            assert answer.headers["WWW-Authenticate"] == 'Bearer realm="oncue"', (method, path, kind)
            assert answer.headers["Content-Type"] == "application/problem+json", (method, path, kind)
    assert (read, await desk.nothing_stored()) == (0, True)


async def test_the_open_calls_need_no_key(desk: Desk) -> None:
    for path in OPEN_CALLS:
        assert (await desk.client.get(path)).status_code == 200, path


async def test_methods_that_a_path_does_not_have_are_405_and_head_is_as_get(desk: Desk) -> None:
    paths = {path for _, path in CALLS}

    for path in sorted(paths):
        url = path.format(id=uuid4(), **NAMES)
        for method in ("OPTIONS", "TRACE", "CONNECT", "BREW"):
            for key in ("root", "nobody"):
                answer = await desk.call(method, url, key=key)
                assert (answer.status_code, "Allow" in answer.headers) == (405, True), (method, path)
                assert answer.headers["Content-Type"] == "application/problem+json", (method, path)
        if ("GET", path) in CALLS:
            assert (await desk.call("HEAD", url, key="nobody")).status_code == 401, path
    for path in (*OPEN_CALLS, ITSELF.path, "/v1/tasks"):
        head, got = await desk.call("HEAD", path), await desk.call("GET", path)
        assert (head.status_code, head.headers["Content-Type"]) == (200, got.headers["Content-Type"]), path


# ------------------------------------------------------------------------------------------------------------ by role


@pytest.mark.parametrize("role", list(Role))
async def test_a_role_is_refused_exactly_where_the_table_says_so(desk: Desk, role: Role) -> None:
    key = await add_key(desk.store, await desk.store.accounts.user("eve", desk.store.now), "eve", role)

    for (method, path), route in CALLS.items():
        if (method, path) == EVENTS:
            continue
        answer = await desk.call(method, path.format(id=uuid4(), **NAMES), sample(route), key=key)
        refused = (route.admin and role is not Role.ADMIN) or (
            (route.action is not None or route.private) and not route.for_viewers and role is Role.VIEWER
        )
        assert (answer.status_code == 403) == refused, (method, path, answer.text)


# ------------------------------------------------------------------------------------------------- what is another's


class Belongings(msgspec.Struct):
    """What ada has, by what ids in paths are of, and everything she sees of it."""

    ids: dict[str, list[str]]
    seen: dict[str, bytes]
    worker: WorkerId
    """Which holds one of her runs; workers themselves are everybody's."""


async def view(desk: Desk, ids: dict[str, list[str]]) -> dict[str, bytes]:
    """All that ada may read, and all the keys there are."""
    found = {}
    for (method, path), route in CALLS.items():
        if method == "GET" and (method, path) != EVENTS and path != "/v1/audit" and not route.admin:
            for one in ids.get(ids_of(path) or "", [""]):
                url = path.format(id=one, **NAMES)
                found[url] = (await desk.call("GET", url)).content
    found["keys"] = (await desk.call("GET", "/v1/keys", key="root")).content
    return found


@pytest.fixture
async def belongings(desk: Desk) -> Belongings:
    dead = [str(await desk.dead(name="a secret")), str(await desk.dead(name="a secret"))]
    await desk.create(name="a secret")
    worker = await desk.store.worker()
    [running] = await desk.store.claim_due(worker)
    job = {"task": "mark", "schedule": "every 1h", "name": "a secret", "tags": ["a secret"]}
    recurring = (await desk.call("PUT", "/v1/jobs/by-key/k", job)).json()
    later = await desk.create(schedule={"at": "2030-01-01T05:00:00Z"}, name="a secret")
    key = await desk.store.accounts.keys()
    ids = {
        "jobs": [recurring["job_id"], later["job_id"], str(running.run_id), dead[0]],
        "runs": [*dead, str(running.run_id), later["job_id"]],
        "keys": [str(one.key_id) for one in key if one.user_id == "ada"],
        "bulk": [await bulk(desk)],
    }
    return Belongings(ids, await view(desk, ids), worker)


async def bulk(desk: Desk) -> str:
    order = {"action": "pause", "filter": {"name": "a secret"}}
    bulk_id: str = (await desk.call("POST", "/v1/bulk", order)).json()["bulk_id"]
    return bulk_id


async def test_what_is_anothers_answers_exactly_as_what_there_is_not_and_is_left_alone(
    desk: Desk, belongings: Belongings
) -> None:
    bobs_viewer = await add_key(desk.store, desk.store.stranger, "bob", Role.VIEWER)
    before = await view(desk, belongings.ids)

    for (method, path), route in CALLS.items():
        for theirs in belongings.ids.get(ids_of(path) or "", []):
            for key, may in (("bob", not route.admin), (bobs_viewer, is_for_viewers(route))):
                foreign = await desk.call(method, path.format(id=theirs), sample(route), key=key)
                unknown = await desk.call(method, path.format(id=uuid4()), sample(route), key=key)
                assert foreign.status_code == (404 if may else 403), (method, path, foreign.text)
                assert told(foreign) == told(unknown), (method, path)
    assert await view(desk, belongings.ids) == before


def told(answer: httpx2.Response) -> tuple[int, bytes, dict[str, str]]:
    return answer.status_code, answer.content, dict(answer.headers)


async def test_nothing_that_a_stranger_lists_has_anything_of_anothers(desk: Desk, belongings: Belongings) -> None:
    theirs = [one for ids in belongings.ids.values() for one in ids]

    for (method, path), route in CALLS.items():
        if method == "GET" and "{" not in path and not route.admin and (method, path) not in (EVENTS,):
            text = (await desk.call("GET", path, key="bob")).text
            assert not [one for one in (*theirs, "a secret", '"ada"') if one in text], path
    stats = await desk.get("/stats", key="bob")
    assert (set(stats["runs"].values()), stats["tasks"], stats["queues"]) == ({0}, [], [])


async def test_ids_of_anothers_in_a_body_are_passed_over_as_unknown_ones(desk: Desk, belongings: Belongings) -> None:
    chosen = [{"run_ids": [*belongings.ids["runs"], str(uuid4())]}, {"filter": {}}]
    chosen += [{"filter": {"job_id": one}} for one in belongings.ids["jobs"]]

    for body in chosen:
        requeued = await desk.call("POST", "/v1/dead-letters/requeue", body, key="bob")
        discarded = await desk.call("POST", "/v1/dead-letters/discard", body, key="bob")
        assert (requeued.status_code, requeued.json()) == (202, {"count": 0, "run_ids": [], "refused": []})
        assert (discarded.status_code, discarded.json()) == (200, {"count": 0})
    assert await view(desk, belongings.ids) == belongings.seen


async def test_filters_by_what_is_anothers_find_nothing(desk: Desk, belongings: Belongings) -> None:
    for job_id in belongings.ids["jobs"]:
        assert (await desk.get(f"/runs?job_id={job_id}", key="bob"))["runs"] == []
        assert (await desk.get(f"/dead-letters?job_id={job_id}", key="bob"))["dead_letters"] == []
    assert (await desk.get("/jobs?name=a%20secret", key="bob"))["jobs"] == []
    assert (await desk.call("GET", "/v1/jobs?user_id=ada", key="bob")).status_code == 403


LISTS = sorted({path for (method, path), route in CALLS.items() if "page_token" in route.query and not route.admin})


@pytest.mark.parametrize("path", LISTS)
async def test_a_page_token_of_anothers_is_refused_like_garbage(desk: Desk, belongings: Belongings, path: str) -> None:
    of = ids_of(path)
    mine = path.format(id=belongings.worker if of == "workers" else (belongings.ids.get(of or "") or [""])[0])
    for key in ("ada", "bob"):
        jobs = [await desk.create(schedule="every 1h", key=key) for _ in range(2)]
    match path:
        case "/v1/dead-letters":
            await desk.dead()
        case "/v1/errors":
            await two_errors(desk)
        case "/v1/bulk":
            await bulk(desk)
        case "/v1/jobs/{id}/versions":
            for name in ("a", "b", "c"):
                assert (await desk.call("PATCH", mine.removesuffix("/versions"), {"name": name})).status_code == 200
        case "/v1/workers/{id}/runs":
            await desk.create()
            assert await desk.store.claim_due(belongings.worker)
        case _ if of:  # an administrator may list what is ada's, too
            await make_two_pages(desk, mine)
    whose = "root" if of else "bob"
    token = (await desk.call("GET", f"{mine}?limit=1")).json()["next_page_token"]
    assert token is not None, jobs

    foreign = await desk.call("GET", f"{mine}?limit=1&page_token={token}", key=whose)
    garbage = await desk.call("GET", f"{mine}?limit=1&page_token=garbage", key=whose)

    assert (foreign.status_code, garbage.status_code) == (422, 422)
    assert foreign.content == garbage.content
    assert foreign.json()["errors"][0]["path"] == "page_token"


async def two_errors(desk: Desk) -> None:
    worker = await desk.store.worker()
    for kind in ("KeyError", "ValueError"):
        await desk.create()
        [run] = await desk.store.claim_due(worker)
        failure = attempt.Failure(error_type=kind, error="it broke")
        spec, now = decode_spec(run.spec), desk.store.now
        await desk.store.settle(worker, attempt.failed(run, spec, worker, now, now, failure, luck=0.0))
    await desk.store.engine.errors.roll_up()


async def make_two_pages(desk: Desk, path: str) -> None:
    """More than one run and one occurrence of the job in this path."""
    job = path.rpartition("/")[0]
    for _ in range(2):
        assert (await desk.call("POST", f"{job}/runNow")).status_code == 202
    stretch = {"from": "2030-01-01T00:00:00Z", "to": "2030-01-01T03:30:00Z"}
    desk.store.advance(4 * HOUR)
    assert (await desk.call("POST", f"{job}/backfill", stretch)).status_code == 202


async def test_idempotency_keys_and_stable_keys_are_each_users_own(desk: Desk) -> None:
    headers = {"Idempotency-Key": "the same"}
    job = {"task": "mark", "schedule": "every 1h", "key": "mine"}

    made = [await desk.call("POST", "/v1/jobs", job, key=who, headers=headers) for who in ("ada", "bob")]
    put = [await desk.call("PUT", "/v1/jobs/by-key/mine", {**job, "name": who}, key=who) for who in ("ada", "bob")]

    assert [answer.status_code for answer in (*made, *put)] == [201, 201, 200, 200]
    assert [answer.json()["job_id"] for answer in made] == [answer.json()["job_id"] for answer in put]
    for who, answer in zip(("ada", "bob"), put, strict=True):
        [shown] = (await desk.get("/jobs", key=who))["jobs"]
        assert (shown["job_id"], shown["name"]) == (answer.json()["job_id"], who)


async def test_the_audit_log_shows_ones_own_deeds_only(desk: Desk, belongings: Belongings) -> None:
    await desk.create(key="bob")

    assert {line["user_id"] for line in (await desk.get("/audit", key="bob"))["audit"]} == {"bob"}
    assert {line["user_id"] for line in (await desk.get("/audit"))["audit"]} == {"ada"}
    assert {line["user_id"] for line in (await desk.get("/audit", key="root"))["audit"]} == {"ada", "bob"}
