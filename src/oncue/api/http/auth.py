"""Authenticate callers and check their roles; only this file decides both. Failed keys are counted and logged."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

import msgspec
from starlette.requests import Request

from oncue import logs
from oncue.api.http.answers import Refused
from oncue.api.http.browsers import Browsers
from oncue.clock import Clock
from oncue.domain.errors import StoreUnavailable
from oncue.domain.ids import KeyId, UserNumber
from oncue.domain.instants import SECOND, Duration, Instant
from oncue.domain.keys import KEY, SESSION, key_hash, well_formed
from oncue.domain.plain_text import printable
from oncue.engines.port import Engine, Key, Role, Session
from oncue.log import log

Known = tuple[Key, Session | None]

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
    session: Session | None = None
    """Of a browser that was signed in; None: the request has the key itself."""
    expires_at: Instant | None = None
    """When the key or the session ends."""

    @property
    def sees(self) -> UserNumber | None:
        """The user whose objects this caller may see and change. None, for an administrator: all users."""
        return None if self.role is Role.ADMIN else self.uid


class KeyRefused(Refused):
    """A request has no valid key. `key`: the refused one, from the header or, to sign in, from the body."""

    def __init__(self, message: str, key: str = "") -> None:
        super().__init__(HTTPStatus.UNAUTHORIZED, message, _CHALLENGE)
        self.key = key


class Keyring:
    """Caches keys of the database, briefly enough that a revocation takes effect within a second."""

    def __init__(self, engine: Engine, clock: Clock, browsers: Browsers) -> None:
        self._accounts = engine.accounts
        self._sessions = engine.sessions
        self._clock = clock
        self._browsers = browsers
        self._seen: dict[bytes, tuple[Known, Instant]] = {}
        self._renewing: set[bytes] = set()
        self._owners: dict[UserNumber, str] = {}

    async def admit(self, request: Request, trusted_for: Duration = TRUSTED_FOR) -> Caller:
        """Return the caller if the key is valid. Without the database, what was known within `trusted_for` counts.

        Refused: also a session that another site may have used.
        """
        text = bearer(request)
        if text is not None:
            return await self.admit_key(text, trusted_for)
        if "authorization" not in request.headers and (token := self._browsers.token(request)) is not None:
            caller = await self._admit_session(token, trusted_for)
            self._browsers.check(request)
            return caller
        raise KeyRefused("API key missing. Send the header Authorization: Bearer <key>.")

    async def admit_key(self, text: str, trusted_for: Duration = TRUSTED_FOR) -> Caller:
        found = await self._look_up(text, trusted_for)
        if found is None or found[1] is not None:
            raise KeyRefused("Invalid API key. Check that it was copied completely.", text)
        return self._caller(*found, text)

    async def _admit_session(self, token: str, trusted_for: Duration) -> Caller:
        found = await self._look_up(token, trusted_for, SESSION)
        if found is None or found[1] is None or found[1].expires_at <= self._clock.now():
            raise KeyRefused("The session has ended. Sign in again.")
        return self._caller(*found)

    def _caller(self, key: Key, session: Session | None, text: str = "") -> Caller:
        if key.revoked_at is not None or (key.expires_at is not None and key.expires_at <= self._clock.now()):
            raise KeyRefused("This API key was revoked or has expired. Ask an administrator for a new one.", text)
        end = key.expires_at
        if session is not None:
            end = session.expires_at if end is None else min(end, session.expires_at)
        return Caller(key.uid, key.user_id, key.role, key.key_id, session, end)

    def forget(self, key: Key) -> None:
        """Drop a revoked key and its sessions from the cache: their next use looks them up again."""
        self._seen = {at: seen for at, seen in self._seen.items() if seen[0][0].key_id != key.key_id}

    def forget_session(self, session: Session) -> None:
        self._seen.pop(session.session_hash, None)

    async def owner(self, uid: UserNumber) -> str | None:
        """Return a user's name."""
        if uid not in self._owners:
            if len(self._owners) >= MOST_KEYS:
                self._owners.clear()
            self._owners |= await self._accounts.names([uid])
        return self._owners.get(uid)

    async def _look_up(self, text: str, trusted_for: Duration, kind: str = KEY) -> Known | None:
        asked_at, hashed = self._clock.monotonic(), key_hash(text)
        remembered = self._seen.get(hashed)
        if remembered is not None:
            good_for = TRUSTED_FOR if hashed in self._renewing else RENEWED_AFTER
            if asked_at - remembered[1] < good_for:
                return remembered[0]
        self._renewing.add(hashed)
        try:
            return await self._ask(text, kind, asked_at, remembered, trusted_for)
        finally:
            self._renewing.discard(hashed)

    async def _ask(
        self, text: str, kind: str, asked_at: Instant, remembered: tuple[Known, Instant] | None, trusted_for: Duration
    ) -> Known | None:
        hashed = key_hash(text)
        trusted = remembered if remembered is not None and asked_at - remembered[1] <= trusted_for else None
        try:
            async with asyncio.timeout(None if trusted is None else PATIENCE):  # a database that hangs is unavailable
                found = await self._find(hashed, kind) if well_formed(text, kind) else None
        except (StoreUnavailable, TimeoutError):
            if trusted is None:
                raise
            return trusted[0]
        if len(self._seen) >= MOST_KEYS:
            self._seen.clear()
        if found is not None:
            self._seen[hashed] = (found, asked_at)
        return found

    async def _find(self, hashed: bytes, kind: str) -> Known | None:
        if kind == SESSION:
            found = await self._sessions.find(hashed)
            return None if found is None else (found[1], found[0])
        key = await self._accounts.key(hashed)
        return None if key is None else (key, None)


def check_role(caller: Caller, *, changes: bool, admin: bool) -> None:
    """Check whether the role allows a call that changes something, or an admin call. Runs before anything is read."""
    if admin and caller.role is not Role.ADMIN:
        raise forbidden("This call needs an admin key.")
    if changes and caller.role is Role.VIEWER:
        raise forbidden("Viewer keys are read-only; use a member or admin key.")


def forbidden(message: str) -> Refused:
    return Refused(HTTPStatus.FORBIDDEN, message)


class FailedKeys:
    """Counts every failed key and logs the first ones. The sign-in page sends none: that is no failure."""

    def __init__(self) -> None:
        self.count = 0

    def note(self, request: Request, refused: KeyRefused) -> None:
        if not refused.key:
            return
        self.count += 1
        if not logs.bursts.full("key_refused"):
            about = _about(request, refused.key)
            log.warning("A request had an invalid API key", kind="key_refused", why=str(refused), **about)


def _about(request: Request, key: str) -> dict[str, str]:
    begins = printable(key[: min(SHOWN, len(key) // 4)])
    peer = "unknown" if request.client is None else request.client.host
    return {"peer": peer, "key_begins": begins, "path": printable(request.scope["path"][:200])}
