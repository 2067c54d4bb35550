"""What every call shares: engine, clock and caches."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator, Mapping, Sequence
from uuid import UUID

from oncue.api.http.auth import Caller, FailedKeys, Keyring
from oncue.api.http.browsers import Browsers
from oncue.api.http.reading import LARGEST_BODY
from oncue.api.http.store_watchdog import StoreWatchdog
from oncue.api.shared.class_totals import ClassTotals
from oncue.api.shared.group_commit import GroupCommit
from oncue.api.shared.known_gauges import KnownGauges
from oncue.api.shared.last_uses import LastUses
from oncue.api.shared.live_workers import LiveWorkers
from oncue.api.shared.outcome import Changes
from oncue.api.shared.previews import Previews
from oncue.api.shared.readiness import Readiness
from oncue.api.shared.tests_allowed import TestsAllowed
from oncue.api.shared.watching import Watching
from oncue.api.views import Known
from oncue.clock import Clock
from oncue.domain.ids import ClassId, UserNumber, WorkerId, uuid7
from oncue.domain.instants import Instant
from oncue.domain.placement import GONE, ClassKey
from oncue.domain.run import RunView
from oncue.engines.bulk_walk import BulkWalk
from oncue.engines.derived_secrets import DerivedSecrets
from oncue.engines.hints import after_stopping
from oncue.engines.known_classes import KnownClasses
from oncue.engines.port import Cancelled, Engine, Hint, Quota, Role, Topic
from oncue.intake.context import Intake
from oncue.intake.large_values import LargeValues
from oncue.metrics.numbers import SILENT, Numbers
from oncue.metrics.table import EVENT_STREAMS
from oncue.settings import Settings
from oncue.storage.open import open_storage

MOST_WORKERS = 10_000  # in the cache
LOST = ClassKey(task="", queue=GONE)  # a class that was deleted although a run has it, which should never happen


class Api:
    """The engine, the clock, and what is cached between calls."""

    def __init__(self, engine: Engine, clock: Clock, settings: Settings, numbers: Numbers = SILENT) -> None:
        self.engine = engine
        self.settings = settings
        self.storage = open_storage(settings, clock, numbers)
        self.large = LargeValues(engine, self.storage, clock, settings.inline_cap)
        self.intake = Intake(engine, clock, settings, self.large)
        self.largest_job = settings.max_payload_bytes + LARGEST_BODY
        self.numbers = numbers
        self.clock = clock
        self.browsers = Browsers(settings.public_url)
        self.keyring = Keyring(engine, clock, self.browsers)
        self.last_uses = LastUses(engine.sessions, clock, settings)
        self._most_runs = settings.quota_runs
        self.watchdog = StoreWatchdog(engine.ping, clock, engine.standstill, settings.store_timeout)
        self.commits = GroupCommit(engine, clock, self.watchdog, numbers)
        self.changes = Changes(engine.signals.send)
        self._worker_names: dict[WorkerId, str] = {}
        self.watching = Watching(engine, clock, self.watchdog, self.known_of)
        self.failed_keys = FailedKeys()
        self.previews = Previews(clock)
        self.readiness = Readiness(engine, clock)
        self.awaited: asyncio.Event | None = None  # not ready to serve before this is set
        self._classes = KnownClasses(engine.jobs, clock)
        self.gauges = KnownGauges(engine.history, clock)
        self.live_workers = LiveWorkers(engine.fleet, clock)
        self.class_totals = ClassTotals(engine.history, clock)
        self.bulk_walk = BulkWalk(engine, clock, self._classes)
        self.serves_metrics = not settings.metrics_port
        self.derived = DerivedSecrets(engine.notices, clock, settings)
        self.tests = TestsAllowed(clock)
        self._luck = _eights()
        numbers.read(EVENT_STREAMS, lambda: {(): self.watching.streams.total()})

    def quota_of_runs(self, caller: Caller) -> Quota | None:
        """The quota for runs started by hand. Creating jobs does not use it up."""
        if not self._most_runs:
            return None
        return Quota() if caller.role is Role.ADMIN else Quota(runs=self._most_runs)

    def new_id(self, at: Instant) -> UUID:
        return uuid7(at, next(self._luck))

    async def classes(self) -> dict[ClassId, ClassKey]:
        """All classes, and perhaps some deleted a moment ago. Classes never change, so only new ones are read."""
        await self._classes.read_new()
        await self._classes.check()
        return self._classes.known

    async def classes_of(self, *runs: RunView) -> dict[ClassId, ClassKey]:
        """Return at least the classes of these runs."""
        known = self._classes.known
        if all(run.class_id in known for run in runs):
            return known
        known = await self.classes()
        lost = {run.class_id: LOST for run in runs if run.class_id not in known}
        return known | lost if lost else known

    async def known_of(self, *runs: RunView) -> Known:
        """Return what is shown of these runs beside themselves: a page takes one call for names, and few for others."""
        names = await self.engine.lists.job_names(runs) if runs else {}
        return Known(await self.classes_of(*runs), names, await self._workers_of(runs))

    async def _workers_of(self, runs: Sequence[RunView]) -> Mapping[WorkerId, str]:
        """Return names of workers. A worker never changes its name."""
        asked = {run.worker_id for run in runs if run.worker_id is not None}
        if unknown := asked - self._worker_names.keys():
            if len(self._worker_names) >= MOST_WORKERS:
                self._worker_names.clear()
                unknown = asked
            self._worker_names |= await self.engine.fleet.worker_names(sorted(unknown))
        return self._worker_names

    async def owner_of(self, uid: UserNumber, caller: Caller) -> str | None:
        return caller.user_id if uid == caller.uid else await self.keyring.owner(uid)

    async def hint_runs(self, due: Instant | None) -> None:
        """Hint that a run is due at this instant; None: any run may be, also one that was due long ago."""
        await self.engine.signals.send([Hint(Topic.RUNS, due=due)])

    async def hint_stopped(self, answer: Cancelled) -> None:
        await self.engine.signals.send(after_stopping(answer))


def _eights() -> Iterator[bytes]:
    """Yield random bytes, eight at a time. They are drawn by the thousand, because each draw is a system call."""
    while True:
        many = secrets.token_bytes(8_000)
        yield from (many[start : start + 8] for start in range(0, len(many), 8))
