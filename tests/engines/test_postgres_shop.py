"""A day of a shop in fake time: transactions that commit or do not, and schedulers whose calls are lost at any step."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from copy import copy
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import asyncpg
import msgspec
import pytest
from tests.engines import test_postgres_outside as outside
from tests.engines.outbox_site import Site, opened
from tests.engines.test_postgres_outside import Place

from oncue.domain.errors import StoreUnavailable
from oncue.domain.ids import JobId
from oncue.domain.instants import DAY, MINUTE, Duration, Instant
from oncue.engines.outbox_values import Deciding, Decision, Enqueued, TakenIn
from oncue.engines.port import Task
from oncue.testing.clock import FakeClock

place = outside.place
pytestmark = pytest.mark.anyio

STEP = Duration(15 * MINUTE)
GIFT = Task("gift", b'{"type":"object"}')  # deployed at noon
OPTIONS: Sequence[Any] = (
    *({}, {}, {}, {"schedule": "in 2h"}, {"group": "mail"}, {"tags": ["a"]}),
    *({"schedule": "every 3h"}, {"queue": "mail", "priority": "high"}, {"rate": {"limit": 5, "per": "1m"}}),
)
ENDED = "select job_id from history"
THERE = f"select run_id from waiting where run_id = job_id union all select job_id from jobs union all {ENDED}"


class Stopped:
    """A scheduler that is stopped when its rows are deleted and no job is created yet."""

    def __init__(self, deciding: Deciding) -> None:
        self._deciding = deciding

    async def decide(self, rows: Sequence[Enqueued]) -> Sequence[Decision]:
        await self._deciding.decide(rows)
        raise asyncio.CancelledError


class Lossy:
    """Passes calls on, but loses some of `take_in` and of hints: before the write, within it, or their answers."""

    def __init__(self, real: Any, chance: Random) -> None:
        self._real = real
        self._chance = chance

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        return Lossy(found, self._chance) if name in ("outbox", "signals") else found

    async def take_in(self, limit: int, now: Instant, deciding: Deciding, after: Any = None) -> TakenIn:
        match self._chance.randrange(6):
            case 0:
                raise StoreUnavailable("lost before the write")
            case 1:
                return await self._real.take_in(limit, now, Stopped(deciding), after)
            case 2:
                await self._real.take_in(limit, now, deciding, after)
                raise StoreUnavailable("lost after the write")
        return await self._real.take_in(self._chance.choice((2, limit)), now, deciding, after)

    async def send(self, hints: Any) -> None:
        if self._chance.random() < 0.3:
            raise StoreUnavailable("lost hints")
        await self._real.send(hints)


class Shop:
    def __init__(self, site: Site, chance: Random) -> None:
        self.site = site
        self.chance = chance
        self.committed: dict[UUID, Any] = {}  # each with its payload
        self.keys: dict[str, UUID] = {}
        self._lossy = copy(site)
        self._lossy.engine = Lossy(site.engine, chance)
        self._service = self._lossy.service()

    async def sell(self) -> None:
        """One transaction, with jobs that exist if it commits, but for those of a savepoint that is rolled back."""
        transaction = self.site.web.transaction()
        await transaction.start()
        jobs, keys = dict[UUID, Any](), dict[str, UUID]()
        for _ in range(self.chance.randrange(1, 4)):
            inner = self.site.web.transaction()
            await inner.start()
            try:
                key, job_id, payload = await self._enqueue(keys)
            except asyncpg.UniqueViolationError:  # the key was used for something else
                await inner.rollback()
                continue
            if self.chance.random() < 0.1:
                await inner.rollback()
                continue
            await inner.commit()
            jobs[job_id] = payload
            if key is not None:
                keys[key] = job_id
        if self.chance.random() < 0.3:
            await transaction.rollback()
            return
        await transaction.commit()
        self.committed |= jobs
        self.keys |= keys

    async def _enqueue(self, keys: dict[str, UUID]) -> tuple[str | None, UUID, Any]:
        if self.chance.random() < 0.2:
            payload, options = {"n": self.chance.randrange(1_000)}, self.chance.choice(OPTIONS)
            return None, await self.site.enqueue("gift", payload, options=options, require_task=False), payload
        if self.chance.random() < 0.5:
            payload = {"user": self.chance.randrange(1_000)}
            return None, await self.site.enqueue(payload=payload, options=self.chance.choice(OPTIONS)), payload
        number = self.chance.randrange(40)
        key, other = f"order {number}", self.chance.random() < 0.1
        known = keys.get(key) or self.keys.get(key)
        payload = {"user": -1 if other else number}
        found = await self.site.enqueue(payload=payload, idempotency_key=key)
        assert not (known and other), "a key that was used for something else"
        assert known in (None, found), "a key that was used before"
        return None if other else key, found, payload

    async def schedule(self) -> None:
        """A pass of a scheduler. When it is stopped another one takes its place."""
        with suppress(StoreUnavailable):
            try:
                await self._service.run_once()
            except asyncio.CancelledError:
                self._service = self._lossy.service()

    async def cancel(self) -> None:
        """A job that has ended must not come again either."""
        there = await self.site.engine.jobs.read(self.site.uid, JobId(self.chance.choice(sorted(self.committed))))
        if there is not None and not there.job.spec.schedule.recurring:
            await self.site.engine.jobs.cancel(self.site.uid, there.job.job_id, self.site.clock.now())


@pytest.fixture
async def site(place: Place, tmp_path: Path) -> AsyncIterator[Site]:
    async with opened(place, tmp_path) as site:
        site.clock = FakeClock(site.clock.now())  # type: ignore[assignment]  # time passes only here
        yield site


async def test_in_a_day_of_a_shop_each_commit_becomes_one_job_and_no_rollback_does(
    site: Site, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oncue.services.outbox.AT_ONCE", 2)  # so that passes overlap
    shop, clock = Shop(site, Random(20261118)), site.clock
    assert isinstance(clock, FakeClock)
    for passed in range(0, DAY, STEP):
        if passed == DAY // 2:
            await site.engine.fleet.announce([GIFT], clock.now())
        for _ in range(shop.chance.randrange(5)):
            await shop.sell()
        await shop.schedule()
        if shop.committed and shop.chance.random() < 0.2:
            await shop.cancel()
        await clock.advance(STEP)
    for _ in range(20):  # nothing is lost any more
        await site.service().run_once()
        if not await site.listed():
            break

    assert await site.listed() == []
    once = Counter(shop.committed.keys())
    assert await counted(place, THERE) == once
    waiting = await place.session.fetch("select run_id, payload from waiting where run_id = job_id")
    assert {row[0]: msgspec.json.decode(row[1]) for row in waiting}.items() <= shop.committed.items()
    assert await counted(place, "select object_id from audit where action = 'job.create'") == Counter(
        shop.committed.keys()
    )
    assert len(shop.committed) > 150
    assert len(shop.keys) > 20
    assert len(await counted(place, ENDED)) > 5


async def counted(place: Place, query: str) -> Counter[UUID]:
    return Counter(row[0] for row in await place.session.fetch(query))
