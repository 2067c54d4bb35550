"""The code under the runs. What a body does is drawn from the seed and the run's id, and it writes down that it did."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from random import Random
from typing import Any

from tests.simulation.faults import LEASE
from tests.simulation.journal import Journal, Start
from tests.simulation.process import Process

from oncue.context import Context
from oncue.domain.errors import Conflict, NoRetry, RetryAfter, StoreUnavailable
from oncue.domain.ids import WorkerId
from oncue.domain.instants import MILLISECOND, SECOND
from oncue.executors.functions import LoopExecutor
from oncue.executors.port import ProcessLost, Work
from oncue.tasks import Tasks

TASK = "simulated"
ORDINARY = {"quick": 40, "lasting": 15, "fails": 10, "hopeless": 4, "final": 3, "later": 4, "saving": 8, "stubborn": 3}
FATEFUL = {"stalls": 7, "poison": 3}  # only while there is a storm

_alone: ContextVar[bool] = ContextVar("simulated_alone", default=False)


class Alone:
    """In place of a process of its own: what would kill a worker ends only this."""

    def __init__(self, loop: LoopExecutor) -> None:
        self._loop = loop

    async def run(self, work: Work) -> bytes | None:
        _alone.set(True)
        return await self._loop.run(work)

    async def close(self) -> None:
        """Nothing of its own to close."""


class Bodies:
    """The bodies of one worker's runs."""

    def __init__(
        self,
        seed: int,
        process: Process,
        worker: WorkerId,
        journal: Journal,
        stormy: Callable[[], bool],
        die: Callable[[], None],
    ) -> None:
        self._seed = seed
        self._process = process
        self._worker = worker
        self._journal = journal
        self._stormy = stormy
        self._die = die
        self.tasks = Tasks()
        self.tasks.task(TASK)(self.body)

    async def body(self, ctx: Context, edit: int = 0, lasts: int = 0) -> dict[str, int]:
        task = asyncio.current_task()
        assert task is not None
        if self._process.dead:
            raise asyncio.CancelledError  # its worker was killed before it came to begin
        self._process.bodies.add(task)
        task.add_done_callback(self._process.bodies.discard)
        start = self._journal.started(ctx.run_id, ctx.job_id, self._worker, edit, ctx.checkpoint())
        try:
            await (self._process.sleep(lasts) if lasts else self._act(ctx, start))
        except asyncio.CancelledError:
            self._journal.told(start)
            self._journal.ended(start, "stopped")
            raise
        except NoRetry:
            self._journal.ended(start, "final")
            raise
        except Exception:
            self._journal.ended(start, "failed")
            raise
        self._journal.ended(start, "returned")
        return {"serial": start.serial}

    async def _act(self, ctx: Context, start: Start) -> None:
        chance = Random(f"{self._seed} {ctx.run_id}")
        kinds = ORDINARY | FATEFUL if self._stormy() else ORDINARY
        [kind] = chance.choices(list(kinds), list(kinds.values()))
        often, length = chance.randrange(1, 4), chance.randrange(1, 40) * 100 * MILLISECOND
        match kind:
            case "lasting":
                await self._process.sleep(length)
            case "fails" if ctx.attempt <= often:
                raise ArithmeticError("as it happens")
            case "hopeless":
                raise ArithmeticError("as always")
            case "final":
                raise NoRetry("never again")
            case "later" if ctx.attempt == 1:
                start.asked_wait = 700 * MILLISECOND
                raise RetryAfter("700ms")
            case "saving" if ctx.attempt <= often:
                await self._save(ctx, start, length)
            case "stubborn":
                await self._stay(start, length + 2 * SECOND)
            case "stalls" if ctx.attempt == 1:
                await self._stall(ctx, start, chance)
            case "poison":
                await self._perish()
            case _:
                pass

    async def _save(self, ctx: Context, start: Start, length: int) -> None:
        await self._process.sleep(length // 4)
        await self._keep(ctx, start)
        await self._process.sleep(length // 4)
        raise ArithmeticError("after a checkpoint")

    async def _keep(self, ctx: Context, start: Start) -> None:
        asked = self._journal.note(f"start {start.serial} saves a checkpoint")
        await ctx.save_checkpoint(start.serial)
        start.saves.append((asked, self._journal.note(f"start {start.serial} has saved")))

    async def _stay(self, start: Start, length: int) -> None:
        """Does not stop when told to."""
        until = self._process.clock.monotonic() + length
        while (left := until - self._process.clock.monotonic()) > 0:
            try:
                await self._process.sleep(left)
            except asyncio.CancelledError:
                if self._process.dead:
                    raise
                self._journal.told(start)

    async def _stall(self, ctx: Context, start: Start, chance: Random) -> None:
        """The machine stands still for longer than the lease, and wakes not knowing that it did."""
        self._process.freeze(LEASE + chance.randrange(1, 4 * 1000) * MILLISECOND)
        await self._process.thaw()
        if chance.random() < 0.5:
            await self._process.sleep(chance.choice([0, 50, 300]) * MILLISECOND)
            with suppress(Conflict, StoreUnavailable):  # it does not care, and goes on
                await self._keep(ctx, start)

    async def _perish(self) -> Any:
        if _alone.get():
            raise ProcessLost("killed")
        if self._stormy():
            self._die()
            await self._process.sleep(SECOND)
        return None
