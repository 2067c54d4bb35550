"""Check payloads against the task that gets them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from oncue.domain.addresses import check_url
from oncue.domain.definition import define_payload
from oncue.domain.errors import Forbidden, Invalid, Problem, first_problems
from oncue.domain.headers import header_fault
from oncue.domain.plain_json import has_more_values
from oncue.domain.plain_text import printable
from oncue.engines.port import Task
from oncue.intake.context import Author, Intake
from oncue.intake.secrets import plain_problems, reference_problems
from oncue.intake.task_registry import payload_problems

CHECKED_AT_ONCE = 5_000  # values of a payload

T = TypeVar("T")


def check_task_role(task: Task, author: Author) -> None:
    """Forbidden: the task is for other roles."""
    if author.role not in task.roles:
        raise Forbidden(f"Task {printable(task.name)!r} needs a key with one of these roles: {', '.join(task.roles)}.")


async def beside_others(payload: Any, check: Callable[[], T]) -> T:
    """Check a payload. One with many values is checked in a thread: other requests need not wait for it."""
    return await asyncio.to_thread(check) if has_more_values(payload, CHECKED_AT_ONCE) else check()


def payload_alone(intake: Intake, task: Task, given: Any) -> bytes | None:
    payload = define_payload(given, intake.limits)
    if problems := problems_with(intake, task, given or {}):
        raise Invalid(*problems)
    return payload


def problems_with(intake: Intake, task: Task, payload: dict[str, Any]) -> list[Problem]:
    problems = reference_problems(task.name, payload) or payload_problems(task, payload)
    if problems:
        return problems
    if task.name == "http":
        problems += first_problems(_request_problems(intake, payload))
    return problems + plain_problems(intake, task.name, payload)


def _request_problems(intake: Intake, payload: dict[str, Any]) -> Iterator[Problem]:
    """Return what the worker would refuse to send. A secret's value is checked before each call, its header now."""
    if isinstance(payload["url"], str):
        try:
            check_url(payload["url"], intake.reachable)
        except Invalid as wrong:
            yield from wrong.problems
    headers = payload.get("headers")
    for name, value in headers.items() if isinstance(headers, dict) else ():
        if fault := header_fault(name, value if isinstance(value, str) else ""):
            yield Problem(f"payload.headers.{printable(name)}", "bad_header", fault)
