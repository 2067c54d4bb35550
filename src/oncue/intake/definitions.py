"""Check definitions of jobs: one, or many one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from oncue.clock import Clock
from oncue.domain.definition import define
from oncue.domain.errors import MOST_PROBLEMS, UNCOUNTED, Invalid, Problem, bounded, tried
from oncue.domain.ids import ClassId
from oncue.domain.instants import SECOND, Instant
from oncue.domain.job import Spec
from oncue.domain.notify import read_notify, refused
from oncue.domain.trace import Trace
from oncue.engines.port import Role, Task
from oncue.intake.context import TURN, Author, Intake
from oncue.intake.payloads import beside_others, check_task_role, payload_alone, problems_with
from oncue.intake.secrets import warnings_of, with_access
from oncue.intake.task_registry import defaults_of

COUNTED_FOR = SECOND


async def checked(
    intake: Intake,
    raw: dict[str, Any],
    author: Author,
    now: Instant,
    owner: str | None = None,
    lookups: int | None = None,
) -> tuple[Spec, bytes | None]:
    """Return the definition if all of it is valid; else raise all its problems at once.

    Its payload is as it will be stored: call `LargeValues.save` before that. `lookups`: see `TaskRegistry.find`.
    Forbidden: the task is for other roles.
    """
    name = raw.get("task")
    task = await intake.task_registry.find(name, lookups) if isinstance(name, str) else None
    if task is not None:
        check_task_role(task, author)
    spec, payload = await beside_others(raw.get("payload"), lambda: _defined(intake, raw, task, author, now))
    return with_access(intake, spec, payload, author, owner), await intake.large.referred(payload, author.uid)


def _defined(
    intake: Intake, raw: dict[str, Any], task: Task | None, author: Author, now: Instant
) -> tuple[Spec, bytes | None]:
    problems: list[Problem] = []
    try:
        spec, payload = define(raw, {} if task is None else defaults_of(task), now, intake.limits)
        problems += refused(spec.notify or (), intake.notify_policy, "notify", anybody=author.role is Role.ADMIN)
    except Invalid as wrong:
        problems += wrong.problems
        entries = tried([], read_notify, raw.get("notify") or [], "notify") or ()
        problems += refused(entries, intake.notify_policy, "notify", anybody=author.role is Role.ADMIN)
    named = {problem.path.partition(".")[0] for problem in problems}
    if task is None and "task" not in named:
        problems.append(Problem("task", "unknown_task", intake.task_registry.not_found(raw["task"], author.role)))
    if task is not None and "payload" not in named:
        problems += problems_with(intake, task, raw.get("payload") or {})
    if problems:
        raise Invalid(*problems)
    return spec, payload


class Pace:
    """Paces the check of many jobs: other requests get their turn, and of very many problems the rest is counted only
    for a while, because wrong names and time zones are compared with many others.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rested = clock.monotonic()
        self._since: Instant | None = None

    async def goes_on(self, problems: list[Problem]) -> bool:
        """Return whether to check the next job. `problems` of those before are cut to a bounded list."""
        if self._clock.monotonic() - self._rested > TURN:
            await asyncio.sleep(0)
            self._rested = self._clock.monotonic()
        if len(problems) <= MOST_PROBLEMS:
            return True
        now = self._clock.monotonic()
        self._since = now if self._since is None else self._since
        stops = now - self._since > COUNTED_FOR
        problems[:] = bounded([*problems, UNCOUNTED] if stops else problems)
        return not stops


def in_trace(spec: Spec, trace: Trace | None) -> Spec:
    """Return the definition with the trace context of what asked for it, if it has one."""
    return spec if trace is None else replace(spec, trace=trace)


class Definitions:
    """Checks one author's definitions one after the other. If a definition differs from the previous one in its
    payload only, as most do in a batch, only the payload is checked.
    """

    def __init__(self, intake: Intake, author: Author, now: Instant, trace: Trace | None) -> None:
        self._intake = intake
        self._author = author
        self._now = now
        self._trace = trace
        self._lookups = intake.task_registry.lookups
        self._before: tuple[bytes, Task, Spec, ClassId] | None = None
        self.warnings: list[Mapping[str, str]] = []

    def warn(self, task: str, raw: dict[str, Any], index: int) -> None:
        """Note what is accepted and should not stay so."""
        if len(self.warnings) < MOST_PROBLEMS:
            self.warnings += warnings_of(self._intake, task, raw.get("payload"), f"jobs.{index}.")

    async def checked(self, raw: Any) -> tuple[Spec, ClassId, bytes | None]:
        """Return the definition, the number of its class if that is cached, and the payload."""
        if not isinstance(raw, dict):
            raise Invalid.of("", "wrong_type", 'is an object like {"task": "send_email"}')
        intake = self._intake
        rest = _encode({name: value for name, value in raw.items() if name != "payload"})
        if self._before is not None and self._before[0] == rest:
            _, task, spec, class_id = self._before
            given = raw.get("payload")
            payload = await beside_others(given, lambda: payload_alone(intake, task, given))
            spec = with_access(intake, spec, payload, self._author)
            return spec, class_id, await intake.large.referred(payload, self._author.uid)
        spec, payload = await checked(intake, raw, self._author, self._now, lookups=self._lookups)
        spec = in_trace(spec, self._trace)
        class_id, found = intake.class_id(spec.class_key), await intake.task_registry.find(spec.task)
        self._before = None if found is None else (rest, found, spec, class_id)
        return spec, class_id, payload


def _encode(raw: dict[str, Any]) -> bytes:
    """Encode a definition for comparison. Unlike the values themselves, 1 and true differ when encoded."""
    try:
        return msgspec.json.encode(raw)
    except UnicodeEncodeError:  # not storable text: its validation reports it
        return b""
