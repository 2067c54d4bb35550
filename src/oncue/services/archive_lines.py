"""The lines of the archive: a run has the fields of the API's, with its user and payload; times are RFC 3339."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

import msgspec

from oncue.domain.ids import ClassId, UserNumber
from oncue.domain.instants import rfc3339
from oncue.domain.ledger import Entry
from oncue.domain.placement import ClassKey
from oncue.domain.reference import MARK, read_reference
from oncue.domain.run import RunView
from oncue.domain.tried import attempt_number, attempts_of, lag_ms, last_failure, show_attempt, time_or_none
from oncue.engines.port import ArchiveRow, AuditEntry

UNKNOWN = "?"  # a task whose class is gone

_encode = msgspec.json.Encoder().encode
_NOTHING = msgspec.Raw(b"null")


class Names(msgspec.Struct, frozen=True):
    """Names for the numbers in rows."""

    users: Mapping[UserNumber, str]
    tasks: Mapping[ClassId, ClassKey]


def line(row: ArchiveRow, names: Names) -> bytes:
    """Return a row as a line of JSON, with its end of line."""
    user_id = names.users.get(row.uid)
    match row.of:
        case RunView():
            shown = _run(row.of, user_id, names.tasks)
        case Entry():
            shown = _occurrences(row.of, user_id, rfc3339(row.at))
        case AuditEntry():
            shown = _deed(row.of, user_id)
        case _:
            assert_never(row.of)
    return _encode(shown) + b"\n"


def _run(found: RunView, user_id: str | None, tasks: Mapping[ClassId, ClassKey]) -> dict[str, Any]:
    tried = attempts_of(found)
    failed = last_failure(tried)
    task = tasks.get(found.class_id)
    return {
        "run_id": found.run_id,
        "job_id": found.job_id,
        "user_id": user_id,
        "task": UNKNOWN if task is None else task.task,
        "status": found.state.name.lower(),
        "scheduled_for": rfc3339(found.wanted if found.nominal is None else found.nominal),
        "start_time": time_or_none(found.started_at),
        "end_time": time_or_none(found.ended_at),
        "attempt_number": attempt_number(found, tried),
        "executor_id": found.worker_id,
        "error_type": found.error_type or (failed and failed.error_type),
        "error_message": found.error or (failed and failed.error),
        "lag_ms": lag_ms(found, tried),
        "payload": _value(found.payload),
        "result": _value(found.result),
        "objects": _objects(payload=found.payload, result=found.result),
        "attempts": [show_attempt(one) for one in tried],
    }


def _occurrences(found: Entry, user_id: str | None, at: str) -> dict[str, Any]:
    return {
        "job_id": found.job_id,
        "user_id": user_id,
        "at": at,
        "scheduled_for": rfc3339(found.first),
        "until": rfc3339(found.last),
        "count": found.count,
        "outcome": found.outcome,
        "reason": found.reason,
        "run_id": found.run_id,
    }


def _deed(found: AuditEntry, user_id: str | None) -> dict[str, Any]:
    return {
        "at": rfc3339(found.at),
        "user_id": user_id,
        "key_id": found.key_id,
        "action": found.action,
        "object_id": found.object_id,
        "detail": _detail(found.detail),
        "address": found.address,
    }


def _detail(stored: bytes | None) -> dict[str, Any] | None:
    """Return details without the names of users: a user who is forgotten must not be left in the files of others."""
    found = None if stored is None else msgspec.json.decode(stored)
    return {name: value for name, value in found.items() if name != "user_id"} if isinstance(found, dict) else None


def _value(stored: bytes | None) -> msgspec.Raw:
    return _NOTHING if stored is None or stored.startswith(MARK) else msgspec.Raw(stored)


def _objects(**stored: bytes | None) -> dict[str, Any]:
    """Values that were in object storage: where the archive has them, which is nowhere if they were lost by then."""
    references = {name: read_reference(value) for name, value in stored.items()}
    return {
        name: {"key": found.key or None, "size": found.size, "sha256": found.sha256}
        for name, found in references.items()
        if found is not None
    }
