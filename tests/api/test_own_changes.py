"""The answer to a change shows what this change made, whatever others make of the job before it is written."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from tempfile import TemporaryDirectory
from typing import Any

import httpx2
import pytest
from tests.api.conftest import Desk, etag_of, time_passing

from oncue.api.application import Application
from oncue.domain.instants import HOUR, MINUTE
from oncue.settings import Settings

CLIENTS, CALLS = 8, 12
Verb = Callable[..., Awaitable[Any]]


def followed_by(verb: Verb, further: Callable[[], Awaitable[object]]) -> Verb:
    """`further` slips in between the first write by this verb and its answer."""
    left = [further]

    async def written(*args: Any, **how: Any) -> Any:
        done = await verb(*args, **how)
        while done and left:
            await left.pop()()
        return done

    return written


async def before(desk: Desk, schedule: str, *, paused: bool) -> Any:
    job = await desk.create(name="n", schedule=schedule)
    if paused:
        job = (await desk.call("POST", f"/v1/jobs/{job['job_id']}/pause")).json()
    return job


# What is asked for, of a job that is paused or not, what slips in, and what the answer says
RACES = [
    pytest.param("PATCH", {"name": "mine"}, False, ("PATCH", {"name": "its"}), ("mine", "active", 2), id="edit-edit"),
    pytest.param("PATCH", {"name": "mine"}, False, ("POST", "pause"), ("mine", "active", 2), id="edit-pause"),
    pytest.param("PATCH", {"name": "mine"}, True, ("POST", "resume"), ("mine", "paused", 2), id="edit-resume"),
    pytest.param("PATCH", {"name": "mine"}, False, ("DELETE", ""), ("mine", "active", 2), id="edit-cancel"),
    pytest.param("POST", "pause", False, ("POST", "resume"), ("n", "paused", 1), id="pause-resume"),
    pytest.param("POST", "pause", False, ("PATCH", {"name": "its"}), ("n", "paused", 1), id="pause-edit"),
    pytest.param("POST", "resume", True, ("POST", "pause"), ("n", "active", 1), id="resume-pause"),
    pytest.param("POST", "resume", True, ("DELETE", ""), ("n", "active", 1), id="resume-cancel"),
]


@pytest.mark.parametrize("schedule", ["every 1h", "2030-01-01T05:00:00Z"])
@pytest.mark.parametrize(("method", "what", "paused", "other", "expected"), RACES)
async def test_what_slips_in_after_a_change_is_not_in_its_answer(
    desk: Desk,
    monkeypatch: pytest.MonkeyPatch,
    schedule: str,
    method: str,
    what: Any,
    paused: bool,
    other: tuple[str, Any],
    expected: tuple[str, str, int],
) -> None:
    job = await before(desk, schedule, paused=paused)
    path = f"/v1/jobs/{job['job_id']}"

    async def ask(method: str, what: Any) -> httpx2.Response:
        body, further = (None, f"/{what}".rstrip("/")) if isinstance(what, str) else (what, "")
        answer = await desk.call(method, path + further, body)
        assert answer.status_code == 200, answer.text
        return answer

    jobs = desk.store.engine.jobs
    monkeypatch.setattr(jobs, "apply", followed_by(jobs.apply, lambda: ask(*other)))
    answer = await ask(method, what)

    told = answer.json()
    assert (told["name"], told["status"], told["version"]) == expected
    assert answer.headers["ETag"] == etag_of(told)
    now_there = await desk.get(f"/jobs/{job['job_id']}")
    assert (now_there["name"], now_there["status"], now_there["version"]) != expected, "nothing slipped in"


async def test_a_replaced_job_is_answered_as_it_was_sent(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    path, job = "/v1/jobs/by-key/k", {"task": "mark", "schedule": "every 1h"}
    await desk.call("PUT", path, job)

    jobs = desk.store.engine.jobs
    another = followed_by(jobs.apply, lambda: desk.call("PUT", path, job | {"payload": {"by": "another"}}))
    monkeypatch.setattr(jobs, "apply", another)
    answer = await desk.call("PUT", path, job | {"payload": {"by": "me"}})

    assert (answer.json()["payload"], answer.json()["version"]) == ({"by": "me"}, 2)
    assert answer.headers["ETag"] == etag_of(answer.json())
    stale = await desk.call("PUT", path, job, headers={"If-Match": answer.headers["ETag"]})
    assert stale.status_code == 412, "the change that slipped in would be overwritten"


async def test_a_cancelled_job_is_answered_although_it_is_deleted_at_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await desk.create(schedule="every 1h")
    path = f"/v1/jobs/{job['job_id']}"

    jobs = desk.store.engine.jobs
    deleting = followed_by(jobs.cancel, lambda: desk.call("DELETE", f"{path}?purge=true", key="root"))
    monkeypatch.setattr(jobs, "cancel", deleting)
    answer = await desk.call("DELETE", path)

    assert (answer.status_code, answer.json()["status"], answer.json()["version"]) == (200, "cancelled", 1)
    assert (await desk.call("GET", path)).status_code == 404


async def test_the_next_run_is_told_as_a_reader_sees_it(desk: Desk) -> None:
    """A change says what follows from it, although it does not read the job again."""
    for schedule in ("every 1h", "2030-01-01T05:00:00Z"):
        path = f"/v1/jobs/{(await before(desk, schedule, paused=False))['job_id']}"
        calls: list[tuple[str, str, Any]] = [
            ("PATCH", "", {"schedule": "every 2h"}),
            ("POST", "/pause", None),
            ("PATCH", "", {"schedule": "2030-02-01T05:00:00Z"}),
            ("POST", "/resume", None),
            ("POST", "/pause", None),
            ("PATCH", "", {"schedule": {"cron": "0 9 * * *", "timezone": "Europe/Berlin"}}),
            ("POST", "/resume", {"missed": "last"}),
            ("DELETE", "", None),
        ]
        for method, further, body in calls:
            await desk.store.plan_all(ahead=3 * HOUR)
            desk.store.advance(MINUTE)
            answer = await desk.call(method, path + further, body)
            assert answer.status_code == 200, answer.text
            read = await desk.call("GET", path)
            assert (answer.json(), answer.headers["ETag"]) == (read.json(), read.headers["ETag"])


async def test_of_eight_clients_at_two_servers_each_is_answered_its_own_change(desk: Desk) -> None:
    """Strict: accepted edits have versions of their own and their own payload; a resume is active, a pause paused."""
    other, answers = await desk.store.second(), list[tuple[str, Any, dict[str, Any]]]()
    job = (await desk.call("PUT", "/v1/jobs/by-key/k", {"task": "mark", "schedule": "every 1h"})).json()
    path, versions = f"/v1/jobs/{job['job_id']}", [1]

    async def client(number: int, to: Desk) -> None:
        for call in range(CALLS):
            mine: dict[str, Any] = {"payload": {"by": f"{number}.{call}"}}
            match (number + call) % 5:
                case 0:
                    kind, asked = "pause", to.call("POST", f"{path}/pause")
                case 1:
                    kind, asked = "resume", to.call("POST", f"{path}/resume")
                case 2:
                    body = {"task": "mark", "schedule": "every 1h", **mine}
                    kind, asked = "edit", to.call("PUT", "/v1/jobs/by-key/k", body)
                case 3:
                    kind, asked = "edit", to.call("PATCH", path, mine)
                case _:
                    kind, match = "edit", {"If-Match": f'"{versions[-1]}"'}
                    asked = to.call("PATCH", path, dict(mine), headers=match)
                    mine["after"] = versions[-1]
            answer = await asked
            if answer.status_code == 200:
                assert answer.headers["ETag"] == etag_of(answer.json())
                answers.append((kind, mine, answer.json()))
                versions.append(max(versions[-1], answer.json()["version"]))
            else:
                assert answer.status_code in (409, 412), answer.text

    with TemporaryDirectory() as folder:
        app = Application(other.engine, other.clock, Settings(data_dir=folder))
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://other") as http, time_passing(desk):
            desks = (desk, Desk(other, app, http, desk.keys))
            await asyncio.gather(*(client(number, desks[number % 2]) for number in range(CLIENTS)))

    edits = [(mine, told) for kind, mine, told in answers if kind == "edit"]
    assert [told["payload"] for _, told in edits] == [mine["payload"] for mine, _ in edits]
    assert len({told["version"] for _, told in edits}) == len(edits) > CLIENTS
    assert {told["version"] - mine["after"] for mine, told in edits if "after" in mine} == {1}
    assert {told["status"] for kind, _, told in answers if kind == "pause"} == {"paused"}
    assert {told["status"] for kind, _, told in answers if kind == "resume"} == {"active"}
