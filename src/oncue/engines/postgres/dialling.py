"""Opens connections, all to one server: the newest primary among the hosts of the URL."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any
from weakref import WeakSet

import asyncpg
import msgspec

from oncue.clock import Clock, SystemClock
from oncue.domain.errors import OldPrimary
from oncue.domain.instants import SECOND
from oncue.engines.postgres.connecting import CONNECT_TIMEOUT, Apart
from oncue.engines.postgres.hosts import Answer, Identity, hosts_of, identify, name_of, old_primary
from oncue.engines.postgres.race import Race
from oncue.log import log

_PGBOUNCER_IS_FULL = "no more connections allowed"  # max_client_conn; its code says only that the login went wrong


# The highest timeline that this process has seen in each cluster. All engines of a process share it.
_SEEN: dict[int, int] = {}


class Chosen(msgspec.Struct, frozen=True):
    host: str
    identity: Identity | None

    def leads_elsewhere(self, before: Chosen) -> bool:
        """Return whether connections that were opened before are to another server."""
        if self.identity is None or before.identity is None:
            return self.host != before.host
        now, then = self.identity, before.identity
        return self.host != before.host or (now.system, now.timeline) != (then.system, then.timeline)


class Dialling:
    """Opens connections. A connection whose caller has given up is still opened, and then closed: the driver reports an
    error that no code can catch when it is cancelled half-way.

    All connections of a URL are to one server, which is asked first the next time. A server whose timeline is lower
    than one that was seen in its cluster is refused.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self.pending: set[asyncio.Task[Answer]] = set()
        self._chosen: dict[str, Chosen] = {}  # by URL
        self._refused: OldPrimary | None = None  # since the last connection
        self._opened: dict[str, WeakSet[Apart]] = {}  # to the chosen one

    async def connect(self, url: str, **options: Any) -> Apart:
        """Connect to a server that accepts writes. OldPrimary: only one that was superseded does."""
        return (await self._to_its_end(self._found(url, options))).connection

    @property
    def refused(self) -> OldPrimary | None:
        """Return the old primary that was refused since the last connection was opened."""
        return self._refused

    def chosen(self, url: str) -> Chosen | None:
        return self._chosen.get(url)

    async def close(self) -> None:
        """Wait for what is about to be closed, and not for silent hosts."""
        if self.pending:
            _, silent = await asyncio.wait(self.pending, timeout=0.5)
            for one in silent:
                one.cancel()

    async def _found(self, url: str, options: dict[str, Any]) -> Answer:
        hosts = hosts_of(url)
        if len(hosts) == 1:
            return self.use(url, await self._usable(url, options))
        chosen = self._chosen.get(url)
        order = sorted(hosts, key=lambda host: chosen is None or host != chosen.host)
        race = Race(order, lambda host: self._to_its_end(self._usable(host, options)), self._clock)

        def is_sure(answer: Answer) -> bool:
            """No other host has to be asked: the chosen server goes on, or this one was promoted since."""
            if chosen is None:
                return False
            goes_on = chosen == Chosen(answer.host, answer.identity)
            return goes_on or (chosen.identity is not None and chosen.identity.is_older_than(answer.identity))

        try:
            async with asyncio.timeout(_limit(options)):
                answer = await race.winner(is_sure)
        except TimeoutError:
            raise race.failure() from None
        return self.use(url, answer)

    async def ask(self, host: str, options: dict[str, Any]) -> Answer:
        """Connect to one host, whose server accepts writes, and ask it which it is."""
        return await self._to_its_end(self._answer(host, options))

    def use(self, url: str, answer: Answer) -> Answer:
        """Use this server from now on. Connections to another one are closed, whoever uses them."""
        self._refuse_old(answer)  # another call may have found a newer one meanwhile
        self._refused = None
        before, now = self._chosen.get(url), Chosen(answer.host, answer.identity)
        self._chosen[url] = now
        if before is not None and now.leads_elsewhere(before):
            log.warning(
                "Another server is the primary now; all connections to the former one are closed",
                kind="primary_changed",
                host=name_of(now.host),
                timeline=None if now.identity is None else now.identity.timeline,
            )
            self._hang_up_all(url)
        self._opened.setdefault(url, WeakSet()).add(answer.connection)
        return answer

    def review(self, url: str, identity: Identity, newer: int) -> None:
        """Compare what the chosen server says of itself now. OldPrimary: all connections to it were closed."""
        try:
            self._refuse_if_old(self._chosen[url].host, identity, newer)
        except OldPrimary:
            self._hang_up_all(url)
            raise

    async def _answer(self, host: str, options: dict[str, Any]) -> Answer:
        bounced = options.get("statement_cache_size") == 0
        async with asyncio.timeout(_limit(options)):
            try:
                connection: Apart = await asyncpg.connect(host, **options)
            except asyncpg.ProtocolViolationError as refused:
                if _PGBOUNCER_IS_FULL in str(refused):
                    raise asyncpg.TooManyConnectionsError(str(refused)) from refused
                raise
            try:
                return await identify(host, connection, bounced)
            except BaseException:
                connection.terminate()
                raise

    async def _usable(self, host: str, options: dict[str, Any]) -> Answer:
        answer = await self._answer(host, options)
        self._refuse_old(answer)
        return answer

    def _refuse_old(self, answer: Answer) -> None:
        try:
            self._refuse_if_old(answer.host, answer.identity, answer.newer)
        except OldPrimary as no:
            self._refused = no
            answer.connection.terminate()
            raise

    def _refuse_if_old(self, host: str, identity: Identity | None, newer: int) -> None:
        if identity is None:
            return
        newest = _SEEN[identity.system] = max(_SEEN.get(identity.system, 0), newer, identity.timeline)
        if identity.timeline < newest:
            log.warning(
                "A server accepts writes though a newer primary was promoted; it is not used",
                kind="old_primary",
                host=name_of(host),
                timeline=identity.timeline,
                newest=newest,
            )
            raise old_primary(host, identity.timeline, newest)

    def _hang_up_all(self, url: str) -> None:
        for connection in list(self._opened.pop(url, ())):
            connection.terminate()

    async def _to_its_end(self, opening: Coroutine[Any, Any, Answer]) -> Answer:
        making = asyncio.create_task(opening)
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            self.pending.add(making)
            making.add_done_callback(self._hang_up)
            raise

    def _hang_up(self, made: asyncio.Task[Answer]) -> None:
        self.pending.discard(made)
        if not made.cancelled() and made.exception() is None:
            made.result().connection.terminate()


def _limit(options: dict[str, Any]) -> float:
    return float(options.get("timeout", CONNECT_TIMEOUT / SECOND))
