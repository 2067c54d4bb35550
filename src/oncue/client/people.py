"""Calls on users, their API keys and their notifications. Those on users and keys, except `me`, need an admin key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from oncue.client.call import Call, Id, Page, change, field, get, make, model, nothing, page_of, path
from oncue.shapes.accounts import ForgottenUser, Key, Me, NewKey, User
from oncue.shapes.notifications import Notifications, WebhookSecret


def create_key(
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


def me() -> Call[Me]:
    """Get the user and role of this client's key."""
    return get(path("me"), model(Me))


def keys() -> Call[tuple[Key, ...]]:
    """List all API keys, without their secrets."""
    return get(path("keys"), field("keys", tuple[Key, ...]))


def revoke_key(key_id: Id) -> Call[None]:
    """Revoke an API key; it takes effect within a second."""
    return change("DELETE", path("keys", key_id), nothing)


def users_page(*, limit: int | None = None, page_token: str | None = None) -> Call[Page[User]]:
    """List users with their keys, open jobs and quotas."""
    return get(path("users"), page_of("users", User), limit=limit, page_token=page_token)


def forget_user(user_id: str) -> Call[ForgottenUser]:
    """Forget a user for good: keys, jobs, runs, dead letters, objects and archived files. It takes a while."""
    return Call(method="DELETE", path=path("users", user_id), parse=model(ForgottenUser), params={"purge": "true"})


def notifications() -> Call[Notifications]:
    """Get your default entries, and targets that notices did not reach."""
    return get(path("notifications"), model(Notifications))


def put_notifications(
    entries: Sequence[Mapping[str, Any]], muted_until: str | datetime | None = None
) -> Call[Notifications]:
    """Replace your default as a whole."""
    body = {"entries": list(entries), "muted_until": muted_until}
    return change("PUT", path("notifications"), model(Notifications), body)


def test_notice(entry: Mapping[str, Any]) -> Call[UUID]:
    """Send a test notice; returns the id of its run."""
    return change("POST", path("notifications", "test"), field("run_id", UUID), {"entry": dict(entry)})


def webhook_secret(url: str) -> Call[WebhookSecret]:
    """Get the secret that signs the notices to a URL."""
    return get(path("notifications", "secret"), model(WebhookSecret), url=url)


def rotate_webhook_secret(url: str) -> Call[WebhookSecret]:
    """Replace that secret. For a day the old one signs, too."""
    return change("POST", path("notifications", "secret", "rotate"), model(WebhookSecret), {"url": url})
