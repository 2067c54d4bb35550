"""Calls on API keys. All but `mine` are for administrators."""

from __future__ import annotations

from oncue.client.call import Call, change, field, get, make, model, nothing, path
from oncue.shapes.accounts import Key, Me, NewKey


def create(user_id: str, role: str = "member", *, idempotency_key: str | None = None) -> Call[NewKey]:
    """Make a key for a user: admin, member or viewer. Its secret, `key`, is told this once."""
    return make(path("keys"), model(NewKey), {"user_id": user_id, "role": role}, idempotency_key)


def mine() -> Call[Me]:
    """Whose key this client asks with, and what it may do."""
    return get(path("me"), model(Me))


def listed() -> Call[tuple[Key, ...]]:
    """Every key there is, without its secret."""
    return get(path("keys"), field("keys", tuple[Key, ...]))


def revoke(key_id: str) -> Call[None]:
    """The key is good for nothing any more, within a second."""
    return change("DELETE", path("keys", key_id), nothing)
