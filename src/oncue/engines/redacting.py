"""What the audit log says of a user who was forgotten: what was done stays; the name becomes a number."""

from __future__ import annotations

from typing import Any

import msgspec

from oncue.domain.keys import number_name
from oncue.engines.account_values import Forgotten

Redacted = tuple[bytes | None, str | None]


def redacted(uid: int | None, detail: bytes | None, address: str | None, forgotten: Forgotten) -> Redacted:
    """Return the detail and the address of an entry of this user's, or of another's, as they may stay."""
    name = msgspec.json.encode(forgotten.user_id)
    if detail is not None and name in detail:
        detail = msgspec.json.encode(_numbered(msgspec.json.decode(detail), forgotten))
    return detail, None if uid == forgotten.uid else address


def _numbered(found: Any, forgotten: Forgotten) -> Any:
    """Replace the name where it is a `user_id`: of the entry, or of its filter."""
    if not isinstance(found, dict):
        return found
    kept = {name: _numbered(value, forgotten) if name == "filter" else value for name, value in found.items()}
    return kept | ({"user_id": number_name(forgotten.uid)} if kept.get("user_id") == forgotten.user_id else {})
