"""Tasks as workers registered them, and whether a payload fits a task."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from heapq import nsmallest
from typing import Any

import jsonschema_rs
import msgspec

from oncue.clock import Clock
from oncue.domain.errors import Problem, first_problems
from oncue.domain.instants import SECOND, Duration, Instant
from oncue.domain.meanings import nearest
from oncue.domain.plain_text import printable
from oncue.domain.secret_refs import HOW
from oncue.engines.port import Fleet, Role, Task
from oncue.log import log

TRUSTED_FOR = Duration(SECOND // 2)  # how long a registration is cached, and an older one may still be used
MISS_LOOKUP_INTERVAL = 0.02  # seconds between two lookups of unknown names: a client that sends nonsense costs no more
LONGEST_MESSAGE = 200  # characters
MOST_NAMED = 5  # tasks, where one is not found
MOST_COMPARED = 200  # names of about the same length: a request may have many unknown ones
_SECRET = b'"#/$defs/Secret"'


class TaskRegistry:
    def __init__(self, fleet: Fleet, clock: Clock) -> None:
        self._fleet = fleet
        self._clock = clock
        self._tasks: dict[str, Task] = {}
        self._read_at: Instant | None = None
        self._turn = asyncio.Lock()
        self._begun = self._answered = 0  # counts of lookups

    @property
    def lookups(self) -> int:
        """Return how many look-ups have begun."""
        return self._begun

    async def find(self, name: str, since: int | None = None) -> Task | None:
        """Find the task with this name. An unknown one is looked up once more: it may have just been registered.

        `since`: `lookups` when the request began. One that began later serves all jobs of the request.
        """
        if since is not None and self._answered > since:
            return self._tasks.get(name)
        fresh = self._read_at is not None and self._clock.monotonic() - self._read_at < TRUSTED_FOR
        if not fresh or name not in self._tasks:
            await self._look(again=fresh)
        return self._tasks.get(name)

    def not_found(self, name: str, role: Role) -> str:
        """Say that no task has this name, which one is meant perhaps, and some that a user of this role may use."""
        names = sorted(task.name for task in self._tasks.values() if role in task.roles)
        wrong = f"task {printable(name)!r} is not registered"
        if not names:
            return f"{wrong}, and no other task is; start a worker that has this task"
        alike = nearest(name, nsmallest(MOST_COMPARED, names, key=lambda one: abs(len(one) - len(name))))
        meant = "." if alike is None else f"; did you mean {printable(alike)!r}?"
        some = ", ".join(printable(one) for one in names[:MOST_NAMED])
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        return f"{wrong}{meant} Registered: {some}{more}; check the spelling, or start a worker that has this task"

    async def _look(self, *, again: bool) -> None:
        """Read the tasks from the database as of now. Reads run one by one, and one serves all that waited for it."""
        before = self._begun
        async with self._turn:
            if self._answered > before:
                return
            if again:
                await _pause()
            self._begun += 1
            asked_at = self._clock.monotonic()
            self._tasks = {task.name: task for task in await self._fleet.tasks()}
            self._read_at, self._answered = asked_at, self._begun


async def _pause() -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(MISS_LOOKUP_INTERVAL):
            await asyncio.Event().wait()


def defaults_of(task: Task) -> dict[str, Any]:
    """The task's defaults for fields that its jobs leave out."""
    return _decoded(task.defaults)


@lru_cache(maxsize=1_024)
def _decoded(defaults: bytes) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(defaults)
    return found


def payload_problems(task: Task, payload: Mapping[str, Any]) -> list[Problem]:
    """Why a payload does not fit the task's parameters."""
    validator = _validator(task.schema)
    if validator is None or validator.is_valid(payload):
        return []
    return first_problems(_problems(task, validator, payload))


def _problems(task: Task, validator: jsonschema_rs.Validator, payload: Mapping[str, Any]) -> Iterator[Problem]:
    name = repr(printable(task.name))
    for error in validator.iter_errors(payload):
        path = ".".join(["payload", *map(str, error.instance_path)])
        if list(error.schema_path[:2]) == ["$defs", "Secret"]:
            yield Problem(printable(path.removesuffix(".secret")), "bad_secret", f"must {HOW}")
            continue
        match error.kind:
            case jsonschema_rs.ValidationErrorKind.Required(property=missing):
                yield Problem(printable(f"{path}.{missing}"), "required", f"is required by task {name}")
            case jsonschema_rs.ValidationErrorKind.AdditionalProperties(unexpected=names):
                for other in names:
                    yield Problem(printable(f"{path}.{other}"), "unknown_field", f"is not a parameter of task {name}")
            case _ if _may_hold_secret(task.schema, error.schema_path[:-1]):  # no message has its value
                yield Problem(printable(path), "bad_secret", f"does not fit task {name}; to pass a secret, {HOW}")
            case jsonschema_rs.ValidationErrorKind.AnyOf() if types := _types(error):
                given = _shortened(msgspec.json.encode(error.instance).decode())
                yield Problem(printable(path), "mismatch", f"{given} is not of types {types}")
            case _:
                yield Problem(printable(path), "mismatch", _shortened(error.message))


def _types(error: jsonschema_rs.ValidationError) -> str:
    """Name the types of which a value has none, as for a parameter that may be None. Empty: its type is not all."""
    branches = getattr(error.kind, "context", ())
    found = [getattr(one.kind, "types", ()) for branch in branches for one in branch if one.instance == error.instance]
    whole = all(found) and len(found) == sum(map(len, branches))
    return ", ".join(f'"{name}"' for types in found for name in types) if whole else ""


def _may_hold_secret(schema: bytes, where: Sequence[str | int]) -> bool:
    """Whether a value that this part of a schema describes is, or contains, a parameter of the type Secret."""
    if _SECRET not in schema:
        return False
    root = part = msgspec.json.decode(schema)
    for name in where:
        part = part[name]
    todo, seen = [part], set[str]()
    while todo:
        one = todo.pop()
        if isinstance(one, list):
            todo += one
        elif isinstance(one, dict):
            todo += one.values()
            ref = one.get("$ref")
            if isinstance(ref, str) and ref not in seen:
                seen.add(ref)
                todo.append(root.get("$defs", {}).get(ref.removeprefix("#/$defs/")))
    return "#/$defs/Secret" in seen


def _shortened(message: str) -> str:
    return message if len(message) <= LONGEST_MESSAGE else f"{message[:LONGEST_MESSAGE]}…"


@lru_cache(maxsize=1_024)
def _validator(schema: bytes) -> jsonschema_rs.Validator | None:
    """None: the registered schema is invalid, so only the worker can tell whether a payload fits."""
    try:
        return jsonschema_rs.validator_for(msgspec.json.decode(schema), retriever=nothing_from_outside)
    except (ValueError, jsonschema_rs.ReferencingError) as wrong:
        log.warning(
            "A registered schema is invalid; only workers check its payloads", kind="schema_invalid", exc_info=wrong
        )
        return None


def nothing_from_outside(uri: str) -> Any:
    """Refuse to fetch what a schema refers to."""
    raise ValueError(f"{uri} is not part of the schema")
