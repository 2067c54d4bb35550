"""Calls on API keys. All but `mine` are for administrators."""

from __future__ import annotations

from datetime import timedelta

from oncue.client.call import Call, Id, change, field, get, make, model, nothing, path
from oncue.shapes.accounts import Key, Me, NewKey


def create(
    user_id: str,
    role: str = "member",
    *,
    note: str | None = None,
    expires_in: timedelta | str | None = None,
    idempotency_key: str | None = None,
) -> Call[NewKey]:
    """Create an API key for a user: admin, member or viewer. Its secret, `key`, is shown only once.

    `expires_in` is a timedelta or a duration like `"90d"`; without it the key does not expire.
    """
    asked = {"user_id": user_id, "role": role, "note": note, "expires_in": expires_in}
    sent = {name: value for name, value in asked.items() if value is not None}
    return make(path("keys"), model(NewKey), sent, idempotency_key)


def mine() -> Call[Me]:
    """Get the user and role of this client's key."""
    return get(path("me"), model(Me))


def listed() -> Call[tuple[Key, ...]]:
    """List all API keys, without their secrets."""
    return get(path("keys"), field("keys", tuple[Key, ...]))


def revoke(key_id: Id) -> Call[None]:
    """Revoke an API key; it takes effect within a second."""
    return change("DELETE", path("keys", key_id), nothing)
