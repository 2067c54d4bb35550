"""A task is known the moment it is announced, and names that nobody announced cost the store next to nothing."""

import asyncio

import pytest
from tests.api.conftest import Desk

from oncue.engines.port import Role, Task
from oncue.intake.task_registry import TaskRegistry


async def test_a_task_announced_just_now_is_known(desk: Desk) -> None:
    before = await desk.call("POST", "/v1/jobs", {"task": "brand_new"})

    await desk.store.fleet.announce([Task("brand_new", b'{"type": "object"}')], desk.store.now)
    after = await desk.call("POST", "/v1/jobs", {"task": "brand_new"})

    assert (before.status_code, after.status_code) == (422, 201)


@pytest.mark.parametrize(
    ("key", "task", "message"),
    [
        ("ada", "slwo", "task 'slwo' is not registered; did you mean 'slow'? Registered: http, mark, slow;"),
        ("ada", "\u00e9t\u00e9", "task '\u00e9t\u00e9' is not registered. Registered: http, mark, slow;"),
        ("root", "comand", "task 'comand' is not registered; did you mean 'command'?"),
        ("ada", "comand", "task 'comand' is not registered. Registered: http, mark, slow;"),
    ],
)
async def test_an_unknown_task_is_named_with_those_that_there_are_for_this_role(
    desk: Desk, key: str, task: str, message: str
) -> None:
    job = {"key": "k", "task": task, "schedule": "@daily"}
    one = await desk.call("POST", "/v1/jobs", job, key=key)
    declared = await desk.call("POST", "/v1/jobs/apply", {"set": "s", "jobs": [job]}, key=key)

    [error], [of_set] = one.json()["errors"], declared.json()["errors"]
    assert error["message"].startswith(message)
    assert error["message"].endswith("; check the spelling, or start a worker that has this task") or key == "root"
    assert (error["path"], of_set["path"], of_set["message"]) == ("task", "jobs.0.task", error["message"])


async def test_of_many_tasks_five_are_named_and_without_any_that_is_said(desk: Desk) -> None:
    await desk.store.fleet.announce([Task(f"t{n}", b"{}") for n in range(4)], desk.store.now)
    many = await desk.call("POST", "/v1/jobs", {"task": "nope"})
    registry = TaskRegistry(desk.store.fleet, desk.store.clock)

    assert " Registered: http, mark, slow, t0, t1 and 2 more; " in many.json()["errors"][0]["message"]
    assert registry.not_found("nope", Role.MEMBER).startswith("task 'nope' is not registered, and no other task is;")


async def test_one_announced_while_a_look_is_under_way_is_known(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that was on its way before it was announced says nothing about it."""
    tasks, on_its_way, announced = desk.store.fleet.tasks, asyncio.Event(), asyncio.Event()
    find = desk.app.api.intake.task_registry.find

    async def slow() -> list[Task]:
        found = list(await tasks())
        on_its_way.set()
        await announced.wait()
        return found

    monkeypatch.setattr(desk.store.fleet, "tasks", slow)
    early = asyncio.create_task(find("brand_new"))
    await on_its_way.wait()
    await desk.store.fleet.announce([Task("brand_new", b'{"type": "object"}')], desk.store.now)
    late = asyncio.create_task(find("brand_new"))
    await asyncio.sleep(0)  # it has asked
    announced.set()
    await asyncio.wait({early, late})

    assert late.result().name == "brand_new"


async def test_nonsense_from_many_at_once_costs_a_few_looks(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks, looks = desk.store.fleet.tasks, []

    async def counted() -> list[Task]:
        looks.append(1)
        return list(await tasks())

    monkeypatch.setattr(desk.store.fleet, "tasks", counted)
    await desk.create()
    looks.clear()

    answers = await asyncio.gather(*(desk.call("POST", "/v1/jobs", {"task": f"nonsense {n}"}) for n in range(100)))

    assert {answer.status_code for answer in answers} == {422}
    assert len(looks) <= 3


@pytest.mark.parametrize("path", ["/v1/jobs/batch", "/v1/jobs/apply"])
async def test_a_request_with_many_unknown_tasks_looks_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    tasks, looks = desk.store.fleet.tasks, []

    async def counted() -> list[Task]:
        looks.append(1)
        return list(await tasks())

    monkeypatch.setattr(desk.store.fleet, "tasks", counted)
    jobs = [{"task": f"nonsense {n}", "key": f"k{n}", "schedule": "@daily"} for n in range(50)]
    answer = await desk.call("POST", path, {"jobs": jobs} | ({"set": "s"} if path.endswith("apply") else {}))

    assert answer.status_code == 422
    assert len(answer.json()["errors"]) == 50
    assert len(looks) == 1
