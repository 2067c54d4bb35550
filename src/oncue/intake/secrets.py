"""Secrets in payloads: named well, for whom, and not in plain text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from oncue.domain.errors import Problem, first_problems
from oncue.domain.job import Spec
from oncue.domain.plain_text import printable
from oncue.domain.secret_refs import HOW, SecretAccess, may_name_any, misnamed, problems_of
from oncue.intake.context import Author, Intake

PLAIN = "plain_secret"  # the code of a warning or problem
NAMING_TASKS = {"http": "headers", "command": "env"}  # built-in ones, each with the field whose values may name some
HOLD_TOKENS = frozenset({"authorization", "cookie", "proxy-authorization", "x-api-key"})

Warnings = Sequence[Mapping[str, str]]


def reference_problems(task: str, payload: Mapping[str, Any]) -> list[Problem]:
    """Return what is wrong with the secrets that a payload of a built-in task names. Schemas say it less clearly."""
    return first_problems(_reference_problems(task, payload)) if task in NAMING_TASKS else []


def _reference_problems(task: str, payload: Mapping[str, Any]) -> Iterator[Problem]:
    if task == "http":
        yield from _problems_of(payload.get("url"), "payload.url")
        yield from misnamed(payload.get("body"), "payload.body")
    field = NAMING_TASKS[task]
    values = payload.get(field)
    for name, value in values.items() if isinstance(values, dict) else ():
        yield from _problems_of(value, f"payload.{field}.{printable(name)}")


def _problems_of(value: Any, path: str) -> Iterator[Problem]:
    if isinstance(value, dict):
        yield from problems_of(value, path)


def plain_problems(intake: Intake, task: str, payload: Any) -> list[Problem]:
    """Return what is refused because it is a token in plain text."""
    if intake.plain_secrets != "refuse":
        return []
    message = f"would be stored in plain text; {HOW}"
    return [Problem(path, PLAIN, message) for path in _plain(task, payload)]


def warnings_of(intake: Intake, task: str, payload: Any, prefix: str = "") -> Warnings:
    """Return warnings about tokens in plain text, which are accepted."""
    if intake.plain_secrets != "warn":
        return ()
    message = f"is stored in plain text; {HOW}"
    return [{"path": prefix + path, "code": PLAIN, "message": message} for path in _plain(task, payload)]


def _plain(task: str, payload: Any) -> Iterator[str]:
    match payload:
        case {"headers": dict(headers)} if task == "http":
            for name, value in headers.items():
                if isinstance(value, str) and name.lower() in HOLD_TOKENS:
                    yield f"payload.headers.{name}"


def with_access(intake: Intake, spec: Spec, payload: bytes | None, author: Author, owner: str | None = None) -> Spec:
    """Return the definition with the secrets that its runs may use, by the role of who has written its payload.

    `owner`: of a job of another user. It may use what its owner has, and nothing shared: what an administrator changes
    in it does not vouch for the rest.
    """
    access = None
    if may_name_any(payload):
        shared = owner is None and author.role in intake.secret_roles
        access = SecretAccess(author.user_id if owner is None else owner, shared)
    return spec if spec.secrets == access else replace(spec, secrets=access)
