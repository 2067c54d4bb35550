"""What the audit log says of a user who was forgotten: what was done stays; the name becomes a number."""

from __future__ import annotations

import msgspec

from oncue.domain.keys import number_name
from oncue.engines.account_values import Forgotten

Redacted = tuple[bytes | None, str | None]


def redacted(uid: int | None, detail: bytes | None, address: str | None, forgotten: Forgotten) -> Redacted:
    """Return the detail and the address of an entry of this user's, or of another's, as they may stay."""
    name = msgspec.json.encode(forgotten.user_id)
    if detail is not None and name in detail:
        found = msgspec.json.decode(detail)
        if isinstance(found, dict) and found.get("user_id") == forgotten.user_id:
            detail = msgspec.json.encode({**found, "user_id": number_name(forgotten.uid)})
    return detail, None if uid == forgotten.uid else address
