"""Tasks that an administrator registers: jobs of them can be created before a worker has them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.api.conftest import Desk

SCHEMA = {
    "type": "object",
    "properties": {"to": {"type": "string"}},
    "required": ["to"],
    "additionalProperties": False,
}


async def register(desk: Desk, *tasks: Any, key: str = "root") -> Any:
    return await desk.call("PUT", "/v1/tasks", {"tasks": tasks}, key=key)


async def test_jobs_of_a_registered_task_are_created_and_checked(desk: Desk) -> None:
    mail = {
        "name": "mail",
        "schema": SCHEMA,
        "defaults": {"timeout": "5s", "retry": {"factor": 3}},
        "roles": ["member"],
    }

    answer = await register(desk, mail, {"name": "anything"})

    assert answer.status_code == 200, answer.text
    anything, registered = answer.json()["tasks"]
    assert {name: registered[name] for name in mail} == mail
    assert (anything["schema"], anything["defaults"], anything["roles"]) == (
        {"type": "object"},
        {},
        ["admin", "member"],
    )
    assert registered in await listed(desk)
    job = await desk.create("mail", payload={"to": "a"})
    assert (job["timeout"], job["retry"]["factor"]) == ("5s", 3)
    refused = await desk.call("POST", "/v1/jobs", {"task": "mail", "payload": {}})
    assert refused.json()["errors"][0]["path"] == "payload.to"
    assert (
        await desk.call("POST", "/v1/jobs", {"task": "mail", "payload": {"to": "a"}}, key="root")
    ).status_code == 403
    assert (await desk.get("/audit", "root"))["audit"][-1]["detail"] == {"tasks": ["mail", "anything"]}


async def listed(desk: Desk) -> Any:
    return (await desk.get("/tasks"))["tasks"]


async def test_a_later_registration_counts_and_the_others_stay(desk: Desk) -> None:
    before = await listed(desk)
    desk.store.advance(1_000_000)

    await register(desk, {"name": "mark", "schema": SCHEMA})
    await register(desk)

    after = await listed(desk)
    assert [task["name"] for task in after] == [task["name"] for task in before]
    assert next(task for task in after if task["name"] == "mark")["schema"] == SCHEMA


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "tasks"),
        ({"tasks": {}}, "tasks"),
        ({"tasks": [7]}, "tasks.0"),
        ({"tasks": [{"name": f"t{n}"} for n in range(1_001)]}, "tasks"),
        ({"tasks": [{}]}, "tasks.0.name"),
        ({"tasks": [{"name": "a\u202eb"}]}, "tasks.0.name"),
        ({"tasks": [{"name": "x" * 201}]}, "tasks.0.name"),
        ({"tasks": [{"name": "a"}, {"name": "a"}]}, "tasks.1.name"),
        ({"tasks": [{"name": "notify"}]}, "tasks.0.name"),
        ({"tasks": [{"name": "command", "roles": ["member"]}]}, "tasks.0.name"),
        ({"tasks": [{"name": "a", "schema": {"type": "objekt"}}]}, "tasks.0.schema"),
        ({"tasks": [{"name": "a", "schema": {"$ref": "https://example.org/x"}}]}, "tasks.0.schema"),
        ({"tasks": [{"name": "a", "schema": {"const": "a\0b"}}]}, "tasks.0.schema.const"),
        ({"tasks": [{"name": "a", "schema": {"enum": ["x" * 70_000]}}]}, "tasks.0.schema"),
        ({"tasks": [{"name": "a", "defaults": {"timeout": "soon"}}]}, "tasks.0.defaults.timeout"),
        ({"tasks": [{"name": "a", "defaults": {"colour": "red"}}]}, "tasks.0.defaults.colour"),
        ({"tasks": [{"name": "a", "roles": []}]}, "tasks.0.roles"),
        ({"tasks": [{"name": "a", "roles": ["boss"]}]}, "tasks.0.roles.0"),
        ({"tasks": [{"name": "a", "roles": ["admin", "admin"]}]}, "tasks.0.roles"),
        ({"tasks": [{"name": "a", "colour": 1}]}, "tasks.0.colour"),
    ],
    ids=lambda one: str(one)[:60],
)
async def test_what_is_wrong_is_named_and_nothing_registered(desk: Desk, body: Any, path: str) -> None:
    before = await listed(desk)

    answer = await desk.call("PUT", "/v1/tasks", body, key="root")

    assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, path)
    assert await listed(desk) == before


@pytest.mark.parametrize("key", ["ada", "viewer"])
async def test_only_administrators_register(desk: Desk, key: str) -> None:
    assert (await register(desk, {"name": "a"}, key=key)).status_code == 403
