"""Processes that apply what their code declares: for the setting's owner, once, and never over newer code."""

import asyncio
from typing import Any

import msgspec
import pytest

from oncue import Tasks, every
from oncue.domain.change import pause
from oncue.domain.errors import StoreUnavailable
from oncue.domain.ids import UserNumber
from oncue.domain.instants import HOUR, Duration
from oncue.domain.job import Job, JobStatus
from oncue.engines import port
from oncue.engines.port import JobQuery
from oncue.intake.context import Intake
from oncue.intake.large_values import LargeValues
from oncue.metrics.numbers import SILENT
from oncue.services.declared_schedules import DeclaredSchedules
from oncue.settings import Settings
from oncue.storage.open import open_storage
from oncue.testing.conformance import Store


def code(*keys: str, name: str | None = "shop", when: str = "1h", **options: Any) -> Tasks[Any]:
    """A module that declares a schedule with each key."""
    tasks = Tasks(name)

    @tasks.task(roles=["admin"], **options)
    def digest(to: str = "") -> None: ...

    for key in keys:
        digest.using(key=key).declare(every(when), to=key)
    return tasks


class Site:
    def __init__(self, store: Store, tmp_path: Any) -> None:
        self.store = store
        self.settings = Settings(data_dir=str(tmp_path), schedule_owner="ops")

    def process(self, store: Store | None = None) -> DeclaredSchedules:
        store = store or self.store
        large = LargeValues(store.engine, open_storage(self.settings, store.clock), store.clock, 1_000_000)
        return DeclaredSchedules(Intake(store.engine, store.clock, self.settings, large), "ops", SILENT)

    async def start(self, tasks: Tasks[Any], build: int | None = None) -> tuple[str, ...]:
        """Start a process with this code: it registers its tasks, and applies what they declare."""
        await self.register(tasks)
        return await self.process().apply(tasks.declared(build))

    async def register(self, tasks: Tasks[Any]) -> None:
        told = [port.Task(one.name, one.schema(), msgspec.json.encode(one.defaults), one.roles) for one in tasks]
        await self.store.engine.fleet.announce(told, self.store.now)

    async def owner(self) -> UserNumber:
        found = await self.store.engine.accounts.find("ops")
        assert found is not None
        return found

    async def jobs(self) -> dict[str, Job]:
        """The newest job with each key."""
        page = await self.store.engine.lists.jobs(JobQuery(await self.owner(), limit=100))
        return {str(row.job.spec.key): row.job for row in reversed(page.items)}

    async def live(self) -> set[str]:
        return {key for key, job in (await self.jobs()).items() if job.status is not JobStatus.CANCELLED}


