"""The built-in task `notify`: tell what a notice says, and take along what else waits for the same target."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec.structs import replace

from oncue.clock import Clock
from oncue.context import Context
from oncue.domain.ids import RunId, WorkerId
from oncue.domain.instants import Duration
from oncue.domain.job import decode_spec
from oncue.domain.messages import message_of
from oncue.domain.notices import Told, late_now, muted_notices
from oncue.domain.notify import Event
from oncue.domain.outgoing import SEALED, Outgoing, encode_outgoing, outgoing_of, taken_along
from oncue.domain.placement import NOTIFY
from oncue.domain.run import Claimed
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

GATHERED = 99  # notices in one digest, beside the one that takes them along: a body of 20 KB lists them all
GATHERED_FOR_CHATS = 24  # for Discord, whose messages have at most 2,000 characters
DEAD_IN_A_ROW = 5  # notices to a target, before it is muted


class Notifier:
    """What one worker needs to tell. `renewed` gets a notice when what it sends was stored in it."""

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
        self.renewed: Callable[[Claimed], None] = lambda _: None

    def task(self) -> Task:
        return _NotifyTask(self.run)

    async def run(self, run_id: RunId) -> dict[str, Any]:
        """Tell of one notice, and of those taken along. TaskFailed: nothing was told, as far as is known."""
        found = await self._engine.running.held_by(self._worker_id, [run_id])
        if not found:
            raise _not_held()
        [run] = found
        out = outgoing_of(run)
        if (why := await self._not_now(run, out)) is not None:
            self._count(out, why)
            return {"outcome": why}
        out = out if out.message is not None else await self._put_together(run, out)
        if out.message is None:
            return {"outcome": "in_time"}
        try:
            letter = Letter(out.message, out.message_id, out.thread, run.uid)
            await self._sending.send(out.leader.entry, letter)
        except BaseException as error:
            await self._not_told(run, out, error)
            raise
        await self._engine.notices.target_reached(run.uid, out.leader.entry.target)
        self._count(out, "sent")
        self._count(out, "digested", out.count - 1)
        return {"outcome": "sent", "notices": out.count, "message": out.message_id}

    async def _not_now(self, run: Claimed, out: Outgoing) -> str | None:
        """Return why there is nothing to tell. TaskFailed: it is too early to say."""
        now, told = self._clock.now(), out.leader
        begun = out.message is not None or out.count > 1  # what it took along has no other message to go with
        if told.event is Event.LATE and not begun:
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
        if told.event is Event.LATE and not begun and muted_until is not None and now < muted_until:
            return "muted"
        return None

    async def _put_together(self, run: Claimed, out: Outgoing) -> Outgoing:
        """Decide what the message says, and store it before the first try: it is sent again as it was.

        Whoever sends it next may be another worker, or this one without knowing whether it was stored.
        """
        if out.count == 1:
            out = await self._with_others(run, out)
        told = [one for one in out.told if one.event is not Event.LATE or await self._is_late(run, one)]
        self._count(out, "in_time", out.count - len(told))
        if not told:
            return out
        notices = self._engine.notices
        dropped = await notices.dropped(run.uid) if len(told) > 1 else Dropped()
        unreported = dropped.total - dropped.reported
        message = message_of(told, self._settings.public_url, self._clock.now(), unreported)
        out = Outgoing((out.leader,), message)
        payload = encode_outgoing(out)
        if not await self._engine.running.save(self._worker_id, run, checkpoint=SEALED, payload=payload):
            raise _not_held()
        self.renewed(replace(run, checkpoint=SEALED, payload=payload))
        if unreported:
            await notices.dropped_reported(run.uid, dropped.total)
        return out

    async def _with_others(self, run: Claimed, out: Outgoing) -> Outgoing:
        """Take along what waits for the same target. Not at the last try: should its answer get lost, the dead letter
        would not say what it took.
        """
        leader = out.leader
        if run.failures >= decode_spec(run.spec).max_retries:
            return out
        most = GATHERED if leader.entry.channel in ("webhook", "email") else GATHERED_FOR_CHATS
        decide = partial(taken_along, run, leader)
        payload = await self._engine.running.gather(self._worker_id, run, most, self._clock.now(), decide)
        if payload is None:
            return out
        run = replace(run, checkpoint=SEALED, payload=payload)
        self.renewed(run)
        return outgoing_of(run)

    async def _is_late(self, run: Claimed, told: Told) -> bool:
        """Look at the run of a notice that goes with others. One that is wanted later by now is told of, too."""
        seen = await self._engine.history.run(run.uid, told.run_id) if not told.missed else None
        return late_now(told, seen, self._clock.now()) is not None

    async def _not_told(self, run: Claimed, out: Outgoing, error: BaseException) -> None:
        """Count it against the target if it was the last try."""
        if isinstance(error, asyncio.CancelledError):
            return
        failed = as_failure(error)
        dead = not failed.retry or run.failures >= decode_spec(run.spec).max_retries
        self._count(out, "dead" if dead else "failed", out.count)
        if dead:
            await self._target_failed(run, out.leader, gone=isinstance(error, TargetGone), error_type=failed.kind)

    async def _target_failed(self, run: Claimed, told: Told, *, gone: bool, error_type: str) -> None:
        entry = told.entry
        about = {"channel": entry.channel, "target": entry.target, "run_id": str(run.run_id)}
        log.warning("A notice could not be delivered", kind="notice_dead", **about, error_type=error_type)
        most, now = (1 if gone else DEAD_IN_A_ROW), self._clock.now()
        target = await self._engine.notices.target_failed(run.uid, entry.target, _shown(told), most, now)
        if target.muted_at == now:
            log.warning(
                "A target of notices is muted: its receiver is gone or too many failed", kind="target_muted", **about
            )
            default, rate = await self._engine.notices.default(run.uid), self._settings.notify_rate
            others = muted_notices(run, told, target.shown, default, now, rate)
            await self._engine.notices.add(others, now)

    def _count(self, out: Outgoing, outcome: str, n: int = 1) -> None:
        if n:
            self._numbers.add(NOTICES_SENT, out.leader.entry.channel, outcome, n=n)


class _NotifyTask(Task):
    """Its payload is a `Told`, whatever fields that has: it is read by who runs it."""

    def __init__(self, run: Callable[[RunId], Any]) -> None:
        async def notify(ctx: Context) -> dict[str, Any]:
            result: dict[str, Any] = await run(RunId(ctx.run_id))
            return result

        super().__init__(NOTIFY, notify, isolation=Isolation.LOOP, defaults={}, roles=())

    def arguments(self, payload: bytes | None) -> dict[str, Any]:
        return {}


def _not_held() -> TaskFailed:
    return TaskFailed("NotHeld", "this worker does not own the notice any more")


def _shown(told: Told) -> str:
    """Return the target for its owner's eyes, without what may be secret in a URL: its query, and a chat's path."""
    place = told.entry.place
    if told.entry.channel in ("email",) or place.startswith("secret:"):
        return place
    host, _, path = place.partition("://")[2].partition("/")
    kept = f"/{path.partition('?')[0]}" if told.entry.webhook is not None else "/…"
    return f"{place.partition('://')[0]}://{host}{kept}"
