"""Passes over the outbox that overlap: while one creates its jobs, the next takes rows and decides about them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from oncue.domain.errors import OncueError
from oncue.engines.outbox_values import Decision, Enqueued, Kept, TakenIn
from oncue.engines.port import Creation, NewJob
from oncue.intake.outbox import OutboxDecisions


class OutOfTurn(OncueError):
    """The pass before did not create the jobs of its rows, so this one gives its own rows back."""


class Turn:
    """One pass. It creates its jobs once those of the pass before are committed, and none if that one failed or took
    other rows than at first: otherwise a later row of a group could become a job before an earlier one.
    """

    taken: asyncio.Task[TakenIn]

    def __init__(self, decisions: OutboxDecisions, limit: int, before: Turn | None) -> None:
        self.decisions = decisions
        self.last: Enqueued | None = None  # of the rows it took: the next pass takes those after it
        self._limit = limit
        self._before = before
        self._full = False
        self._writes = asyncio.Event()  # or has ended
        self._kept_order: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def start(self, taking_in: Coroutine[Any, Any, TakenIn]) -> None:
        self.taken = asyncio.create_task(taking_in)
        self.taken.add_done_callback(self._ended)

    async def may_be_followed(self) -> bool:
        """Wait until it creates its jobs; return whether the next pass may take rows meanwhile."""
        await self._writes.wait()
        return self._full and (not self._kept_order.done() or self._kept_order.result())

    async def decide(self, rows: Sequence[Enqueued]) -> list[Decision]:
        if self._writes.is_set():  # asked again, perhaps about other rows
            self._say_order(kept=False)
        decided = await self.decisions.decide(rows)
        if self._before is not None and not await self._before._kept_order:
            raise OutOfTurn
        self._before = None
        self.last, self._full = max(rows, key=_place), len(rows) == self._limit
        self._writes.set()
        return decided

    def not_created(self, row: Enqueued, new: NewJob, answer: Creation) -> Kept:
        return self.decisions.not_created(row, new, answer)

    def _ended(self, taken: asyncio.Task[TakenIn]) -> None:
        self._say_order(kept=not taken.cancelled() and taken.exception() is None)
        self._writes.set()

    def _say_order(self, *, kept: bool) -> None:
        if not self._kept_order.done():
            self._kept_order.set_result(kept)


def cancel(*turns: Turn | None) -> None:
    for turn in turns:
        if turn is not None:
            turn.taken.cancel()


async def ended(*turns: Turn | None) -> None:
    """Wait for what is under way; no matter how it ends."""
    await asyncio.wait({turn.taken for turn in turns if turn is not None})


def _place(row: Enqueued) -> tuple[int, int]:
    return row.retry_at, row.seq
