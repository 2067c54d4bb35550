"""Compare two definitions of a job as users see them."""

from __future__ import annotations

from typing import Any

import msgspec

from oncue.domain.declared import FieldChange, differences, same_payload
from oncue.domain.job import Spec
from oncue.domain.reference import size_of
from oncue.domain.shown_definition import show_definition

LONGEST_VALUE = 4 * 1024  # bytes of a payload in a comparison


def definition_changes(
    old: Spec, old_payload: bytes | None, new: Spec, new_payload: bytes | None
) -> dict[str, FieldChange]:
    """Return the fields that differ; a large payload is shown by its size."""
    changes = differences(as_sent(old), as_sent(new))
    if not same_payload(old_payload, new_payload):
        changes["payload"] = FieldChange(_brief(old_payload), _brief(new_payload))
    return changes


def as_sent(spec: Spec) -> dict[str, Any]:
    """Return a definition as JSON has it: enums as text, tuples as lists."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(show_definition(spec)))
    return found


def _brief(payload: bytes | None) -> Any:
    size = size_of(payload)
    return f"({size} bytes)" if size > LONGEST_VALUE else msgspec.json.decode(payload or b"null")
