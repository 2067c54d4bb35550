"""A database with old history of two users, with large values, for tests of the archive with real processes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from random import Random

from oncue.clock import SystemClock
from oncue.domain.ids import RunId
from oncue.domain.instants import DAY, Instant
from oncue.domain.reference import Kind, Reference, object_key
from oncue.domain.run import State
from oncue.engines.open import open_engine
from oncue.engines.port import AuditEntry, Engine, RunQuery, StoredObject
from oncue.settings import Settings
from oncue.storage.open import open_storage
from oncue.testing.clock import FakeClock
from oncue_conformance.store import Store

AGO = 60 * DAY
SECRET = b"only ada knows"


@dataclass
class Old:
    """The runs of each user, and the SHA-256 of their large payloads."""

    runs: dict[str, list[str]] = field(default_factory=lambda: {"ada": [], "bob": []})
    rows: list[tuple[str, str, str]] = field(default_factory=list)  # run, user and the SHA-256 of its payload
    large: dict[str, list[str]] = field(default_factory=lambda: {"ada": [], "bob": []})

    @property
    def all_runs(self) -> list[str]:
        return sorted(self.runs["ada"] + self.runs["bob"])


async def fill(settings: Settings, *, days: int = 2, runs: int = 3, ago: int = AGO) -> Old:
    """Store some days of history, two months ago: each run has a payload, and one of each day a large one."""

    async def opened() -> Engine:
        return await open_engine(settings)

    old, clock = Old(), FakeClock(Instant(SystemClock().now() - ago))
    async with Store(await opened(), opened, clock, Random(1)) as store:
        store.uid, store.stranger = [await store.accounts.user(name, store.now) for name in old.runs]
        storage = open_storage(settings, store.clock)
        for _ in range(days):
            for name, uid in (("ada", store.uid), ("bob", store.stranger)):
                words = b'"%s"' % (SECRET if name == "ada" else b"of bob")
                content = words + b" " * 300_000 + b"%d" % store.now
                large = Reference.to(object_key(Kind.PAYLOAD, uid, store.now, store.new_id().bytes), content)
                await storage.put(large.key, content)
                for number in range(runs):
                    new = await store.new_one_shot(uid=uid, payload=words if number else large.encoded())
                    if not number:
                        stored = StoredObject(large.key, uid, new.job.job_id, Kind.PAYLOAD, large.size)
                        await store.objects.add([stored], store.now)
                    await store.create(new)
                    await store.end(RunId(new.job.job_id), State.SUCCEEDED)
                    old.runs[name].append(str(new.job.job_id))
                    payload = words if number else content
                    old.rows.append((str(new.job.job_id), name, hashlib.sha256(payload).hexdigest()))
                old.large[name].append(hashlib.sha256(content).hexdigest())
                await store.audit.record([AuditEntry(store.now, uid, None, "a.b", address=f"10.0.0.{uid}")])
            store.advance(DAY)
    return old


async def left_in_store(settings: Settings) -> list[str]:
    """The runs that the database still has."""
    engine = await open_engine(settings)
    try:
        found = await engine.lists.runs(RunQuery(limit=1_000))
        return sorted(str(run.run_id) for run in found.items)
    finally:
        await engine.close()
