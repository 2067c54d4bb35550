"""Check that a webhook came from oncue: its signature by Standard Webhooks, and its time.

from oncue.client import webhooks

event = webhooks.verify(body, headers, secret)   # raises WebhookRefused
if already_seen(event.webhook_id): ...           # the same at every retry, as is the body
for notice_id in event.notice_ids: ...           # of what happened: each is in one message only
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from typing import Any

import msgspec

from oncue.clock import SystemClock
from oncue.domain.instants import SECOND
from oncue.domain.signing import key_of


class WebhookRefused(Exception):
    """The request is forged, changed, or a replay. Answer with 401 or 403, and do nothing else."""


class Webhook(msgspec.Struct, frozen=True):
    """A request that was checked. `webhook_id` is the id of the message, which is the same at every retry: use it to
    process each message once.
    """

    webhook_id: str
    type: str
    """`run.failed`, `run.recovered`, `digest`, `test`"""
    timestamp: str
    data: dict[str, Any]

    @property
    def notice_ids(self) -> list[str]:
        """The ids of all notices that it tells of: several in a `digest`."""
        notices = self.data.get("notices", [self.data])
        return [one.get("notice_id", self.webhook_id) for one in notices]


class _Body(msgspec.Struct):
    type: str
    timestamp: str
    data: dict[str, Any]


def verify(
    body: bytes, headers: Mapping[str, str], secret: str, tolerance: float = 300, *, now: float | None = None
) -> Webhook:
    """Return the event if the request is genuine; raise `WebhookRefused` if it is not.

    `body` are the bytes as received. `secret` begins with `whsec_`. A request that was signed more than `tolerance`
    seconds before or after `now` is refused, so that a copy cannot be sent again later. ValueError: the secret is none.
    """
    given = {name.lower(): value for name, value in headers.items()}
    try:
        webhook_id, sent_at, signatures = (given[f"webhook-{name}"] for name in ("id", "timestamp", "signature"))
    except KeyError as missing:
        raise WebhookRefused(f"the header {missing} is missing") from None
    at = _seconds(sent_at)
    if abs((SystemClock().now() / SECOND if now is None else now) - at) > tolerance:
        raise WebhookRefused("the request was signed too long ago, or in the future")
    said = f"{webhook_id}.{at}.".encode() + body
    expected = hmac.new(_key(secret), said, hashlib.sha256).digest()
    if not any(hmac.compare_digest(expected, found) for found in _signatures(signatures)):
        raise WebhookRefused("the signature does not match the request")
    try:
        event = msgspec.json.decode(body, type=_Body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise WebhookRefused("the body is not an event") from None
    return Webhook(webhook_id, event.type, event.timestamp, event.data)


def _seconds(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 12):
        raise WebhookRefused("the header webhook-timestamp is not a number of seconds")
    return int(text)


def _key(secret: str) -> bytes:
    """ValueError: the secret is missing or too short, so that anyone could have signed with it."""
    try:
        return key_of(secret or "")
    except ValueError as wrong:
        raise ValueError(f"the secret {wrong}") from None


def _signatures(header: str) -> list[bytes]:
    """Return the signatures of version 1; there are two while a secret is replaced."""
    found = []
    for one in header.split():
        version, _, signature = one.partition(",")
        if version == "v1":
            try:
                found.append(base64.b64decode(signature, validate=True))
            except (binascii.Error, ValueError):
                continue
    return found
