"""Looking up what people type: ids and parts of them, keys, names, and the beginnings of all that has a name."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from tests.api.conftest import Desk

from oncue.api import lookup
from oncue.domain.instants import HOUR, SECOND
from oncue.domain.run import State
from oncue.engines.port import Page

KINDS = ("jobs", "runs", "workers", "tasks", "queues", "tags")


async def look(desk: Desk, q: str, key: str = "ada", **more: str) -> Any:
    query = "".join(f"&{name}={value}" for name, value in more.items())
    return await desk.get(f"/lookup?q={quote(q, safe='')}{query}", key=key)


async def put(desk: Desk, key: str, name: str) -> str:
    answer = await desk.call("PUT", f"/v1/jobs/by-key/{key}", {"task": "mark", "name": name, "schedule": "every 1h"})
    return str(answer.json()["job_id"])


async def jobs(desk: Desk, q: str, key: str = "ada") -> list[tuple[str, str]]:
    return [(job["job_id"], job["match"]) for job in (await look(desk, q, key, kind="job"))["jobs"]]


async def test_an_id_and_its_parts_name_a_job_and_its_run(desk: Desk) -> None:
    desk.store.advance(HOUR)
    one_shot = (await desk.create(name="once"))["job_id"]
    recurring = (await desk.create(name="often", schedule="every 1m"))["job_id"]
    digits = one_shot.replace("-", "")

    for q, match in ((one_shot, "id"), (digits.upper(), "id"), (digits[-6:], "ending"), (one_shot[:23], "beginning")):
        found = await look(desk, q)
        assert found["jobs"] == [
            {"job_id": one_shot, "name": "once", "key": None, "task": "mark", "status": "active", "schedule": {},
             "last_run": None, "match": match}
        ]  # fmt: skip
        assert found["runs"] == [
            {"run_id": one_shot, "job_id": one_shot, "job_name": "once", "task": "mark", "status": "queued",
             "match": match}
        ]  # fmt: skip
        assert (await look(desk, q, key="bob"))["jobs"] == (await look(desk, q, key="bob"))["runs"] == []
        assert (await look(desk, q, key="root"))["jobs"] == found["jobs"]
    assert await jobs(desk, recurring[-8:]) == [(recurring, "ending")]
    assert (await look(desk, recurring[-8:]))["runs"] == []
    assert await jobs(desk, digits[-5:]) == await jobs(desk, digits[:7]) == []
    await desk.store.plan_all(ahead=60 * SECOND)
    [run] = (await desk.get(f"/jobs/{recurring}/runs"))["runs"]
    [found_run] = (await look(desk, run["run_id"][-12:], kind="run"))["runs"]
    assert (found_run["job_id"], found_run["job_name"], found_run["status"]) == (recurring, "often", "scheduled")


async def test_the_strongest_match_comes_first(desk: Desk) -> None:
    """A key before a name, a name before its beginning; of ended jobs the last one, and only if no other has it."""
    store = desk.store
    ended = []
    for _ in range(2):
        ended.append((await desk.create(name="report"))["job_id"])
        [run_id] = await store.claimable()
        await store.end(run_id, State.SUCCEEDED)
        store.advance(SECOND)
    assert await jobs(desk, "report") == [(ended[1], "ended_name")]
    longer = (await desk.create(name="report-eu", schedule="every 1h"))["job_id"]
    paused = (await desk.create(name="report", schedule="every 1h"))["job_id"]
    await desk.call("POST", f"/v1/jobs/{paused}/pause")
    keyed, similar = await put(desk, "report", "other"), await put(desk, "report-2", "another")
    await desk.create(name="unrelated", schedule="every 1h")
    theirs = (await desk.create(key="bob", name="report", schedule="every 1h"))["job_id"]

    found = await jobs(desk, "report")

    assert found[:2] == [(keyed, "key"), (paused, "name")]
    assert set(found[2:]) == {(longer, "prefix"), (similar, "prefix")}
    assert set(await jobs(desk, "rep")) == {(one, "prefix") for one in (paused, longer, keyed, similar)}
    assert (theirs, "name") in await jobs(desk, "report", key="root")
    assert await jobs(desk, "report", key="bob") == [(theirs, "name")]


async def test_ended_names_are_found_by_their_beginning_as_far_as_one_page_looks(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = desk.store
    for name in ("old one", "old two", "new"):
        await desk.create(name=name)
        [run_id] = await store.claimable()
        await store.end(run_id, State.SUCCEEDED)
        store.advance(SECOND)

    found = await look(desk, "old")

    assert [(job["name"], job["status"], job["match"]) for job in found["jobs"]] == [
        ("old two", "finished", "prefix"),
        ("old one", "finished", "prefix"),
    ]
    assert found["looked_back_to"] is None
    listed = store.engine.lists.jobs

    async def cut(query: Any) -> Page[Any]:
        page = await listed(query)
        return Page(page.items[:1], "more", store.at(-HOUR)) if query.name_prefix else page

    monkeypatch.setattr(desk.app.api.engine.lists, "jobs", cut)
    assert (await look(desk, "old"))["looked_back_to"] is not None


async def test_workers_tasks_queues_and_tags_are_found_by_name(desk: Desk) -> None:
    worker = await desk.store.worker(name="mail-1")
    await desk.create(queue="mail", tags=["mail-eu", "mail"], schedule="every 1h")
    await desk.create(queue="mail", tags=["mail", "x"])

    found = await look(desk, "mail")

    assert [(one["name"], one["match"]) for one in found["workers"]] == [("mail-1", "prefix")]
    assert found["tags"] == [{"name": "mail", "match": "name"}, {"name": "mail-eu", "match": "prefix"}]
    assert found["queues"] == [{"name": "mail", "match": "name"}]
    assert [one["name"] for one in (await look(desk, "m"))["tasks"]] == ["mark"]
    for q, match in ((str(worker), "id"), (worker.hex[-6:], "ending"), ("mail-1", "name")):
        assert [one["match"] for one in (await look(desk, q))["workers"]] == [match]
    assert (await look(desk, "mail", key="bob"))["tags"] == (await look(desk, "mail", key="bob"))["queues"] == []


async def test_at_most_five_of_a_kind_are_found_and_only_those_asked_for(desk: Desk) -> None:
    for number in range(lookup.MOST + 3):
        await desk.create(name=f"job {number}", tags=[f"job {number}"], schedule="every 1h")

    found = await look(desk, "job")
    narrowed = await look(desk, "job", kind="tag,run")

    assert (len(found["jobs"]), len(found["tags"])) == (lookup.MOST, lookup.MOST)
    assert {kind: len(narrowed[kind]) for kind in KINDS} == dict.fromkeys(KINDS, 0) | {"tags": lookup.MOST}


async def test_what_cannot_be_looked_up_is_refused_by_name(desk: Desk) -> None:
    for query in ("", "?q=", "?q=%20", "?q=a%00b", f"?q={'x' * 201}", "?q=a&kind=dog", "?q=a&q=b"):
        answer = await desk.call("GET", f"/v1/lookup{query}")
        assert (answer.status_code, answer.json()["errors"][0]["path"] in ("q", "kind")) == (422, True), query


async def test_any_text_may_be_looked_up(desk: Desk) -> None:
    await desk.create(name="plain", tags=["plain"], schedule="every 1h")

    nothing: dict[str, Any] = {kind: [] for kind in KINDS}
    for q in ("%", "_", "'; --", "ä\U0001f600", "\U0010ffff", "a" * 200, "[", "\\", "-" * 40, "F" * 32, "f" * 31):
        found = await look(desk, q)
        assert {kind: found[kind] for kind in KINDS} == nothing, q
