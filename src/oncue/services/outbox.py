"""Take in what applications enqueued in transactions of their own, and hint workers that it is there."""

from __future__ import annotations

import asyncio

from oncue.clock import Clock
from oncue.domain.errors import StoreRefused, TooManyClasses
from oncue.domain.instants import MILLISECOND, MINUTE, NEVER, Duration, Instant
from oncue.engines.outbox_values import TakenIn
from oncue.engines.port import Created, Engine
from oncue.intake.context import Intake
from oncue.intake.new_jobs import hints_of
from oncue.intake.outbox import OutboxDecisions
from oncue.log import log
from oncue.metrics.numbers import SILENT, Numbers
from oncue.metrics.table import OUTBOX
from oncue.services.changes import Changes
from oncue.services.outbox_turns import OutOfTurn, Turn, cancel, ended
from oncue.shapes.jobs import JobFields

AT_ONCE = 1_000  # rows in one transaction
PASSES = 10  # that follow each other without a break: so long a stop may wait
POLL_INTERVAL = Duration(100 * MILLISECOND)
CALM_POLL_INTERVAL = Duration(500 * MILLISECOND)  # if nothing has come for a while, or ever
CALM_AFTER = MINUTE


class OutboxIntake:
    """Any number of schedulers may do it: a row becomes a job once."""

    name = "outbox"

    def __init__(
        self, engine: Engine, clock: Clock, intake: Intake, timeout: Duration, numbers: Numbers = SILENT
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._intake = intake
        self._timeout = timeout
        self._numbers = numbers
        self._changes = Changes(engine.signals, clock)
        self._limit = AT_ONCE
        self._crowded: frozenset[object] = frozenset()  # classes that users may not have: the next pass keeps such rows
        self._unstorable: dict[int, str] = {}  # rows that the database refuses: the next pass refuses them
        self._said_fields = False
        self._calm_at = clock.monotonic()

    async def run_once(self) -> Duration:
        """Make some passes, of which each takes rows while the one before creates its jobs. None is left half done."""
        if not self._said_fields:
            await self._engine.outbox.say_fields([*JobFields.__annotations__.keys() - {"task", "payload"}])
            self._said_fields = True
        await self._intake.defaults.refresh()
        turn, following = self._begin(), None
        try:
            for left in reversed(range(PASSES)):
                if await turn.may_be_followed() and left:
                    following = self._begin(turn)
                wait = await self._finish(turn)
                if following is None:
                    break
                turn, following = following, None
            return wait
        except asyncio.CancelledError:
            cancel(turn, following)
            raise
        finally:
            await ended(turn, following)

    def _begin(self, before: Turn | None = None) -> Turn:
        now, after = self._clock.now(), None if before is None else before.last
        deciding = OutboxDecisions(self._intake, now, self._timeout, self._crowded, self._unstorable)
        turn = Turn(deciding, self._limit, before)
        turn.start(self._engine.outbox.take_in(self._limit, now, turn, after))
        return turn

    async def _finish(self, turn: Turn) -> Duration:
        """Return how long the next pass may wait. If this one could take nothing, the next one knows the reason."""
        try:
            taken = await turn.taken
        except OutOfTurn:
            return Duration(0)
        except TooManyClasses as refused:
            self._crowded |= {refused.key}
            return Duration(0)
        except StoreRefused as refused:  # for the sake of one row
            if self._limit == 1 and turn.decisions.last is not None:
                self._unstorable[turn.decisions.last.seq] = str(refused)
            self._limit = max(1, self._limit // 2)
            return Duration(0)
        self._crowded, self._unstorable, self._limit = frozenset(), {}, min(AT_ONCE, self._limit * 2)
        await self._tell(taken)
        if taken.created or taken.kept:
            self._calm_at = Instant(self._clock.monotonic() + CALM_AFTER)
        if taken.full:
            return Duration(0)
        return CALM_POLL_INTERVAL if self._clock.monotonic() >= self._calm_at else POLL_INTERVAL

    async def _tell(self, taken: TakenIn) -> None:
        for new, answer in taken.created:
            if answer.class_id:
                self._intake.learn(new.job.spec.class_key, answer)
        fresh = [new for new, answer in taken.created if answer.outcome is Created.NEW]
        refused = [(row, kept) for row, kept in taken.kept if kept.retry_at >= NEVER]
        if fresh:
            await self._engine.signals.send(hints_of(fresh, self._clock.now()))
            await self._changes.of({new.job.uid for new in fresh})
            self._numbers.add(OUTBOX, "taken", n=len(fresh))
        if refused:
            self._numbers.add(OUTBOX, "refused", n=len(refused))
        for row, kept in refused:
            log.warning(
                "A job in the outbox was refused; see `oncue outbox list`",
                kind="outbox_refused",
                job_id=str(row.job_id),
                task=row.task[:200],
                why=kept.why,
            )
