"""Enqueuing in an application's own transaction: the function, its rights, its errors, and that each job comes once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import msgspec
import pytest
from msgspec.structs import replace
from tests.engines import test_postgres_outside as outside
from tests.engines.outbox_site import Site, opened
from tests.engines.test_postgres_outside import PATIENCE, Place, eventually

from oncue.domain.errors import NotFound
from oncue.domain.ids import created_at
from oncue.domain.instants import DAY, MINUTE, SECOND, Duration, Instant
from oncue.engines.open import open_engine
from oncue.engines.port import Engine, Hint, Role, Task, Topic
from oncue.services import outbox
from oncue.services.outbox import CALM_POLL_INTERVAL, POLL_INTERVAL, OutboxIntake

place = outside.place
pytestmark = pytest.mark.anyio


@pytest.fixture
async def site(place: Place, tmp_path: Path) -> AsyncIterator[Site]:
    async with opened(place, tmp_path) as site:
        yield site


# --------------------------------------------------------------------------------------------------------- the function


async def test_an_outbox_that_nobody_uses_is_looked_at_less_often(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    service = site.service()
    assert await service.run_once() == CALM_POLL_INTERVAL

    await site.enqueue()
    assert [await service.run_once() for _ in range(2)] == [POLL_INTERVAL, POLL_INTERVAL]

    monkeypatch.setattr(outbox, "CALM_AFTER", 0)
    await site.enqueue()
    assert await service.run_once() == CALM_POLL_INTERVAL


async def test_a_commit_becomes_a_job_and_a_rollback_leaves_nothing(site: Site) -> None:
    async with site.web.transaction():
        kept = await site.enqueue(options={"queue": "mail", "tags": ["signup"]})
    undone = await rolled_back(site)

    assert await site.service().run_once() == POLL_INTERVAL

    snap = await site.job(kept)
    assert (snap.job.spec.task, snap.job.spec.queue, snap.job.spec.tags) == ("welcome", "mail", ("signup",))
    assert snap.job.payload == b'{"user":7}'
    assert not await site.has(undone)
    assert await site.listed() == []


async def rolled_back(site: Site) -> UUID:
    transaction = site.web.transaction()
    await transaction.start()
    job_id = await site.enqueue()
    await transaction.rollback()
    return job_id


async def test_nothing_is_taken_before_the_commit(site: Site) -> None:
    async with site.web.transaction():
        job_id = await site.enqueue()
        await site.service().run_once()
        assert not await site.has(job_id)
    await site.service().run_once()
    assert await site.has(job_id)


async def test_ids_are_made_as_everywhere_else(site: Site) -> None:
    before = await site.engine.now()
    ids = [await site.enqueue() for _ in range(20)]
    after = await site.engine.now()

    assert ids == sorted(ids)
    for job_id in ids:
        assert (job_id.version, job_id.variant) == (7, "specified in RFC 4122")
        assert before - 1000 <= created_at(job_id) <= after


async def test_the_role_may_do_nothing_else(site: Site) -> None:
    grant = "insert into db_grants values ('x', 1, 'admin', 0)"
    for statement in ("select * from outbox", grant, "select new_job_id(1)"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await site.web.execute(statement)


async def test_a_role_asks_for_what_its_user_has_enqueued(site: Site) -> None:
    job_id, ask = await site.enqueue(options={"queue": "mail"}), "select enqueued($1)::text"
    found = msgspec.json.decode(await site.web.fetchval(ask, job_id))
    assert found == {"task": "welcome", "payload": {"user": 7}, "queue": "mail", "why": None, "refused": False}

    other = await site.engine.accounts.user("other", await site.engine.now())
    await site.engine.outbox.grant(site.db_role, other, Role.MEMBER, Instant(0))
    assert await site.web.fetchval(ask, job_id) is None
    await site.engine.outbox.revoke(site.db_role)
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await site.web.fetchval(ask, job_id)


async def test_a_temporary_table_does_not_stand_in_for_the_table_of_grants(site: Site) -> None:
    await site.engine.outbox.revoke(site.db_role)
    await site.engine.outbox.grant(site.db_role, site.uid, Role.VIEWER, Instant(0))
    await site.web.execute("create temporary table db_grants (db_role name, uid int, role text, granted_at bigint)")
    await site.web.execute("insert into db_grants values (session_user, 1, 'admin', 0)")

    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="needs one of these roles"):
        await site.enqueue()


WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "unknown task": ({"task": "resise"}, "22023", "task 'resise' is not registered"),
    "no object": ({"payload": [1]}, "22023", "payload and options must be JSON objects"),
    "options no object": ({"options": [1]}, "22023", "payload and options must be JSON objects"),
    "missing": ({"payload": {"text": "hi"}}, "22023", "'user' is required by task 'welcome'"),
    "too much": ({"payload": {"user": 1, "usr": 2}}, "22023", "'usr' is not a parameter of task 'welcome'"),
    "option": ({"options": {"timzone": "UTC"}}, "22023", "'timzone' is not a field of jobs"),
    "task as option": ({"options": {"task": "other"}}, "22023", "'task' is not a field of jobs"),
    "empty key": ({"idempotency_key": ""}, "22023", "1 to 255 printable ASCII"),
    "odd key": ({"idempotency_key": "ü"}, "22023", "1 to 255 printable ASCII"),
}


@pytest.mark.parametrize("what", WRONG)
async def test_what_is_wrong_is_refused_in_the_application(site: Site, what: str) -> None:
    await site.service().run_once()  # a scheduler has said which fields there are
    given, state, message = WRONG[what]

    with pytest.raises(asyncpg.PostgresError, match=message) as refused:
        await site.enqueue(**given)

    assert refused.value.sqlstate == state


async def test_a_role_without_a_grant_is_told_the_command(site: Site) -> None:
    assert await site.engine.outbox.revoke(site.db_role)
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await site.enqueue()

    await site.engine.outbox.grant(site.db_role, site.uid, Role.MEMBER, Instant(0))
    await outside_of(site, f"delete from db_grants where db_role = '{site.db_role}'")
    with pytest.raises(asyncpg.InsufficientPrivilegeError) as refused:
        await site.enqueue()
    assert refused.value.hint == f"Grant it the right: oncue db grant {site.db_role} --user USER --role member"
    assert not await site.engine.outbox.revoke(site.db_role)


async def test_a_task_for_other_roles_is_refused(site: Site) -> None:
    await site.engine.fleet.announce([Task("rm", b"{}", roles=("admin",))], Instant(1))
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="task 'rm' needs one of these roles: admin"):
        await site.enqueue("rm", {})


async def test_only_a_role_that_exists_gets_a_grant(site: Site) -> None:
    with pytest.raises(NotFound):
        await site.engine.outbox.grant("nobody at all", site.uid, Role.MEMBER, Instant(0))

    assert [(one.db_role, one.user_id, one.role) for one in await site.engine.outbox.grants()] == [
        (site.db_role, "shop", Role.MEMBER)
    ]


async def outside_of(site: Site, statement: str) -> None:
    """Run a statement as a superuser."""
    session = await asyncpg.connect(site.settings.engine)
    await session.execute(statement)
    await session.close()


# ----------------------------------------------------------------------------------------------------- idempotency keys


async def test_a_key_twice_in_one_transaction_is_one_job(site: Site) -> None:
    async with site.web.transaction():
        first = await site.enqueue(idempotency_key="signup-7")
        assert await site.enqueue(idempotency_key="signup-7") == first
    assert await site.enqueue(idempotency_key="signup-8") != first
    await site.service().run_once()
    assert await site.has(first)


async def test_a_key_in_two_open_transactions_is_one_job(site: Site, place: Place) -> None:
    async with site.another() as other:
        async with site.web.transaction():
            first = await site.enqueue(idempotency_key="k")
            second = asyncio.create_task(site.enqueue(idempotency_key="k", web=other))
            await eventually(lambda: waiting_for_a_lock(place))
        assert await second == first
    await site.service().run_once()
    assert await site.has(first)
    assert await site.listed() == []


async def test_a_key_whose_first_transaction_is_rolled_back_belongs_to_the_second(site: Site, place: Place) -> None:
    async with site.another() as other:
        transaction = site.web.transaction()
        await transaction.start()
        first = await site.enqueue(idempotency_key="k")
        second = asyncio.create_task(site.enqueue(idempotency_key="k", web=other))
        await eventually(lambda: waiting_for_a_lock(place))
        await transaction.rollback()
        assert (kept := await second) != first
    await site.service().run_once()
    assert (await site.has(first), await site.has(kept)) == (False, True)


async def test_a_key_that_was_taken_in_before_returns_its_job(site: Site) -> None:
    first = await site.enqueue(idempotency_key="k")
    await site.service().run_once()

    assert await site.enqueue(idempotency_key="k") == first
    assert await site.listed() == []


@pytest.mark.parametrize("taken", [False, True])
async def test_a_key_with_another_body_is_refused(site: Site, taken: bool) -> None:
    first = await site.enqueue(idempotency_key="k")
    if taken:
        await site.service().run_once()

    for other in ({"payload": {"user": 8}}, {"options": {"queue": "other"}}):
        with pytest.raises(asyncpg.UniqueViolationError, match="already used with another"):
            await site.enqueue(idempotency_key="k", **other)

    assert await site.enqueue(idempotency_key="k") == first


async def test_a_key_whose_row_a_scheduler_has_in_hand_returns_its_job_at_once(site: Site, place: Place) -> None:
    first = await site.enqueue(idempotency_key="k")
    service = site.service()
    async with place.locked("waiting"):
        taking = asyncio.create_task(service.run_once())
        await eventually(place.waiting_for_a_lock)
        async with asyncio.timeout(PATIENCE):
            assert await site.enqueue(idempotency_key="k") == first
        assert not taking.done()
    await taking
    assert await site.has(first)
    assert await site.listed() == []


async def waiting_for_a_lock(place: Place) -> list[int]:
    return await place.backends("wait_event_type = 'Lock'", name="")


# ----------------------------------------------------------------------------------------------------------- taking in


async def test_relative_times_count_from_the_call_and_others_from_the_commit(site: Site) -> None:
    async with site.web.transaction():
        later = await site.enqueue(options={"schedule": "in 10m"})
        called = created_at(later)
        now = await site.enqueue()
        daily = await site.enqueue(options={"schedule": "0 9 * * *"})
        await asyncio.sleep(0.05)
    committed = await site.engine.now()
    await site.service().run_once()

    assert 0 <= (await site.job(later)).job.spec.schedule.at - called - 10 * MINUTE < SECOND
    assert (await site.job(now)).waiting[0].wanted >= committed
    assert (await site.job(daily)).job.spec.schedule.cron == "0 9 * * *"


async def test_workers_are_hinted(site: Site) -> None:
    heard = site.engine.signals.listen()
    for _ in Topic:
        await anext(heard)
    await site.enqueue()
    await site.service().run_once()

    found = await anext(heard)
    assert isinstance(found, Hint)
    assert found.topic is Topic.RUNS
    await heard.aclose()  # type: ignore[attr-defined]  # it is a generator


async def test_a_job_whose_task_comes_later_waits_for_it(site: Site) -> None:
    job_id = await site.enqueue("later", {"any": 1}, require_task=False)
    await site.service().run_once()
    [row] = await site.listed()
    assert row.why is not None
    assert "not registered" in row.why
    assert not row.refused

    await site.engine.fleet.announce([Task("another", b"{}")], await site.engine.now())
    assert (await site.listed())[0].retry_at > 0, "it is not tried all the time"

    await site.engine.fleet.announce([Task("later", b"{}")], await site.engine.now())
    await site.service().run_once()
    assert await site.has(job_id)


async def test_a_payload_that_only_a_newer_worker_takes_waits_for_it(site: Site) -> None:
    await site.enqueue(payload={"user": 1, "new": 2}, require_task=False)
    await site.service().run_once()
    [row] = await site.listed()
    assert not row.refused


async def test_what_does_not_heal_in_time_is_refused_and_stays(site: Site) -> None:
    await site.enqueue("later", {}, require_task=False)
    await site.service(timeout=Duration(0)).run_once()
    [row] = await site.listed()
    assert row.refused
    assert "given up after" in (row.why or "")
    assert (await site.engine.outbox.state()).refused == 1

    await site.service().run_once()
    assert [one.seq for one in await site.listed()] == [row.seq]
    assert await site.engine.outbox.discard([row.job_id]) == 1
    assert await site.listed() == []


async def test_one_bad_row_does_not_keep_others_from_being_taken(site: Site) -> None:
    good = [await site.enqueue() for _ in range(3)]
    bad = await site.enqueue(payload={"user": "seven"})
    good += [await site.enqueue() for _ in range(3)]
    await site.service().run_once()

    assert all([await site.has(job_id) for job_id in good])
    [row] = await site.listed()
    assert (row.job_id, row.refused) == (bad, True)
    assert "payload.user" in (row.why or "")


async def test_a_taken_key_and_a_full_quota_heal(site: Site) -> None:
    first = await site.enqueue(options={"key": "one", "schedule": "in 1h"})
    await site.service().run_once()
    await site.enqueue(options={"key": "one"})
    await site.enqueue(options={"schedule": "in 2h"})
    await site.service(max_jobs_per_user=1).run_once()
    keyed, over = await site.listed()
    assert f"job {first} has the key 'one'" in (keyed.why or "")
    assert "1 active or paused jobs" in (over.why or "")
    assert not keyed.refused
    assert not over.refused

    await site.engine.jobs.cancel(site.uid, first, await site.engine.now())  # type: ignore[arg-type]  # a JobId
    now = await site.engine.now()
    await site.engine.outbox.retry([keyed.job_id, over.job_id], now)
    await site.service().run_once()
    assert await site.listed() == []


async def test_too_many_classes_keep_only_the_rows_that_need_them(site: Site) -> None:
    await site.enqueue(options={"queue": "a"})
    await site.service().run_once()
    async with with_settings(site, quota_classes=1) as (engine, service):
        plain, other = await site.enqueue(options={"queue": "a"}), await site.enqueue(options={"queue": "b"})
        while await service.run_once() == 0:
            pass
        assert (await site.has(plain), await site.has(other)) == (True, False)
        [row] = await engine.outbox.listed(10)
        assert (row.job_id, row.refused) == (other, False)


@asynccontextmanager
async def with_settings(site: Site, **how: Any) -> AsyncIterator[tuple[Engine, OutboxIntake]]:
    """Another engine with other settings, and its service."""
    settings = replace(site.settings, **how)
    engine = await open_engine(settings)
    try:
        yield engine, Site(engine, settings, site.url, site.db_role, site.web, site.uid).service()
    finally:
        await engine.close()


async def test_a_large_payload_goes_to_object_storage(site: Site) -> None:
    job_id = await site.enqueue(payload={"user": 1, "text": "ü" * 10_000})
    await site.service(inline_cap=1_024).run_once()
    found = await site.job(job_id)
    assert found.job.payload[:1] == b"\x01"


async def test_what_was_created_is_in_the_audit_log(site: Site) -> None:
    job_id = await site.enqueue()
    await site.service().run_once()
    page = await site.engine.audit.entries()
    assert [(one.action, one.object_id, one.detail) for one in page.items] == [
        ("job.create", job_id, b'{"db_role":"%b"}' % site.db_role.encode())
    ]


async def test_several_schedulers_take_each_row_once(site: Site, place: Place) -> None:
    ids = [await site.enqueue() for _ in range(60)]
    await asyncio.gather(*(site.service().run_once() for _ in range(4)))
    while (await site.engine.outbox.state()).waiting:
        await site.service().run_once()
    assert await place.value("select count(*) from waiting") == len(ids)
    assert await place.value("select count(distinct run_id) from waiting where run_id = any($1)", ids) == len(ids)


# --------------------------------------------------------------------------------------------------------- two schemas


async def test_two_stores_in_one_database_do_not_see_each_other(place: Place, tmp_path: Path, site: Site) -> None:
    async with opened(place, tmp_path, "shop") as shop:
        await shop.engine.maintenance.maintain(await shop.engine.now(), Duration(365 * DAY))
        here, there = await site.enqueue(), await shop.enqueue()
        await site.service().run_once()
        assert (await site.has(here), await shop.has(there)) == (True, False)
        await shop.service().run_once()
        assert (await site.has(there), await shop.has(there)) == (False, True)
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await site.enqueue(web=shop.web)

        heard = shop.engine.signals.listen()
        for _ in Topic:
            await anext(heard)
        await site.engine.signals.send([Hint(Topic.JOBS, target="not for the shop")])
        await shop.engine.signals.send([Hint(Topic.JOBS, target="shop")])
        while (found := await anext(heard)).topic is not Topic.JOBS:  # of the job that was just created
            pass
        assert found.target == "shop"
        await heard.aclose()  # type: ignore[attr-defined]  # it is a generator
