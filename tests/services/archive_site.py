"""A store with an archive in a folder, and processes that are killed at any of their calls."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from oncue.domain.archive import Progress, Table
from oncue.domain.instants import DAY, HOUR, Duration
from oncue.domain.policy import CatchUp
from oncue.domain.run import State
from oncue.engines.port import AuditEntry
from oncue.metrics.metric import Metric, Roles
from oncue.metrics.numbers import Numbers
from oncue.services.archive_reading import files_of, progress_of
from oncue.services.archiving import EVERY, Archiving, check_file
from oncue.settings import Settings
from oncue.storage.open import open_archive, open_storage
from oncue.storage.port import Storage
from oncue.testing.conformance import Store

KEEP = Duration(10 * DAY)


class Site:
    """A store with an archive in a folder, and what keeps both going."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.store = store
        self.folder = folder
        self.settings = Settings(archive=folder.as_uri(), retention=KEEP, keep_audit=KEEP)
        self.storage: Storage = open_archive(self.settings, store.clock)
        self.objects = open_storage(Settings(storage=folder.with_name("objects").as_uri()), store.clock)
        self.numbers = Numbers(None, Roles.SCHEDULER)
        store.maintenance._settings = replace(store.maintenance._settings, archive="on", keep_audit=KEEP)  # type: ignore[attr-defined]  # as if it was opened so

    def process(self) -> Archiving:
        return Archiving(self.store.engine, self.storage, self.objects, self.store.clock, self.settings, self.numbers)

    async def turn(self) -> None:
        await self.process().run_once()
        self.store.advance(EVERY)

    async def archive(self, turns: int = 2) -> None:
        for _ in range(turns):
            await self.turn()

    async def archive_and_drop(self, days: int = 4) -> None:
        """Until all is done: of the tables without partitions a day at a time."""
        for _ in range(days):
            await self.archive()
            await self.drop()

    async def drop(self) -> int:
        return await self.store.maintenance.maintain(self.store.now, KEEP)

    async def lines(self, table: Table) -> list[dict[str, Any]]:
        """All rows of the archive, as one who reads every file gets them."""
        head = (await progress_of(self.store.engine)).head
        found = [file async for file in files_of(self.storage, head, None) if f"/{table}/" in file.key]
        on_disk = {str(path.relative_to(self.folder)) for path in self.folder.glob(f"archive/v1/{table}/*/*/*")}
        assert {file.key for file in found} == on_disk, "what is there is what the manifests say"
        return [json.loads(line) for file in found for line in (await check_file(self.storage, file)).splitlines()]

    async def in_store(self) -> list[str]:
        return sorted(str(run.run_id) for run in await self.store.runs() if run.state.final)

    async def progress(self) -> Progress:
        return await progress_of(self.store.engine)

    def counted(self, metric: Metric) -> float:
        self.numbers.fold()
        return sum(one.values[0] for one in self.numbers.series() if one.name == metric.name)

    async def runs(self) -> list[str]:
        return sorted(line["run_id"] for line in await self.lines(Table.HISTORY))

    async def some_history(self, n: int = 3, *, days: int = 2, recurring: bool = True) -> list[str]:
        """Runs of two users over two days, occurrences that were skipped, and deeds; all of it old by now."""
        store, runs = self.store, []
        if recurring:
            await store.recurring(every=HOUR, catch_up=CatchUp.SKIP)
        for _ in range(days):
            for uid in (store.uid, store.stranger):
                for number in range(n):
                    runs.append(await store.one_shot(uid=uid, payload=b'{"n":%d}' % number))
                    await store.end(runs[-1], State.SUCCEEDED if number else State.DEAD)
            await store.audit.record([AuditEntry(store.now, store.uid, None, "a.b", detail=b'{"user_id":"bob"}')])
            store.advance(DAY)
            await store.plan_all()
        store.advance(KEEP + 2 * DAY)
        return sorted(map(str, runs))


class Killed(BaseException):
    """A process ends here: no code of ours may catch it."""


class Death:
    """Kills a process at its n-th call of the store or of storage."""

    def __init__(self, site: Site, moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = 0
        self._last = 0
        self._before = moment == "before"
        engine = site.store.engine
        for part, verbs in (
            (engine.maintenance, ("take_turn", "finish_turn", "maintain")),
            (engine.archiving, ("next_piece", "rows", "mark")),
            (engine.accounts, ("names",)),
            (engine.forgetting, ("pending", "erase", "redact", "finish")),
            (engine.jobs, ("cancel", "purge")),
            (engine.history, ("discard",)),
            (engine.objects, ("look", "forget")),
            (site.storage, ("put", "get", "delete")),
        ):
            for verb in verbs:
                monkeypatch.setattr(part, verb, self._deadly(getattr(part, verb)))

    def after(self, last: int) -> None:
        self.calls, self._last = 0, last

    def _deadly(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def deadly(*given: Any, **named: Any) -> Any:
            self.calls += 1
            if self.calls == self._last and self._before:
                raise Killed
            answer = await call(*given, **named)
            if self.calls == self._last:
                raise Killed
            return answer

        return deadly
