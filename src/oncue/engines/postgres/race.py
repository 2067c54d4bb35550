"""Several hosts are asked for one that accepts writes, each with its own time limit: a silent one holds up no other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import asyncpg

from oncue.clock import Clock, happens_within
from oncue.domain.errors import OldPrimary
from oncue.domain.instants import SECOND, Duration
from oncue.engines.postgres.hosts import Answer, NoHost, name_of

SILENT_AFTER = Duration(SECOND // 4)  # then the next host is asked, too
ASK_AGAIN = Duration(SECOND // 2)  # a host that refused may have been promoted since
SETTLE = Duration(SECOND)  # for hosts that have not answered when a server is chosen anew
_A_WHILE = Duration(60 * SECOND)

# What the caller acts on, whatever the other hosts say.
_TELLING = (ValueError, OldPrimary, asyncpg.TooManyConnectionsError)

Ask = Callable[[str], Awaitable[Answer]]


class Race:
    """Asks hosts in their order, and those that refuse again and again while another is silent."""

    def __init__(self, hosts: Sequence[str], ask: Ask, clock: Clock) -> None:
        self._hosts = hosts
        self._ask = ask
        self._clock = clock
        self._answers: dict[str, Answer] = {}
        self._refused: dict[str, Exception] = {}
        self._news = asyncio.Event()

    async def winner(self, is_sure: Callable[[Answer], bool]) -> Answer:
        """Return the first that accepts writes, if it `is_sure`; else the newest of those that answer within a second.

        The connections of all others are closed.
        """
        asking: list[asyncio.Task[None]] = []
        won: Answer | None = None
        try:
            for host in self._hosts:
                asking.append(asyncio.create_task(self._keep_asking(host)))
                if not self._answers:
                    await self._heard(SILENT_AFTER)
                if (first := self._newest()) is not None and is_sure(first):
                    won = first
                    return won
            while not self._answers:
                if len(self._refused) == len(self._hosts):
                    raise self.failure()
                await self._heard(_A_WHILE)
            won = await self._settled(is_sure)
            return won
        finally:
            for one in asking:
                one.cancel()
            for answer in self._answers.values():
                if answer is not won:
                    answer.connection.terminate()

    def failure(self) -> Exception:
        """Return why there is no winner. Who has not answered is silent."""
        for no in self._refused.values():
            if isinstance(no, _TELLING):
                return no
        return NoHost({name_of(host): self._refused.get(host, TimeoutError()) for host in self._hosts})

    async def _settled(self, is_sure: Callable[[Answer], bool]) -> Answer:
        until = self._clock.monotonic() + SETTLE
        while True:
            newest, left = self._newest(), until - self._clock.monotonic()
            assert newest is not None, "one has answered"
            if left <= 0 or is_sure(newest) or len({*self._answers, *self._refused}) == len(self._hosts):
                return newest
            await self._heard(Duration(left))

    def _newest(self) -> Answer | None:
        """Of one cluster the highest timeline. Clusters cannot be compared: the first one counts."""
        newest = None
        for host in self._hosts:
            answer = self._answers.get(host)
            if answer is not None and (newest is None or newest.is_older_than(answer.identity)):
                newest = answer
        return newest

    async def _keep_asking(self, host: str) -> None:
        while True:
            try:
                self._answers[host] = await self._ask(host)
                return
            except Exception as no:  # whatever is wrong with one host: the others are asked
                self._refused[host] = no
            finally:
                self._news.set()
            await self._clock.sleep(ASK_AGAIN)

    async def _heard(self, within: Duration) -> None:
        await happens_within(self._clock, self._news, within)
        self._news.clear()
        for no in self._refused.values():
            if isinstance(no, ValueError):  # the URL is wrong
                raise no
