"""Who may call, and that what is another's looks like what does not exist."""

from uuid import uuid4

import pytest
from tests.api.conftest import Desk, add_key

from oncue.api.application import CALLS
from oncue.domain.instants import MINUTE, SECOND
from oncue.domain.keys import key_hash, make_key
from oncue.engines.port import Role

DAY = {"from": "2029-12-30T00:00:00Z", "to": "2029-12-31T00:00:00Z"}
ENDLESS = {("GET", "/v1/events")}  # told for as long as somebody listens
BODIES = {"POST /v1/jobs/{id}/backfill": DAY, "PATCH /v1/jobs/{id}": {"name": "x"}, "PUT /v1/jobs/{id}": {"name": "x"}}


@pytest.mark.parametrize("sent", ["", "Bearer", "Bearer ", "Basic YTpi", "Bearer oc_bad", "Bearer ä", "oc_bad"])
async def test_no_or_a_bad_key_is_401(desk: Desk, sent: str) -> None:
    answer = await desk.call("GET", "/v1/tasks", headers={"Authorization": sent.encode()})

    assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, 'Bearer realm="oncue"')
    assert answer.headers["Content-Type"] == "application/problem+json"


async def test_every_call_of_the_table_asks_for_a_key(desk: Desk) -> None:
    unknown = make_key(bytes(32))

    for (method, path), route in CALLS.items():
        body = {"key": unknown} if route.signs_in else None
        answer = await desk.call(method, path.format(id=uuid4(), queue="q", key="k", user_id="u"), body, key=unknown)
        assert answer.status_code == 401, (method, path)


async def test_a_revoked_key_is_refused_within_a_second(desk: Desk) -> None:
    assert (await desk.call("GET", "/v1/tasks")).status_code == 200
    key = await desk.store.accounts.key(key_hash(desk.keys["ada"]))
    assert key is not None
    await desk.store.accounts.revoke(key.key_id, desk.store.now)

    await desk.store.clock.advance(SECOND)

    assert (await desk.call("GET", "/v1/tasks")).status_code == 401


async def test_an_expired_key_is_refused_at_its_instant(desk: Desk) -> None:
    text = await add_key(desk.store, desk.store.uid, "ada", Role.MEMBER, expires_at=desk.store.at(MINUTE))
    desk.store.advance(MINUTE - 1)
    assert (await desk.call("GET", "/v1/tasks", key=text)).status_code == 200

    desk.store.advance(1)

    assert (await desk.call("GET", "/v1/tasks", key=text)).status_code == 401


async def test_a_viewer_reads_and_changes_nothing_not_even_what_does_not_exist(desk: Desk) -> None:
    job = await desk.create(schedule="every 1h")

    for method, path in CALLS.keys() - ENDLESS:
        route = CALLS[method, path]
        for thing in (job["job_id"], str(uuid4())):
            answer = await desk.call(method, path.format(id=thing, queue="q", key="k", user_id="u"), key="viewer")
            expected = (route.action is not None and not route.for_viewers) or route.admin or route.private
            assert (answer.status_code == 403) == expected, (method, path)
    assert (await desk.get(f"/jobs/{job['job_id']}"))["status"] == "active"


def test_viewers_change_nothing_but_their_own_sessions() -> None:
    assert {call for call, route in CALLS.items() if route.for_viewers} == {
        ("POST", "/v1/session"),
        ("DELETE", "/v1/session"),
    }


def test_what_changes_something_says_what_the_audit_log_calls_it() -> None:
    """Else viewers may do it, and nobody knows afterwards."""
    unnamed = {call for call, route in CALLS.items() if route.action is None and call[0] != "GET"}

    assert unnamed <= {("POST", "/v1/schedules/preview"), ("POST", "/v1/jobs/{id}/preview")}
    assert not any(route.action for (method, _), route in CALLS.items() if method == "GET")


async def test_what_is_for_administrators_is_refused_to_a_member_before_anything_is_read(desk: Desk) -> None:
    for (method, path), route in CALLS.items():
        if route.admin:
            answer = await desk.call(method, path.format(id=uuid4(), queue=" ", user_id=" "), b"nonsense")
            assert answer.status_code == 403, (method, path)


async def test_a_foreign_thing_answers_exactly_like_an_unknown_one(desk: Desk) -> None:
    job, dead = await desk.create(schedule="every 1h", name="secret"), await desk.dead(name="secret")

    for (method, path), route in CALLS.items():
        if "{id}" in path and not route.admin:
            theirs = dead if "/runs/{id}" in path else job["job_id"]
            body = BODIES.get(f"{method} {path}")
            foreign = await desk.call(method, path.format(id=theirs), body, key="bob")
            unknown = await desk.call(method, path.format(id=uuid4()), body, key="bob")
            assert (foreign.status_code, foreign.content) == (404, unknown.content), (method, path)
    assert (await desk.get(f"/jobs/{job['job_id']}"))["status"] == "active"
    assert (await desk.get("/dead-letters", key="bob"))["dead_letters"] == []
    assert len((await desk.get("/dead-letters"))["dead_letters"]) == 1


async def test_an_administrator_sees_and_stops_everybodys(desk: Desk) -> None:
    job = await desk.create(schedule="every 1h")

    assert (await desk.get(f"/jobs/{job['job_id']}", key="root")) == job
    assert (await desk.call("DELETE", f"/v1/jobs/{job['job_id']}", key="root")).status_code == 200


async def test_a_task_says_who_may_use_it(desk: Desk) -> None:
    refused = await desk.call("POST", "/v1/jobs", {"task": "command"})

    assert (refused.status_code, await desk.nothing_stored()) == (403, True)
    await desk.create("command", key="root")


async def test_tasks_and_workers_are_shown(desk: Desk) -> None:
    worker = await desk.store.worker(name="w1")

    tasks = {task["name"]: task for task in (await desk.get("/tasks"))["tasks"]}
    [shown] = (await desk.get("/workers"))["workers"]

    assert list(tasks) == ["command", "http", "mark", "slow"]
    assert tasks["slow"]["schema"]["properties"]["seconds"] == {"type": "number"}
    assert (shown["worker_id"], shown["name"], shown["draining"]) == (str(worker), "w1", False)
