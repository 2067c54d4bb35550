"""Looks at the other hosts of the URL now and then: connections that nobody opens anew would stay where they are."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import asyncpg

from oncue.clock import Clock
from oncue.domain.errors import StoreUnavailable
from oncue.domain.instants import SECOND, Duration
from oncue.engines.postgres.connecting import Apart
from oncue.engines.postgres.dialling import Dialling
from oncue.engines.postgres.hosts import Answer, Identity, hosts_of, note
from oncue.engines.postgres.silence import answered

LOOK_EVERY = Duration(10 * SECOND)
_ERRORS = (OSError, TimeoutError, StoreUnavailable, asyncpg.PostgresError, asyncpg.InterfaceError)


class Lookout:
    """Finds a primary that was promoted while the former one goes on, and old primaries. At each of these it keeps a
    session whose name says so: whoever connects there reads it, also those that can reach no other server.

    `ask` dials one host. `review` raises OldPrimary if the server in use was named one. `notes`: sessions last.
    """

    def __init__(
        self,
        dialling: Dialling,
        url: str,
        ask: Callable[[str], Awaitable[Answer]],
        review: Callable[[], Awaitable[None]],
        clock: Clock,
        notes: bool,
    ) -> None:
        self._dialling = dialling
        self._url = url
        self._ask = ask
        self._review = review
        self._clock = clock
        self._keeps_notes = notes
        self._notes: dict[str, Apart] = {}  # the sessions, by host
        self._looking: asyncio.Task[None] | None = None

    def start(self) -> None:
        if len(hosts_of(self._url)) > 1:
            self._looking = asyncio.create_task(self._run())

    def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        for session in self._notes.values():
            session.terminate()

    async def run_once(self) -> None:
        """Look at the others first: also while the newest primary is away, the old ones are told."""
        found = await self._others()
        for answer in found:
            if self._used is not None and self._used.is_older_than(answer.identity):
                self._dialling.use(self._url, answer)
        for answer in found:
            if self._keeps_notes and answer.is_older_than(self._used):
                self._notes[answer.host] = answer.connection
            else:
                answer.connection.terminate()
        await self._renew_notes()
        await self._review()

    async def old_primaries(self) -> list[str]:
        """Return the hosts whose servers accept writes although they were superseded."""
        found = await self._others()
        for answer in found:
            answer.connection.terminate()
        return [answer.host for answer in found if answer.is_older_than(self._used)]

    @property
    def _used(self) -> Identity | None:
        chosen = self._dialling.chosen(self._url)
        return None if chosen is None else chosen.identity

    async def _run(self) -> None:
        while True:
            await self._clock.sleep(LOOK_EVERY)
            with suppress(*_ERRORS):
                await self.run_once()

    async def _others(self) -> list[Answer]:
        """Ask the hosts that are not in use. Those that refuse, or are silent, are left out."""
        chosen = self._dialling.chosen(self._url)
        hosts = [host for host in hosts_of(self._url) if chosen is None or host != chosen.host]
        asking = [self._ask(host) for host in hosts if host not in self._notes]
        found = await asyncio.gather(*asking, return_exceptions=True)
        return [answer for answer in found if isinstance(answer, Answer)]

    async def _renew_notes(self) -> None:
        """Say it again, which finds sessions that have ended."""
        for host, session in list(self._notes.items()):
            try:
                assert self._used is not None, "it is newer"
                await answered(session, self._clock, f"set application_name = '{note(self._used.timeline)}'")
            except _ERRORS:
                session.terminate()
                del self._notes[host]
