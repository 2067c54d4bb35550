"""When keys and sessions were used last: written in the background, so that no request waits for it."""

from __future__ import annotations

import asyncio

from oncue.api.http.auth import Caller
from oncue.clock import Clock, Timer
from oncue.domain.ids import KeyId
from oncue.domain.instants import MINUTE, SECOND, Duration, Instant, day_of
from oncue.engines.port import Session, Sessions
from oncue.log import log
from oncue.settings import Settings

COLLECTED_FOR = Duration(SECOND)  # uses in this time are written together
EXTENDED_EVERY = Duration(5 * MINUTE)  # a session in use, or four times while it is idle
MOST_REMEMBERED = 10_000  # keys, and sessions


class LastUses:
    """Each key is written once a day by each process, and each session that is in use every few minutes."""

    def __init__(self, sessions: Sessions, clock: Clock, settings: Settings) -> None:
        self._sessions = sessions
        self._clock = clock
        self._idle = settings.session_idle
        self._lifetime = settings.session_lifetime
        self._extended_every = min(EXTENDED_EVERY, self._idle // 4)
        self._days: dict[KeyId, int] = {}
        self._ends: dict[bytes, Instant] = {}
        self._new_days: dict[KeyId, int] = {}
        self._new_ends: dict[bytes, Instant] = {}
        self._timer: Timer | None = None
        self._writing: asyncio.Task[None] | None = None

    def end_of(self, created_at: Instant) -> Instant:
        """Until when a session lasts that is used now."""
        return Instant(min(self._clock.now() + self._idle, created_at + self._lifetime))

    def note(self, caller: Caller) -> None:
        today = day_of(self._clock.now())
        if self._days.get(caller.key_id) != today:
            if len(self._days) >= MOST_REMEMBERED:
                self._days.clear()
            self._days[caller.key_id] = today
            self._new_days[caller.key_id] = today
            self._write_soon()
        if caller.session is not None:
            self._note_session(caller.session)

    def _note_session(self, session: Session) -> None:
        end = self.end_of(session.created_at)
        known = max(session.expires_at, self._ends.get(session.session_hash, session.expires_at))
        if end - known >= self._extended_every:
            if len(self._ends) >= MOST_REMEMBERED:
                self._ends.clear()
            self._ends[session.session_hash] = end
            self._new_ends[session.session_hash] = end
            self._write_soon()

    def _write_soon(self) -> None:
        if self._timer is None:
            self._timer = self._clock.call_later(COLLECTED_FOR, self._begin)

    def _begin(self) -> None:
        self._timer = None
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())
        else:
            self._write_soon()  # the database is slow: what was noted meanwhile follows

    async def _write(self) -> None:
        days, self._new_days = self._new_days, {}
        ends, self._new_ends = self._new_ends, {}
        try:
            await self._sessions.used(days, ends)
        except Exception as error:
            log.warning("The last use of keys was not recorded", kind="last_use_missing", why=str(error))
            for key_id in days:
                self._days.pop(key_id, None)  # their next use is recorded
            for session_hash in ends:
                self._ends.pop(session_hash, None)
