"""The backend for Django's tasks on PostgreSQL: jobs are part of transactions, and connections are closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests import django_project
from tests.engines import test_postgres_outside as outside
from tests.engines.outbox_site import Site, opened
from tests.engines.test_postgres_outside import Place

from oncue.client.errors import ServerUnreachable

django_project.set_up()  # tasks are declared by its settings

from django.core.checks import run_checks  # noqa: E402
from django.db import ProgrammingError, connection, transaction  # noqa: E402
from django.test.utils import override_settings  # noqa: E402
from tests.contrib.till import tasks as till  # noqa: E402

from oncue.contrib.django import OncueBackend  # noqa: E402
from oncue.contrib.django import database as look  # noqa: E402
from oncue.contrib.django.framework import TaskResultDoesNotExist, TaskResultStatus  # noqa: E402
from oncue.contrib.django.running import runs  # noqa: E402
from oncue.testing.fake_context import FakeContext  # noqa: E402

place = outside.place
pytestmark = pytest.mark.anyio

FULL_NAME = "tests.contrib.till.tasks.fails"
UNREACHABLE = {"url": "http://127.0.0.1:9", "api_key": "k1"}


def tasks(**options: Any) -> Any:
    params = {"BACKEND": "oncue.contrib.django.OncueBackend", "QUEUES": ["default", "mail"], "OPTIONS": options}
    return override_settings(TASKS={"default": params})


@pytest.fixture
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look, "_FOUND", set())


@pytest.fixture
async def site(place: Place, tmp_path: Path, forgotten: None) -> AsyncIterator[Site]:
    async with opened(place, tmp_path, "oncue") as site:
        with django_project.database(site.url):
            yield site


def in_atomic_blocks() -> tuple[str, str]:
    try:
        with transaction.atomic():
            kept = till.fails.using(timeout="30s").enqueue(order=7).id
        with transaction.atomic():
            undone = till.fails.enqueue(order=8).id
            transaction.set_rollback(True)
        return kept, undone
    finally:
        connection.close()


def checked() -> list[Any]:
    try:
        return list(run_checks(databases=["default"]))
    finally:
        connection.close()


async def test_a_job_is_part_of_the_transaction_where_the_database_has_oncue(site: Site) -> None:
    kept, _ = await asyncio.to_thread(in_atomic_blocks)
    [row] = await site.listed()
    assert (str(row.job_id), row.task, row.payload) == (kept, FULL_NAME, '{"order": 7}')
    assert row.options == '{"queue": "default", "timeout": "30s", "priority": "normal"}'
    assert not row.require_task  # a worker that has it may be deployed later


async def test_transactions_can_be_left_to_http(site: Site) -> None:
    with tasks(transactional=False, **UNREACHABLE), pytest.raises(ServerUnreachable):
        await asyncio.to_thread(in_atomic_blocks)
    assert await site.listed() == []


async def test_a_database_without_oncue_is_found_out_and_left_alone(place: Place, forgotten: None) -> None:
    with django_project.database(place.url), tasks(**UNREACHABLE):
        with pytest.raises(ServerUnreachable):
            await asyncio.to_thread(in_atomic_blocks)
        [found] = await asyncio.to_thread(checked)
        assert (found.id, "has no oncue in the schema 'oncue'" in found.msg) == ("oncue.W002", True)
    with django_project.database(place.url), tasks(transactional=True), pytest.raises(ProgrammingError):
        await asyncio.to_thread(in_atomic_blocks)


async def test_a_role_without_a_grant_is_refused_and_told_what_to_run(site: Site) -> None:
    with tasks(api_key="k1"):
        assert await asyncio.to_thread(checked) == []
        await site.engine.outbox.revoke(site.db_role)
        [found] = await asyncio.to_thread(checked)
        assert (found.id, f"oncue db grant {site.db_role}" in found.hint) == ("oncue.W003", True)
        with pytest.raises(ProgrammingError, match="permission denied"):
            await asyncio.to_thread(in_atomic_blocks)


async def test_a_run_leaves_no_connection_behind(site: Site) -> None:
    def in_a_thread() -> None:
        assert runs(till.connects)(FakeContext())
        assert connection.connection is None

    await asyncio.to_thread(in_a_thread)
    session = await runs(till.connects_async)(FakeContext())
    gone = "select not exists (select from pg_stat_activity where pid = $1)"
    async with asyncio.timeout(outside.PATIENCE):
        while not await site.web.fetchval(gone, session):
            await asyncio.sleep(0.01)


async def test_a_result_is_known_before_a_scheduler_has_created_the_job(
    site: Site, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OncueBackend, "_read", lambda *_: None)  # what the API answers so long

    def result(of: str) -> Any:
        try:
            return till.fails.get_result(of)
        finally:
            connection.close()

    kept, undone = await asyncio.to_thread(in_atomic_blocks)
    found = await asyncio.to_thread(result, kept)
    assert (found.id, found.status, found.args) == (kept, TaskResultStatus.READY, [7])
    with pytest.raises(TaskResultDoesNotExist, match=undone):
        await asyncio.to_thread(result, undone)

    await place.session.execute("update oncue.outbox set retry_at = 1::bigint << 62, why = 'no such queue'")
    refused = await asyncio.to_thread(result, kept)
    assert (refused.status, refused.errors[0].traceback) == (TaskResultStatus.FAILED, "no such queue\n")
