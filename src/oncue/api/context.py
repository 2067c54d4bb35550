"""What every call has at hand."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from uuid import UUID

from oncue.api.auth import Caller, FailedKeys, Keyring
from oncue.api.group_commit import GroupCommit
from oncue.api.outcome import Changes
from oncue.api.previews import Previews
from oncue.api.readiness import Readiness
from oncue.api.store_watchdog import StoreWatchdog
from oncue.api.task_registry import TaskRegistry
from oncue.api.watching import Watching
from oncue.clock import Clock
from oncue.domain.addresses import parse_networks
from oncue.domain.definition import Limits
from oncue.domain.ids import NO_CLASS, ClassId, UserNumber, uuid7
from oncue.domain.instants import Instant
from oncue.domain.placement import GONE, ClassKey
from oncue.domain.run import RunView
from oncue.engines.classing import GOOD_FOR
from oncue.engines.hints import after_stopping
from oncue.engines.known_classes import KnownClasses
from oncue.engines.port import Cancelled, Creation, Engine, Hint, Quota, Role, Topic
from oncue.settings import Settings

MOST_CLASSES = 100_000
LOST = ClassKey(task="", queue=GONE)  # a class that went although a run has it, which nothing should bring about


class Api:
    """The store, the clock, and what is remembered between two calls."""

    def __init__(self, engine: Engine, clock: Clock, settings: Settings) -> None:
        self.engine = engine
        self.clock = clock
        self.keyring = Keyring(engine.accounts, clock)
        self.task_registry = TaskRegistry(engine.fleet, clock)
        self.limits = Limits(payload=settings.payload_cap)
        self._quota = Quota(settings.quota_jobs, settings.quota_payload)
        self._most_runs = settings.quota_runs
        self.reachable = parse_networks(settings.http_allow)
        self.watchdog = StoreWatchdog(engine.ping, clock)
        self.commits = GroupCommit(engine, clock, self.watchdog)
        self.changes = Changes(engine.signals.send)
        self.watching = Watching(engine, clock, self.watchdog, self.classes_of)
        self.failed_keys = FailedKeys()
        self.previews = Previews(clock)
        self.readiness = Readiness(engine, clock)
        self.awaited: asyncio.Event | None = None  # not ready to serve before this has happened
        self._classes = KnownClasses(engine.jobs, clock)
        self._numbers: dict[ClassKey, tuple[ClassId, Instant]] = {}  # each with when it was asked for
        self._luck = _eights()

    def quota_of(self, caller: Caller) -> Quota | None:
        """None: nobody has one. An administrator's has no limits; what they add is counted for whom it belongs to."""
        if self._quota == Quota():
            return None
        return Quota() if caller.role is Role.ADMIN else self._quota

    def quota_of_runs(self, caller: Caller) -> Quota | None:
        """For what is asked for by hand. It is apart from the other: making jobs does not pay for it."""
        if not self._most_runs:
            return None
        return Quota() if caller.role is Role.ADMIN else Quota(runs=self._most_runs)

    def new_id(self, at: Instant) -> UUID:
        return uuid7(at, next(self._luck))

    async def classes(self) -> dict[ClassId, ClassKey]:
        """Those there are, and perhaps some that went a moment ago. They never change: only new ones are read."""
        await self._classes.read_new()
        await self._classes.check()
        return self._classes.known

    async def classes_of(self, *runs: RunView) -> dict[ClassId, ClassKey]:
        """At least the classes of these runs."""
        known = self._classes.known
        if all(run.class_id in known for run in runs):
            return known
        known = await self.classes()
        lost = {run.class_id: LOST for run in runs if run.class_id not in known}
        return known | lost if lost else known

    def class_id(self, key: ClassKey) -> ClassId:
        """The number of a class, if it is known; 0: the store finds it, or makes the class, with the job.

        Every hour somebody gets 0 all the same: so it is known to be in use.
        """
        now = self.clock.now()
        class_id, asked_at = self._numbers.get(key, (NO_CLASS, now))
        if abs(now - asked_at) < GOOD_FOR:
            return class_id
        self._numbers[key] = (class_id, now)
        return NO_CLASS

    def learn(self, key: ClassKey, created: Creation) -> None:
        """What was stored without the number of its class has told it."""
        if created.class_id:
            if len(self._numbers) >= MOST_CLASSES:
                self._numbers.clear()
            self._numbers[key] = (created.class_id, self.clock.now())

    async def owner_of(self, uid: UserNumber, caller: Caller) -> str | None:
        return caller.user_id if uid == caller.uid else await self.keyring.owner(uid)

    async def hint_runs(self, due: Instant | None) -> None:
        """Something is due then; None: anything may be, also what was due long ago."""
        await self.engine.signals.send([Hint(Topic.RUNS, due=due)])

    async def hint_stopped(self, answer: Cancelled) -> None:
        await self.engine.signals.send(after_stopping(answer))


def _eights() -> Iterator[bytes]:
    """Random bytes, eight at a time. They are drawn by the thousand, because each draw is a call of the system."""
    while True:
        many = secrets.token_bytes(8_000)
        yield from (many[start : start + 8] for start in range(0, len(many), 8))
