"""Idempotency keys: a repeated request gets the answer of the first, and creates nothing twice."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Any
from uuid import UUID

import msgspec
from starlette.requests import Request

from oncue.api.http.answers import stored_json
from oncue.api.http.auth import Caller
from oncue.api.shared.context import Api
from oncue.api.shared.outcome import Interrupted, Outcome, unchanged
from oncue.domain.errors import Invalid, KeyReused, OncueError, StoreUnavailable
from oncue.engines.port import Created, Creation, IdempotencyKey
from oncue.intake.new_jobs import refuse_taken

LONGEST_KEY = 255  # characters
HEADER = "Idempotency-Key"
HASHED = 16  # bytes

Make = Callable[[UUID], Awaitable[Outcome]]


def idempotency_key_of(request: Request, body: Any) -> IdempotencyKey | None:
    """Identify a repeated request: by its key as sent, and by the meaning of its body."""
    return None if HEADER not in request.headers else idempotency_key_with(request, _hash(_encode(body)))


def idempotency_key_with(request: Request, body_hash: bytes) -> IdempotencyKey:
    key = request.headers[HEADER]
    if not 0 < len(key) <= LONGEST_KEY or not key.isascii() or not key.isprintable():
        message = f"is 1 to {LONGEST_KEY} printable ASCII characters, such as a random UUID"
        raise Invalid.of(HEADER, "bad_header", message)
    scope = f"{request.method} {request.scope['path']} {key}"
    return IdempotencyKey(_hash(scope.encode()), body_hash)


class BodyHash:
    """Hashes a body that has one list like any other body, from the parts of the list as they are read."""

    def __init__(self, name: str) -> None:
        self._hash = hashlib.blake2b(b'{"%b":[' % name.encode(), digest_size=HASHED)
        self._comma = b""

    def add(self, part: Any) -> None:
        self._hash.update(self._comma + _encode(part))
        self._comma = b","

    def digest(self) -> bytes:
        self._hash.update(b"]}")
        return self._hash.digest()


async def idempotent(
    api: Api, request: Request, caller: Caller, body: Any, make: Make, *, kept: bool = True
) -> Outcome:
    """Return the answer of `make`; a repeated request gets the same, with 202. Without a key, `make` is just called.

    What `make` creates gets its ids from the reserved one. So `make` may be called again for a request whose answer was
    lost, even concurrently, and must then answer as it would have the first time: what it finds created is its own.
    After a refusal the same key may be used again, with another body. `kept` False: `make` is called each time.
    """
    idempotency_key, made = idempotency_key_of(request, body), api.new_id(api.clock.now())
    if idempotency_key is None:
        return await make(made)
    idempotency = api.engine.idempotency
    reserved = await idempotency.reserve(caller.uid, idempotency_key, made)
    if reserved.outcome is Created.KEY_REUSED:
        raise _reused()
    if reserved.answer is not None:
        return unchanged(stored_json(reserved.answer, HTTPStatus.ACCEPTED))
    try:
        done = await make(reserved.made)
    except OncueError as error:
        why = error.why if isinstance(error, Interrupted) else error
        if kept and reserved.outcome is Created.NEW and not isinstance(why, StoreUnavailable):
            with suppress(StoreUnavailable):
                await idempotency.refused(caller.uid, idempotency_key, reserved.made)
        raise
    if kept:
        with suppress(StoreUnavailable):  # it is done: a repeated request finds it
            await idempotency.answered(caller.uid, idempotency_key, reserved.made, bytes(done.answer.body))
    return done


def refuse_reused(*created: Creation) -> None:
    refuse_taken(*created)
    if any(one.outcome is Created.KEY_REUSED for one in created):
        raise _reused()


def _reused() -> KeyReused:
    return KeyReused(f"This {HEADER} was already used with a different body. Use a new key.")


def _encode(body: Any) -> bytes:
    return msgspec.json.encode(body, order="sorted")


def _hash(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=HASHED).digest()
