"""Signatures of webhooks, by Standard Webhooks (symmetric, `v1`), and the secrets that make them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence

from oncue.domain.ids import UserNumber
from oncue.domain.instants import DAY, SECOND, Duration, Instant

PREFIX = "whsec_"
BOTH_SIGN_FOR = Duration(DAY)  # after a rotation


def derived_secret(master: bytes, uid: UserNumber, url: str, generation: int) -> str:
    """Return the secret of a user's URL. It is stored nowhere: whoever has the master key can derive it again."""
    said = f"{uid}\x1f{url}\x1f{generation}".encode()
    return PREFIX + base64.b64encode(hmac.digest(master, said, "sha256")).decode()


def url_hash(url: str) -> bytes:
    return hashlib.blake2b(url.encode(), digest_size=16).digest()


def generations(number: int, rotated_at: Instant | None, now: Instant) -> list[int]:
    """Return which secrets sign: the newest, and for a day after a rotation the one before."""
    if rotated_at is not None and number and now < rotated_at + BOTH_SIGN_FOR:
        return [number, number - 1]
    return [number]


def key_of(secret: str) -> bytes:
    """Return the key of a secret. ValueError: it is not whsec_ and base64."""
    if not secret.startswith(PREFIX):
        raise ValueError(f"must begin with {PREFIX}")
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except binascii.Error:
        raise ValueError(f"must be base64 after {PREFIX}") from None
    if len(key) < 16:
        raise ValueError("is too short; at least 24 bytes are recommended")
    return key


def signed_headers(message_id: str, content: bytes, secrets: Sequence[str], now: Instant) -> dict[str, str]:
    """Return the headers with a signature by each secret."""
    at = now // SECOND
    said = f"{message_id}.{at}.".encode() + content
    made = (base64.b64encode(hmac.digest(key_of(secret), said, "sha256")).decode() for secret in secrets)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(at),
        "webhook-signature": " ".join(f"v1,{signature}" for signature in made),
    }
