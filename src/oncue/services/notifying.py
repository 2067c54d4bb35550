"""The built-in task `notify`: tell what a notice says, and take along what else waits for the same target."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from oncue.clock import Clock
from oncue.context import Context
from oncue.domain import attempt
from oncue.domain.attempt import Failure
from oncue.domain.ids import RunId, WorkerId
from oncue.domain.instants import Duration
from oncue.domain.job import decode_spec
from oncue.domain.messages import message_of
from oncue.domain.notices import Told, late_now, muted_notices, read_told
from oncue.domain.notify import Event
from oncue.domain.placement import NOTIFY
from oncue.domain.plain_text import message_of as said_by
from oncue.domain.run import Claimed, Settlement
from oncue.engines.derived_secrets import DerivedSecrets
from oncue.engines.port import Dropped, Engine
from oncue.executors.calling import as_failure
from oncue.executors.port import TaskFailed
from oncue.executors.sending import FindSecret, Letter, Sending, TargetGone, no_secret
from oncue.log import log
from oncue.metrics.numbers import SILENT, Numbers
from oncue.metrics.table import NOTICES_SENT
from oncue.settings import Settings
from oncue.tasks import Isolation, Task

GATHERED = 500  # notices in one digest, beside the one that takes them along
DEAD_IN_A_ROW = 5  # notices to a target, before it is muted


class Notifier:
    """What one worker needs to tell. `settle` gets the outcomes of notices that were taken along."""

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        settings: Settings,
        worker_id: WorkerId,
        numbers: Numbers = SILENT,
        find_secret: FindSecret = no_secret,
        sending: Sending | None = None,
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._settings = settings
        self._worker_id = worker_id
        self._numbers = numbers
        derived = DerivedSecrets(engine.notices, clock, settings)
        self._sending = sending or Sending(settings, clock, derived, find_secret)
        self.settle: Callable[[Settlement], None] = lambda _: None

    def task(self) -> Task:
        return _NotifyTask(self.run)

    async def run(self, run_id: RunId) -> dict[str, Any]:
        """Tell of one notice, and of those taken along. TaskFailed: nothing was told."""
        found = await self._engine.running.held_by(self._worker_id, [run_id])
        if not found:
            raise TaskFailed("NotHeld", "this worker does not own the notice any more")
        [run] = found
        told = read_told(run.payload or b"")
        if (why := await self._not_now(run, told)) is not None:
            self._count(told, why)
            return {"outcome": why}
        with_it = await self._engine.running.gather(self._worker_id, run, GATHERED, self._clock.now())
        try:
            count = await self._tell(run, told, with_it)
        except BaseException as error:
            await self._not_told(run, told, with_it, error)
            raise
        return {"outcome": "sent", "notices": count}

    async def _not_now(self, run: Claimed, told: Told) -> str | None:
        """Return why there is nothing to tell. TaskFailed: it is too early to say."""
        now = self._clock.now()
        if told.event is Event.LATE:
            seen = await self._engine.history.run(run.uid, told.run_id) if not told.missed else None
            when = late_now(told, seen, now)
            if when is None:
                return "in_time"
            if when > now:
                raise TaskFailed("NotDue", "its run is wanted later by now", after=Duration(when - now))
        muted_until = (await self._engine.notices.default(run.uid)).muted_until
        muted = {one.target for one in await self._engine.notices.targets(run.uid) if one.muted_at is not None}
        if told.event is not Event.TEST and told.entry.target in muted:
            return "muted"
        if told.event is Event.LATE and muted_until is not None and now < muted_until:
            return "muted"
        return None

    async def _tell(self, run: Claimed, told: Told, with_it: Sequence[Claimed]) -> int:
        all_told = [told]
        quiet: list[Claimed] = []
        for one in with_it:
            also = read_told(one.payload or b"")
            if also.event is Event.LATE and not await self._is_late(one, also):
                quiet.append(one)
            else:
                all_told.append(also)
        notices = self._engine.notices
        dropped = await notices.dropped(run.uid) if len(all_told) > 1 else Dropped()
        unreported = dropped.total - dropped.reported
        message = message_of(all_told, self._settings.public_url, self._clock.now(), unreported)
        thread = str(told.job_id) if len(all_told) == 1 else f"digest-{told.entry.target}"
        await self._sending.send(told.entry, Letter(message, str(run.run_id), thread, run.uid))
        await notices.target_reached(run.uid, told.entry.target)
        if unreported:
            await notices.dropped_reported(run.uid, dropped.total)
        now = self._clock.now()
        for one in with_it:
            self.settle(attempt.succeeded(one, one.claimed_at, now, b'{"outcome":"digested"}'))
        self._count(told, "sent")
        self._count(told, "digested", len(all_told) - 1)
        self._count(told, "in_time", len(quiet))
        return len(all_told)

    async def _is_late(self, run: Claimed, told: Told) -> bool:
        """Look at the run of a notice that goes with others. One that is wanted later by now is told of, too."""
        seen = await self._engine.history.run(run.uid, told.run_id) if not told.missed else None
        return late_now(told, seen, self._clock.now()) is not None

    async def _not_told(self, run: Claimed, told: Told, with_it: Sequence[Claimed], error: BaseException) -> None:
        """Settle what was taken along as this attempt ends; count it against the target if it was the last one."""
        failed = _failed(error)
        now = self._clock.now()
        for one in with_it:
            spec = decode_spec(one.spec)
            self.settle(attempt.failed(one, spec, self._worker_id, one.claimed_at, now, failed, luck=0.5))
        dead = not failed.retry or run.failures >= decode_spec(run.spec).max_retries
        if isinstance(error, asyncio.CancelledError):
            return
        self._count(told, "dead" if dead else "failed", 1 + len(with_it))
        if dead:
            await self._target_failed(run, told, gone=isinstance(error, TargetGone), error=failed)

    async def _target_failed(self, run: Claimed, told: Told, *, gone: bool, error: Failure) -> None:
        entry = told.entry
        about = {"channel": entry.channel, "target": entry.target, "run_id": str(run.run_id)}
        log.warning("A notice could not be delivered", kind="notice_dead", **about, error_type=error.error_type)
        most, now = (1 if gone else DEAD_IN_A_ROW), self._clock.now()
        target = await self._engine.notices.target_failed(run.uid, entry.target, _shown(told), most, now)
        if target.muted_at == now:
            log.warning(
                "A target of notices is muted: its receiver is gone or too many failed", kind="target_muted", **about
            )
            default, rate = await self._engine.notices.default(run.uid), self._settings.notify_rate
            others = muted_notices(run, told, target.shown, default, now, rate)
            await self._engine.notices.add(others, now)

    def _count(self, told: Told, outcome: str, n: int = 1) -> None:
        if n:
            self._numbers.add(NOTICES_SENT, told.entry.channel, outcome, n=n)


class _NotifyTask(Task):
    """Its payload is a `Told`, whatever fields that has: it is read by who runs it."""

    def __init__(self, run: Callable[[RunId], Any]) -> None:
        async def notify(ctx: Context) -> dict[str, Any]:
            result: dict[str, Any] = await run(RunId(ctx.run_id))
            return result

        super().__init__(NOTIFY, notify, isolation=Isolation.LOOP, defaults={}, roles=())

    def arguments(self, payload: bytes | None) -> dict[str, Any]:
        return {}


def _failed(error: BaseException) -> Failure:
    if isinstance(error, asyncio.CancelledError):
        return Failure(error_type="Interrupted", error="the attempt that took this notice along was interrupted")
    failed = as_failure(error)
    said = said_by(failed, attempt.LONGEST_ERROR)
    return Failure(error_type=failed.kind, error=said or failed.kind, retry=failed.retry, after=failed.after)


def _shown(told: Told) -> str:
    """Return the target for its owner's eyes, without what may be secret in a URL: its query, and a chat's path."""
    place = told.entry.place
    if told.entry.channel in ("email",) or place.startswith("secret:"):
        return place
    host, _, path = place.partition("://")[2].partition("/")
    kept = f"/{path.partition('?')[0]}" if told.entry.webhook is not None else "/…"
    return f"{place.partition('://')[0]}://{host}{kept}"
