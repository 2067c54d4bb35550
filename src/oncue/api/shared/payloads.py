"""Payloads that a new run gets instead of the one its job or an earlier run has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from oncue.api.http.auth import Caller
from oncue.api.shared.checking import Checking
from oncue.domain.definition import define_payload
from oncue.domain.edits import patched
from oncue.domain.errors import Invalid, ObjectLost, Problem
from oncue.domain.fields import Reader, takes
from oncue.domain.ids import UserNumber
from oncue.domain.job import Spec
from oncue.domain.plain_text import printable
from oncue.intake.payloads import beside_others, check_task_role, payload_alone
from oncue.intake.secrets import with_access

LOST = "is no longer in object storage, or is damaged there; send a whole payload"


@takes(type=["object", "null"])
def _arguments(raw: Any, path: str) -> dict[str, Any]:
    if raw is not None and not isinstance(raw, dict):
        raise Invalid.of(path, "wrong_type", 'is an object with the arguments of the task, like {"to": "ada"}')
    return raw or {}


@takes(type="object")
def _patch(raw: Any, path: str) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise Invalid.of(path, "wrong_type", 'is an object with what changes, like {"to": "ada"}; null removes a name')
    return raw


OWN_PAYLOAD: Mapping[str, Reader] = {"payload": _arguments}
REPLACING: Mapping[str, Reader] = {**OWN_PAYLOAD, "payload_patch": _patch}  # one of them at most


class Replacement(msgspec.Struct, frozen=True):
    """What a new run gets instead of a stored payload: another one, or the stored one patched (RFC 7396)."""

    payload: dict[str, Any] | None = None
    patch: dict[str, Any] | None = None


def read_replacement(api: Checking, found: Mapping[str, Any], problems: list[Problem]) -> Replacement | None:
    """Return what was asked for, None if nothing was. What is wrong with it alone is added to the problems."""
    payload, patch = found.get("payload"), found.get("payload_patch")
    if payload is None and patch is None:
        return None
    if payload is not None and patch is not None:
        problems.append(Problem("payload_patch", "conflict", "cannot be sent with payload; send one of them"))
    elif patch is not None:
        try:
            define_payload(patch, api.intake.limits)  # also its depth, before anything walks through it
        except Invalid as wrong:
            problems += (
                Problem(f"{p.path.replace('payload', 'payload_patch', 1)}", p.code, p.message) for p in wrong.problems
            )
    return Replacement(payload, patch)


async def replaced(
    api: Checking, caller: Caller, spec: Spec, stored: bytes | None, new: Replacement, owner: UserNumber
) -> tuple[Spec, bytes | None]:
    """Return the definition and the payload of a run of this user, checked like those of a new job.

    The payload is as it will be stored: call `api.large.save` before that.
    """
    task = await api.intake.task_registry.find(spec.task)
    if task is None:
        message = f"cannot be checked: task {printable(spec.task)!r} is not registered; start a worker that has it"
        raise Invalid.of("payload", "unknown_task", message)
    check_task_role(task, caller)
    given = new.payload if new.patch is None else patched(await _decoded(api, stored), new.patch)
    payload = await beside_others(given, lambda: payload_alone(api.intake, task, given))
    name = None if owner == caller.uid else await api.owner_of(owner, caller) or ""
    return with_access(api.intake, spec, payload, caller, name), await api.large.referred(payload, owner)


async def _decoded(api: Checking, stored: bytes | None) -> Any:
    try:
        return msgspec.json.decode(await api.large.read(stored) or b"null")
    except ObjectLost:
        raise Invalid.of("payload", "lost", LOST) from None
