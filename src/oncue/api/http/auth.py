"""Authenticate callers and check their roles; only this file decides both. Failed keys are counted and logged."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

import msgspec
import structlog
from starlette.requests import Request

from oncue import logs
from oncue.api.http.answers import Refused
from oncue.clock import Clock
from oncue.domain.errors import StoreUnavailable
from oncue.domain.ids import KeyId, UserNumber
from oncue.domain.instants import SECOND, Duration, Instant
from oncue.domain.keys import key_hash, well_formed
from oncue.domain.plain_text import printable
from oncue.engines.port import Accounts, Key, Role

log = structlog.get_logger()

TRUSTED_FOR = Duration(SECOND // 2)  # how long a key lookup is cached, and a revoked key may still be accepted
RENEWED_AFTER = Duration(TRUSTED_FOR // 2)  # then one request looks a cached key up again, beside the others
PATIENCE = 0.25  # seconds to wait for the database about a key that counts without it
MOST_KEYS = 10_000  # in the cache
_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="oncue"'}

SHOWN = 7  # characters of a failed key in the log: enough to guess its owner, and at most a quarter of the key


def bearer(request: Request) -> str | None:
    """Return the secret that a request sends. None: it sends none."""
    scheme, _, text = request.headers.get("authorization", "").partition(" ")
    return text.strip() if scheme.lower() == "bearer" else None


class Caller(msgspec.Struct, frozen=True):
    """The user and key that sent a request."""

    uid: UserNumber
    user_id: str
    role: Role
    key_id: KeyId

    @property
    def sees(self) -> UserNumber | None:
        """The user whose objects this caller may see and change. None, for an administrator: all users."""
        return None if self.role is Role.ADMIN else self.uid


class Keyring:
    """Caches keys of the database, briefly enough that a revocation takes effect within a second."""

    def __init__(self, accounts: Accounts, clock: Clock) -> None:
        self._accounts = accounts
        self._clock = clock
        self._seen: dict[bytes, tuple[Key, Instant]] = {}
        self._renewing: set[bytes] = set()
        self._owners: dict[UserNumber, str] = {}

    async def admit(self, request: Request, trusted_for: Duration = TRUSTED_FOR) -> Caller:
        """Return the caller if the key is valid. Without the database, what was known within `trusted_for` counts."""
        text = bearer(request)
        if text is None:
            raise _unknown("API key missing. Send the header Authorization: Bearer <key>.")
        key = await self._look_up(text, trusted_for)
        if key is None:
            raise _unknown("Invalid API key. Check that it was copied completely.")
        if key.revoked_at is not None or (key.expires_at is not None and key.expires_at <= self._clock.now()):
            raise _unknown("This API key was revoked or has expired. Ask an administrator for a new one.")
        return Caller(key.uid, key.user_id, key.role, key.key_id)

    def forget(self, key: Key) -> None:
        """Drop a revoked key from the cache: its next use looks it up again."""
        self._seen.pop(key.key_hash, None)

    async def owner(self, uid: UserNumber) -> str | None:
        """Return a user's name."""
        if uid not in self._owners:
            if len(self._owners) >= MOST_KEYS:
                self._owners.clear()
            self._owners |= await self._accounts.names([uid])
        return self._owners.get(uid)

    async def _look_up(self, text: str, trusted_for: Duration) -> Key | None:
        asked_at, hashed = self._clock.monotonic(), key_hash(text)
        remembered = self._seen.get(hashed)
        if remembered is not None:
            good_for = TRUSTED_FOR if hashed in self._renewing else RENEWED_AFTER
            if asked_at - remembered[1] < good_for:
                return remembered[0]
        self._renewing.add(hashed)
        try:
            return await self._ask(text, hashed, asked_at, remembered, trusted_for)
        finally:
            self._renewing.discard(hashed)

    async def _ask(
        self, text: str, hashed: bytes, asked_at: Instant, remembered: tuple[Key, Instant] | None, trusted_for: Duration
    ) -> Key | None:
        trusted = remembered if remembered is not None and asked_at - remembered[1] <= trusted_for else None
        try:
            async with asyncio.timeout(None if trusted is None else PATIENCE):  # a database that hangs is unavailable
                key = await self._accounts.key(hashed) if well_formed(text) else None
        except (StoreUnavailable, TimeoutError):
            if trusted is None:
                raise
            return trusted[0]
        if len(self._seen) >= MOST_KEYS:
            self._seen.clear()
        if key is not None:
            self._seen[hashed] = (key, asked_at)
        return key


def check_role(caller: Caller, *, changes: bool, admin: bool) -> None:
    """Check whether the role allows a call that changes something, or an admin call. Runs before anything is read."""
    if admin and caller.role is not Role.ADMIN:
        raise forbidden("This call needs an admin key.")
    if changes and caller.role is Role.VIEWER:
        raise forbidden("Viewer keys are read-only; use a member or admin key.")


def forbidden(message: str) -> Refused:
    return Refused(HTTPStatus.FORBIDDEN, message)


def _unknown(message: str) -> Refused:
    return Refused(HTTPStatus.UNAUTHORIZED, message, _CHALLENGE)


class FailedKeys:
    """Counts every failed key and logs the first ones."""

    def __init__(self) -> None:
        self.count = 0

    def note(self, request: Request, why: str) -> None:
        self.count += 1
        if not logs.bursts.full("key_refused"):
            log.warning("A request had no valid API key", kind="key_refused", why=why, **_about(request))


def _about(request: Request) -> dict[str, str]:
    key = request.headers.get("authorization", "").partition(" ")[2].strip()
    begins = printable(key[: min(SHOWN, len(key) // 4)])
    peer = "unknown" if request.client is None else request.client.host
    return {"peer": peer, "key_begins": begins, "path": printable(request.scope["path"][:200])}
