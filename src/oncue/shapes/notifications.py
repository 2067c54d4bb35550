"""A user's notifications: default entries, and where messages go."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Where notices did not arrive lately."""

    target: str
    """webhook URL, e-mail addresses or name of a secret"""
    dead: int
    """how many notices in a row could not be delivered"""
    muted_at: datetime | None = None
    """since when none is sent; a test that arrives ends it"""


class Notifications(msgspec.Struct, frozen=True, kw_only=True):
    """A user's default, for jobs without `notify`, and targets with problems."""

    entries: list[dict[str, Any]] = []
    muted_until: datetime | None = None
    """no messages until then, whatever a job says"""
    targets: tuple[Target, ...] = ()


class WebhookSecret(msgspec.Struct, frozen=True, kw_only=True):
    """The secret that signs the notices to a URL, and after a rotation the one before, for a day."""

    url: str
    secret: str
    old_secret: str | None = None

    def __repr__(self) -> str:  # what is printed ends up in logs
        return f"WebhookSecret(url={self.url!r}, secret=…)"
