"""Register tasks without a worker, so that jobs can be created before the first worker that has them is deployed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jsonschema_rs
import msgspec
from starlette.requests import Request

from oncue.api.fleet import shown_tasks
from oncue.api.http.answers import answer
from oncue.api.http.auth import Caller
from oncue.api.http.reading import read_object
from oncue.api.shared.context import Api
from oncue.api.shared.outcome import Line, Outcome
from oncue.domain.definition import DEFAULTED, define
from oncue.domain.errors import Invalid, Problem
from oncue.domain.fields import Reader, choice, object_of, object_schema, read_fields, schema_of, takes, text
from oncue.domain.instants import Instant
from oncue.domain.placement import BUILT_IN
from oncue.domain.plain_json import not_plain
from oncue.engines.port import Role, Task
from oncue.intake.task_registry import nothing_from_outside

MOST_TASKS = 1_000  # of one request
LARGEST_SCHEMA = 64 * 1024  # bytes
_LONGEST_NAME = 200
_role = choice({role.value: role.value for role in Role})


@takes(type="object")
def _object(raw: Any, path: str) -> dict[str, Any]:
    """Read an object of any JSON values that every engine can store."""
    if not isinstance(raw, dict):
        raise Invalid.of(path, "wrong_type", 'must be an object, like {"type": "object"}')
    if (wrong := next(not_plain(raw, path), None)) is not None:
        raise Invalid(wrong)
    return raw


@takes(**schema_of(_object))
def _schema(raw: Any, path: str) -> bytes:
    found = msgspec.json.encode(_object(raw, path))
    if len(found) > LARGEST_SCHEMA:
        raise Invalid.of(
            path, "too_large", f"has {len(found)} bytes as compact JSON; at most {LARGEST_SCHEMA} are allowed"
        )
    try:
        jsonschema_rs.validator_for(raw, retriever=nothing_from_outside)
    except (ValueError, jsonschema_rs.ReferencingError) as wrong:
        raise Invalid.of(path, "bad_schema", f"is not a valid JSON Schema: {str(wrong)[:200]}") from None
    return found


@takes(type="array", items=schema_of(_role), minItems=1, uniqueItems=True)
def _roles(raw: Any, path: str) -> tuple[str, ...]:
    if not isinstance(raw, list) or not raw:
        raise Invalid.of(path, "wrong_type", 'must be a list of roles, like ["admin", "member"]')
    found = tuple(_role(one, f"{path}.{place}") for place, one in enumerate(raw))
    if len(set(found)) < len(found):
        raise Invalid.of(path, "not_unique", "has a role twice")
    return found


_TASK: dict[str, Reader] = {"name": text(_LONGEST_NAME), "schema": _schema, "defaults": _object, "roles": _roles}


@takes(title="NewTask", **object_schema(_TASK, required=("name",)))
def _task(raw: Any, path: str) -> dict[str, Any]:
    found = object_of(raw, path, _TASK, required=("name",))
    if found["name"] in BUILT_IN:
        raise Invalid.of(f"{path}.name", "reserved", "is a built-in task, which workers register; choose another name")
    return found


@takes(type="array", items=schema_of(_task), maxItems=MOST_TASKS)
def _tasks(raw: Any, path: str) -> list[dict[str, Any]]:
    if not isinstance(raw, list) or len(raw) > MOST_TASKS:
        raise Invalid.of(
            path, "wrong_type", f'must be a list of at most {MOST_TASKS} tasks, like [{{"name": "hello"}}]'
        )
    found, problems, seen = [], list[Problem](), set[str]()
    for place, one in enumerate(raw):
        try:
            found.append(_task(one, f"{path}.{place}"))
        except Invalid as wrong:
            problems += wrong.problems
            continue
        if found[-1]["name"] in seen:
            problems.append(
                Problem(f"{path}.{place}.name", "not_unique", "is the name of another task of this request")
            )
        seen.add(found[-1]["name"])
    if problems:
        raise Invalid(*problems)
    return found


FIELDS: Mapping[str, Reader] = {"tasks": _tasks}


async def register(api: Api, request: Request, caller: Caller) -> Outcome:
    """Register tasks like a worker that starts now: the newest registration of a name counts, whoever made it."""
    raw, now, problems = await read_object(request), api.clock.now(), list[Problem]()
    found = read_fields(raw, FIELDS, problems)
    if "tasks" not in raw:
        problems.append(Problem("tasks", "required", 'is required, like {"tasks": [{"name": "hello"}]}'))
    given = found.get("tasks", [])
    for place, task in enumerate(given):
        problems += _default_problems(task, f"tasks.{place}.defaults", now)
    if problems:
        raise Invalid(*problems)
    tasks = [_registered(task, now) for task in given]
    if tasks:
        await api.engine.fleet.announce(tasks, now)
    shown = answer({"tasks": await shown_tasks(api, tasks)})
    return Outcome(shown, (), Line({"tasks": [task.name for task in tasks]}))


def _registered(task: Mapping[str, Any], now: Instant) -> Task:
    return Task(
        task["name"],
        task.get("schema", b'{"type":"object"}'),
        msgspec.json.encode(task.get("defaults", {})),
        task.get("roles", (Role.ADMIN.value, Role.MEMBER.value)),
        now,
    )


def _default_problems(task: Mapping[str, Any], path: str, now: Instant) -> list[Problem]:
    """Return what a job that takes these defaults would be refused for."""
    defaults = task.get("defaults", {})
    unknown = [
        Problem(f"{path}.{name}", "unknown_field", f"is not a default of tasks; give {', '.join(DEFAULTED)}")
        for name in defaults
        if name not in DEFAULTED
    ]
    try:
        define({"task": task["name"], **{name: defaults[name] for name in DEFAULTED if name in defaults}}, {}, now)
    except Invalid as wrong:
        return unknown + list(wrong.under(path).problems)
    return unknown
