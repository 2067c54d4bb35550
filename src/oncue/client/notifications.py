"""Calls on notifications: whom you want told of jobs that do not say, and the secrets of webhooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from oncue.client.call import Call, change, field, get, model, path
from oncue.shapes.notifications import Notifications, WebhookSecret


def show() -> Call[Notifications]:
    """Get your default entries, and targets that notices did not reach."""
    return get(path("notifications"), model(Notifications))


def put(entries: Sequence[Mapping[str, Any]], muted_until: str | datetime | None = None) -> Call[Notifications]:
    """Replace your default as a whole."""
    body = {"entries": list(entries), "muted_until": muted_until}
    return change("PUT", path("notifications"), model(Notifications), body)


def test(entry: Mapping[str, Any]) -> Call[UUID]:
    """Send a test notice; returns the id of its run."""
    return change("POST", path("notifications", "test"), field("run_id", UUID), {"entry": dict(entry)})


def secret(url: str) -> Call[WebhookSecret]:
    """Get the secret that signs the notices to a URL."""
    return get(path("notifications", "secret"), model(WebhookSecret), url=url)


def rotate_secret(url: str) -> Call[WebhookSecret]:
    """Replace that secret. For a day the old one signs, too."""
    return change("POST", path("notifications", "secret", "rotate"), model(WebhookSecret), {"url": url})
