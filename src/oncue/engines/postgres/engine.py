"""The PostgreSQL engine: its parts, put together."""

from __future__ import annotations

import asyncio
from pathlib import Path

from oncue.clock import Clock
from oncue.domain.diagnosis import Diagnosis
from oncue.domain.instants import SECOND, Duration, Instant
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
from oncue.engines.postgres.accounts import PostgresAccounts
from oncue.engines.postgres.ahead import PostgresAhead
from oncue.engines.postgres.archiving import PostgresArchiving
from oncue.engines.postgres.audit import PostgresAudit
from oncue.engines.postgres.auditing import PostgresAuditing
from oncue.engines.postgres.backup import backup, restore
from oncue.engines.postgres.bulks import PostgresBulks
from oncue.engines.postgres.declaring import PostgresDeclaring
from oncue.engines.postgres.diagnosing import check_rights, diagnose_server
from oncue.engines.postgres.errors import PostgresErrors
from oncue.engines.postgres.fleet import PostgresFleet
from oncue.engines.postgres.forgetting import PostgresForgetting
from oncue.engines.postgres.history import PostgresHistory
from oncue.engines.postgres.idempotency import PostgresIdempotency
from oncue.engines.postgres.jobs import PostgresJobs
from oncue.engines.postgres.lists import PostgresLists
from oncue.engines.postgres.maintenance import PostgresMaintenance
from oncue.engines.postgres.members import PostgresMembers
from oncue.engines.postgres.migrate import check, contract, migrate
from oncue.engines.postgres.notices import PostgresNotices
from oncue.engines.postgres.objects import PostgresObjects
from oncue.engines.postgres.outbox import PostgresOutbox
from oncue.engines.postgres.partitions import Partitions
from oncue.engines.postgres.planning import PostgresPlanning
from oncue.engines.postgres.running import PostgresRunning
from oncue.engines.postgres.searching import PostgresSearch
from oncue.engines.postgres.sessions import PostgresSessions
from oncue.engines.postgres.signals import PostgresSignals
from oncue.engines.postgres.store import Store, as_unavailable
from oncue.engines.schema import Pending, log_migration
from oncue.engines.sql import migrations, statements
from oncue.settings import Settings

_SQL = statements("oncue.engines.postgres")


class PostgresEngine:
    name = "postgres"
    schema = migrations("oncue.engines.postgres")[-1][0]

    def __init__(self, store: Store, settings: Settings) -> None:
        self.capabilities = Capabilities(outbox=True, hints=store.address.hints_arrive)
        self._store = store
        self.standstill: Standstill = store.standstill
        self._pieces = Partitions(store, settings.partition_span)
        self.jobs: Jobs = PostgresJobs(store, self._pieces, settings.quota_classes)
        self.planning: Planning = PostgresPlanning(store, self._pieces)
        self.running: Running = PostgresRunning(store, self._pieces)
        self.fleet: Fleet = PostgresFleet(store)
        self._signals = PostgresSignals(store, self.fleet.workers)
        self.members: Members = PostgresMembers(store)
        self.declaring: Declaring = PostgresDeclaring(store, settings.quota_classes)
        self.objects: Objects = PostgresObjects(store)
        self.outbox: Outbox = PostgresOutbox(store, self._pieces, settings.quota_classes)
        self.notices: Notices = PostgresNotices(store)
        self.signals: Signals = self._signals
        self.history: History = PostgresHistory(store, self._pieces, settings)
        self.lists: Lists = PostgresLists(store, self.jobs)
        self.search: Search = PostgresSearch(store)
        self.ahead: Ahead = PostgresAhead(store)
        self.accounts: Accounts = PostgresAccounts(store)
        self.sessions: Sessions = PostgresSessions(store)
        self.audit: Audit = PostgresAudit(store, self._pieces)
        self.auditing: Auditing = PostgresAuditing(store)
        self.archiving: Archiving = PostgresArchiving(store, settings.history_timeout)
        self.bulks: Bulks = PostgresBulks(store)
        self.errors: Errors = PostgresErrors(store)
        self.forgetting: Forgetting = PostgresForgetting(store)
        self.idempotency: Idempotency = PostgresIdempotency(store)
        self.maintenance: Maintenance = PostgresMaintenance(store, self._pieces, settings)

    @classmethod
    async def open(cls, settings: Settings, clock: Clock | None = None, name: str = "oncue") -> PostgresEngine:
        store = await Store.connect(settings, clock, name)
        try:
            log_migration(*await migrate(store, settings.history_timeout))
            await check_rights(store)
            engine = cls(store, settings)
            await engine._pieces.refresh()
        except BaseException:
            await store.close()
            raise
        return engine

    @classmethod
    async def migrate(cls, settings: Settings) -> tuple[int, int]:
        store = await Store.connect(settings)
        try:
            return await migrate(store, settings.history_timeout)
        finally:
            await store.close()

    @classmethod
    async def contract(cls, settings: Settings) -> list[int]:
        store = await Store.connect(settings)
        try:
            return await contract(store, settings.history_timeout)
        finally:
            await store.close()

    @classmethod
    async def pending(cls, settings: Settings) -> Pending:
        store = await Store.connect(settings)
        try:
            return await check(store)
        finally:
            await store.close()

    @classmethod
    async def backup(cls, settings: Settings, part: Path, tell: Tell) -> Contents:
        return await backup(settings, part, tell)

    @classmethod
    async def restore(cls, settings: Settings, file: Path, tell: Tell) -> Restored:
        return await restore(settings, file, tell)

    async def now(self) -> Instant:
        found = await self._store.fetch(_SQL["now"], hot=True)
        return Instant(found[0][0])

    async def ping(self, within: Duration) -> None:
        with self._store.naming_old_primary(), as_unavailable():
            async with asyncio.timeout(within / SECOND):
                await self._store.ask("select 1")

    async def probe(self) -> None:
        await self._store.standstill.probe()

    def state(self) -> EngineState:
        return EngineState(self._store.pools(), self._signals.failed, self._signals.reconnected)

    async def diagnose(self) -> list[Diagnosis]:
        return await diagnose_server(self._store)

    async def close(self) -> None:
        await self._signals.close()
        await self._store.close()
