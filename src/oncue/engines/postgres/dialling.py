"""Opens connections, all to one server: the newest primary among the hosts of the URL."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any
from weakref import WeakSet

import asyncpg
import msgspec

from oncue.clock import Clock, SystemClock
from oncue.domain.instants import SECOND
from oncue.engines.postgres.connecting import CONNECT_TIMEOUT, Apart
from oncue.engines.postgres.hosts import Answer, Identity, hosts_of, identify, name_of, old_primary
from oncue.engines.postgres.race import Race
from oncue.log import log

_PGBOUNCER_IS_FULL = "no more connections allowed"  # max_client_conn; its code says only that the login went wrong


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
        self._newest: dict[int, int] = {}  # timelines that were seen, by cluster
        self._chosen: dict[str, Chosen] = {}  # by URL
        self._opened: dict[str, WeakSet[Apart]] = {}  # to the chosen one

    async def connect(self, url: str, **options: Any) -> Apart:
        """Connect to a server that accepts writes. OldPrimary: only one that was superseded does."""
        return (await self._to_its_end(self._found(url, options))).connection

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
            return self._accepted(url, await self._answer(url, options))
        chosen = self._chosen.get(url)
        order = sorted(hosts, key=lambda host: chosen is None or host != chosen.host)
        race = Race(order, lambda host: self._to_its_end(self._answer(host, options)), self._clock)

        def is_sure(answer: Answer) -> bool:
            return self._is_sure(answer, chosen)

        try:
            async with asyncio.timeout(_limit(options)):
                answer = await race.winner(is_sure)
        except TimeoutError:
            raise race.failure() from None
        return self._accepted(url, answer)

    async def _answer(self, host: str, options: dict[str, Any]) -> Answer:
        """Ask one host. OldPrimary: it was superseded."""
        bounced = options.get("statement_cache_size") == 0
        async with asyncio.timeout(_limit(options)):
            try:
                connection: Apart = await asyncpg.connect(host, **options)
            except asyncpg.ProtocolViolationError as refused:
                if _PGBOUNCER_IS_FULL in str(refused):
                    raise asyncpg.TooManyConnectionsError(str(refused)) from refused
                raise
            try:
                answer = Answer(host, connection, await identify(connection, bounced))
                self._refuse_old(answer)
            except BaseException:
                connection.terminate()
                raise
        return answer

    def _is_sure(self, answer: Answer, chosen: Chosen | None) -> bool:
        """Return whether no other host has to be asked: the chosen server goes on, or this one was promoted since."""
        if chosen is not None and chosen == Chosen(answer.host, answer.identity):
            return True
        return answer.identity is not None and answer.identity.timeline > self._newest.get(
            answer.identity.system, answer.identity.timeline
        )

    def _refuse_old(self, answer: Answer) -> None:
        if answer.identity is None:
            return
        timeline, newest = answer.identity.timeline, self._newest.get(answer.identity.system, 0)
        if timeline < newest:
            no = old_primary(answer.host, timeline, newest)
            log.warning(
                "A server accepts writes though a newer primary was promoted; it is not used",
                kind="old_primary",
                host=name_of(answer.host),
                timeline=timeline,
                newest=newest,
            )
            raise no

    def _accepted(self, url: str, answer: Answer) -> Answer:
        """Use this server from now on. Connections to another one are closed, whoever uses them."""
        try:
            self._refuse_old(answer)  # another call may have found a newer one meanwhile
        except BaseException:
            answer.connection.terminate()
            raise
        if answer.identity is not None:
            self._newest[answer.identity.system] = answer.identity.timeline
        before, now = self._chosen.get(url), Chosen(answer.host, answer.identity)
        self._chosen[url] = now
        opened = self._opened.setdefault(url, WeakSet())
        if before is not None and now.leads_elsewhere(before):
            log.warning(
                "Another server is the primary now; all connections to the former one are closed",
                kind="primary_changed",
                host=name_of(now.host),
                timeline=None if now.identity is None else now.identity.timeline,
            )
            for connection in list(opened):
                connection.terminate()
            opened.clear()
        opened.add(answer.connection)
        return answer

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