@pytest.fixture
def site(store: Store, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Site:
    """Where nobody waits, and others get their turn."""

    async def at_once(length: Duration) -> None:
        await asyncio.sleep(0)

    monkeypatch.setattr(store.clock, "sleep", at_once)
    return Site(store, tmp_path)


async def test_the_jobs_belong_to_the_owner_of_the_setting(site: Site) -> None:
    assert await site.start(code("a", "b")) == ("a: every 1h", "b: every 1h")

    found = await site.jobs()
    assert {key: (job.spec.task, job.spec.tags, job.payload) for key, job in found.items()} == {
        "a": ("digest", ("applied:shop",), b'{"to":"a"}'),
        "b": ("digest", ("applied:shop",), b'{"to":"b"}'),
    }
    entries = (await site.store.engine.audit.entries(await site.owner())).items
    assert sorted(entry.action for entry in entries) == ["job.apply", "job.create", "job.create"]
    assert await site.start(code("a", "b")) == ("a: every 1h", "b: every 1h")
    assert await site.jobs() == found, "a restart changes nothing"
    assert len((await site.store.engine.audit.entries(await site.owner())).items) == 3


async def test_other_code_changes_them_and_a_pause_stays(site: Site, logged: list[dict[str, Any]]) -> None:
    await site.start(code("a"), build=1)
    job_id = (await site.jobs())["a"].job_id
    assert await site.store.change(job_id, lambda snap: pause(snap, site.store.now))

    await site.start(code("a", when="2h", max_retries=9), build=2)

    changed = (await site.jobs())["a"]
    assert (changed.job_id, changed.status, changed.spec.max_retries) == (job_id, JobStatus.PAUSED, 9)
    [line] = [line for line in logged if line["kind"] == "schedule_applied" and line["action"] == "change"]
    assert line["changes"]["max_retries"] == {"old": 3, "new": 9}
    assert line["changes"]["schedule"]["new"]["every"] == "2h"


async def test_code_that_is_overtaken_while_it_is_applied_gives_way(
    site: Site, logged: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other code of the same build is applied between its changes and what it creates: it does not try again."""
    await site.start(code("a"), build=1)
    jobs, first = site.store.jobs, [True]
    create = jobs.create

    async def overtaken(*given: Any, **named: Any) -> Any:
        while first:
            first.pop()
            await site.start(code("a", when="3h"), build=2)
        return await create(*given, **named)

    monkeypatch.setattr(jobs, "create", overtaken)

    assert await site.start(code("a", "b", when="2h"), build=2) == ()

    assert await site.live() == {"a"}
    assert (await site.jobs())["a"].spec.schedule.every == 3 * HOUR
    assert [line["stamp"] for line in logged if line["kind"] == "schedules_outdated"] == [2]


async def test_the_first_schedule_of_a_set_replaces_no_other(site: Site, logged: list[dict[str, Any]]) -> None:
    await site.start(code(), build=1)

    await site.start(code("a"), build=1)

    assert [line["kind"] for line in logged] == ["schedule_applied"]


async def test_older_code_is_ignored(site: Site, logged: list[dict[str, Any]]) -> None:
    await site.start(code("a", when="2h"), build=2)

    assert await site.start(code("a", "b", when="1h"), build=1) == ()

    assert [line["stamp"] for line in logged if line["kind"] == "schedules_outdated"] == [1]
    assert (await site.live(), (await site.jobs())["a"].spec.schedule.every) == ({"a"}, 2 * 3_600_000_000)
    await site.start(code("a", when="3h"), build=2)
    assert [line["kind"] for line in logged if line["kind"] == "schedules_same_stamp"] == ["schedules_same_stamp"]
    assert (await site.jobs())["a"].spec.schedule.every == 3 * 3_600_000_000


async def test_only_a_named_set_is_pruned(site: Site) -> None:
    await site.start(code("a", "b"))
    await site.start(code("x", "y", name=None))

    await site.start(code("b"))
    await site.start(code("y", name=None))
    assert await site.live() == {"b", "x", "y"}
    await site.start(code())
    assert await site.live() == {"x", "y"}
    await site.start(code(name="x"))
    assert await site.live() == {"x", "y"}, "a set that is called like a key is another one"
    await site.start(code("z", name="key:x"))
    await site.start(code("x", name=None))
    assert "z" in await site.live()


async def test_code_without_a_name_does_not_outdate_other_code(site: Site) -> None:
    await site.start(code("a", name=None), build=9)

    assert await site.start(code("b", name=None), build=1) == ("b: every 1h",)
    assert await site.start(code("a", name=None, when="2h"), build=1) == ()
    assert await site.live() == {"a", "b"}


async def test_processes_that_start_together_do_not_fight(site: Site, logged: list[dict[str, Any]]) -> None:
    tasks = code(*"abcdefgh")
    await site.register(tasks)
    sets = tasks.declared(build=1)

    said = await asyncio.gather(*(site.process().apply(sets) for _ in range(8)))

    assert {len(one) for one in said} == {8}
    assert await site.live() == set("abcdefgh")
    page = await site.store.engine.lists.jobs(JobQuery(await site.owner(), limit=100))
    assert len(page.items) == 8
    assert {line["kind"] for line in logged} == {"schedule_applied"}


async def test_what_is_refused_is_said_with_its_place_and_the_rest_is_applied(
    site: Site, logged: list[dict[str, Any]]
) -> None:
    taken, other = code("a", name="other"), code("x", name=None)
    await site.start(taken)
    tasks = Tasks[object]()
    tasks.include(code("a"))
    tasks._schedules += other._schedules

    assert await site.process().apply(tasks.declared()) == ("x: every 1h",)

    [line] = [line for line in logged if line["kind"] == "schedules_refused"]
    assert "test_declared_schedules.py:" in line["why"]
    assert "a: key the job with this key belongs to the set 'other'" in line["why"]
    assert "oncue apply MODULE --adopt" in line["why"]
    assert (await site.jobs())["a"].spec.tags == ("applied:other",)


async def test_an_unavailable_database_is_waited_for(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = site.store.engine.accounts.user, 0

    async def away(*given: Any) -> UserNumber:
        nonlocal calls
        calls += 1
        if calls < 3:
            raise StoreUnavailable("away")
        return await real(*given)

    monkeypatch.setattr(site.store.engine.accounts, "user", away)

    assert await site.start(code("a")) == ("a: every 1h",)
