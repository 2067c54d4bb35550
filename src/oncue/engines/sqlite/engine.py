"""The SQLite engine: its parts, put together."""

from __future__ import annotations

import asyncio
from pathlib import Path

from oncue.clock import Clock, SystemClock
from oncue.domain.diagnosis import Diagnosis
from oncue.domain.instants import Duration, Instant
from oncue.engines.backup import Contents, Restored, Tell
from oncue.engines.port import (
    Accounts,
    Ahead,
    Archiving,
    Audit,
    Auditing,
    Bulks,
    Capabilities,
    Declaring,
    EngineState,
    Errors,
    Fleet,
    Forgetting,
    History,
    Idempotency,
    Jobs,
    Lists,
    Maintenance,
    Members,
    NoStandstill,
    Notices,
    Objects,
    Outbox,
    Planning,
    Running,
    Search,
    Sessions,
    Signals,
    Standstill,
)
from oncue.engines.schema import Pending, log_migration
from oncue.engines.sql import migrations, statements
from oncue.engines.sqlite.accounts import SqliteAccounts
from oncue.engines.sqlite.ahead import SqliteAhead
from oncue.engines.sqlite.archiving import SqliteArchiving
from oncue.engines.sqlite.audit import SqliteAudit
from oncue.engines.sqlite.auditing import SqliteAuditing
from oncue.engines.sqlite.backup import backup, restore
from oncue.engines.sqlite.bulks import SqliteBulks
from oncue.engines.sqlite.declaring import SqliteDeclaring
from oncue.engines.sqlite.diagnosing import diagnose_file
from oncue.engines.sqlite.errors import SqliteErrors
from oncue.engines.sqlite.fleet import SqliteFleet
from oncue.engines.sqlite.forgetting import SqliteForgetting
from oncue.engines.sqlite.history import SqliteHistory
from oncue.engines.sqlite.idempotency import SqliteIdempotency
from oncue.engines.sqlite.jobs import SqliteJobs
from oncue.engines.sqlite.lists import SqliteLists
from oncue.engines.sqlite.maintenance import SqliteMaintenance
from oncue.engines.sqlite.members import SqliteMembers
from oncue.engines.sqlite.migrate import check, contract, migrate
from oncue.engines.sqlite.notices import SqliteNotices
from oncue.engines.sqlite.objects import SqliteObjects
from oncue.engines.sqlite.outbox import SqliteOutbox
from oncue.engines.sqlite.partitions import Partitions
from oncue.engines.sqlite.planning import SqlitePlanning
from oncue.engines.sqlite.running import SqliteRunning
from oncue.engines.sqlite.searching import SqliteSearch
from oncue.engines.sqlite.sessions import SqliteSessions
from oncue.engines.sqlite.signals import SqliteSignals
from oncue.engines.sqlite.store import Store, path_of
from oncue.settings import Settings

_SQL = statements("oncue.engines.sqlite")


class SqliteEngine:
    name = "sqlite"
    schema = migrations("oncue.engines.sqlite")[-1][0]
    capabilities = Capabilities()

    def __init__(self, store: Store, settings: Settings, clock: Clock) -> None:
        self._store = store
        self.standstill: Standstill = NoStandstill()
        self._signals = SqliteSignals(store.path, clock)
        pieces = Partitions(settings.partition_span)
        self.jobs: Jobs = SqliteJobs(store, pieces, settings.quota_classes)
        self.planning: Planning = SqlitePlanning(store, pieces)
        self.running: Running = SqliteRunning(store, pieces)
        self.fleet: Fleet = SqliteFleet(store)
        self.members: Members = SqliteMembers(store)
        self.declaring: Declaring = SqliteDeclaring(store, settings.quota_classes)
        self.objects: Objects = SqliteObjects(store)
        self.outbox: Outbox = SqliteOutbox()
        self.notices: Notices = SqliteNotices(store)
        self.signals: Signals = self._signals
        self.history: History = SqliteHistory(store, settings)
        self.lists: Lists = SqliteLists(store, self.jobs)
        self.search: Search = SqliteSearch(store)
        self.ahead: Ahead = SqliteAhead(store)
        self.accounts: Accounts = SqliteAccounts(store)
        self.sessions: Sessions = SqliteSessions(store)
        self.audit: Audit = SqliteAudit(store)
        self.auditing: Auditing = SqliteAuditing(store)
        self.archiving: Archiving = SqliteArchiving(store, settings.history_timeout)
        self.bulks: Bulks = SqliteBulks(store)
        self.errors: Errors = SqliteErrors(store)
        self.forgetting: Forgetting = SqliteForgetting(store)
        self.idempotency: Idempotency = SqliteIdempotency(store)
        self.maintenance: Maintenance = SqliteMaintenance(store, pieces, settings)

    @classmethod
    async def open(cls, settings: Settings, clock: Clock | None = None, name: str = "oncue") -> SqliteEngine:
        store = await Store.open(settings)
        try:
            log_migration(*await migrate(store, settings.history_timeout))
        except BaseException:
            await store.close()
            raise
        return cls(store, settings, clock or SystemClock())

    @classmethod
    async def migrate(cls, settings: Settings) -> tuple[int, int]:
        store = await Store.open(settings)
        try:
            return await migrate(store, settings.history_timeout)
        finally:
            await store.close()

    @classmethod
    async def contract(cls, settings: Settings) -> list[int]:
        store = await Store.open(settings)
        try:
            return await contract(store, settings.history_timeout)
        finally:
            await store.close()

    @classmethod
    async def pending(cls, settings: Settings) -> Pending:
        return check(path_of(settings.engine))

    @classmethod
    async def backup(cls, settings: Settings, part: Path, tell: Tell) -> Contents:
        return await backup(settings, part, tell)

    @classmethod
    async def restore(cls, settings: Settings, file: Path, tell: Tell) -> Restored:
        return await restore(settings, file, tell)

    async def now(self) -> Instant:
        """Return this machine's time: all processes on one file share the machine, so its clock is the database's."""
        return SystemClock().now()

    async def ping(self, within: Duration) -> None:
        await self._store.ping(within)

    async def probe(self) -> None:
        await self._store.write(lambda db: db.execute(_SQL["probe"]).fetchall())
        await self._store.read_afresh()

    def state(self) -> EngineState:
        return EngineState(hints_failed=self._signals.failed)

    async def diagnose(self) -> list[Diagnosis]:
        return await asyncio.to_thread(diagnose_file, self._store.path)

    async def close(self) -> None:
        await self._signals.close()
        await self._store.close()
