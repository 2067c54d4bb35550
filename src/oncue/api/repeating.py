"""Idempotency keys: a request that is sent again gets the answer of the first, and nothing is made twice."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
from starlette.requests import Request

from oncue.domain.errors import Conflict, Invalid, KeyReused
from oncue.engines.port import Created, Creation, Repeat

LONGEST_KEY = 255
HEADER = "idempotency-key"


class Repeats:
    """What tells a repeat apart from another request: the key as it was sent, the body by what it means."""

    def __init__(self, request: Request, body: Any) -> None:
        self._key = request.headers.get(HEADER)
        if self._key is None:
            return
        if not 0 < len(self._key) <= LONGEST_KEY or not self._key.isascii() or not self._key.isprintable():
            message = f"is 1 to {LONGEST_KEY} printable ASCII characters: a random UUID does"
            raise Invalid.of("Idempotency-Key", "bad_header", message)
        self._scope = f"{request.method} {request.url.path} {self._key}"
        self._body = _hash(msgspec.json.encode(body, order="sorted"))

    def of(self, part: int = 0) -> Repeat | None:
        """Of one of the things that the request makes."""
        return None if self._key is None else Repeat(_hash(f"{part} {self._scope}".encode()), self._body)


def refuse_reused(*created: Creation) -> None:
    taken = next((one.job_id for one in created if one.outcome is Created.KEY_TAKEN), None)
    if taken is not None:
        raise Conflict(
            f"your job {taken} has this key and has not ended: nothing was stored;"
            " change it with PUT /v1/jobs/by-key/{key}, cancel it first, or choose another key"
        )
    if any(one.outcome is Created.KEY_REUSED for one in created):
        raise KeyReused("this Idempotency-Key came before with another body: nothing was done; use a new key")


def _hash(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
