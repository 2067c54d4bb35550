"""`oncue.enqueue` into an application's own database, and the relay that turns its rows into jobs."""

import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import asyncpg
import httpx2
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.orm import Session

import oncue
from oncue import Outbox, Tasks
from oncue.cli.relay import _relay
from oncue.client import AsyncClient, ServerUnreachable
from oncue.domain.instants import MINUTE, Duration
from oncue.enqueuing import DDL
from oncue.relay.relaying import Passed, Relay
from oncue.relay.sources import Refusal, Source, opened
from oncue.testing.app import OncueApp
from oncue.testing.clock import FakeClock
from oncue.testing.transport import URL, AsyncTransport

pytestmark = pytest.mark.anyio

tasks = Tasks()


@tasks.task
def welcome(user: int) -> None: ...


@pytest.fixture
def app() -> Iterator[OncueApp]:
    with OncueApp([tasks]) as app:
        yield app


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "an app.db"
    shop(file).executescript(DDL + "create table users (id integer primary key);")
    return file


def shop(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(file)


def rows(file: Path) -> list[Any]:
    return shop(file).execute("select id, why, retry_at from oncue_outbox order by id").fetchall()


async def relayed(file: Path, app: OncueApp, clock: FakeClock | None = None) -> Passed:
    async with opened(f"sqlite:///{file}", "oncue_outbox") as source:
        return await Relay(source, app.async_client, clock or FakeClock()).run_once()


async def created(app: OncueApp) -> list[Any]:
    return [job async for job in app.async_client.jobs.list()]


# ------------------------------------------------------------------------------------------------------------ enqueuing


async def test_a_commit_in_sqlite_becomes_a_job_and_a_rollback_leaves_nothing(file: Path, app: OncueApp) -> None:
    connection = shop(file)
    connection.execute("insert into users values (7)")
    oncue.enqueue(connection, welcome.using(queue="mail"), user=7)
    connection.commit()
    connection.execute("insert into users values (8)")
    oncue.enqueue(connection, welcome, user=8)
    connection.rollback()

    assert await relayed(file, app) == Passed(created=1)

    [job] = await created(app)
    assert (job.task, job.payload, job.queue) == ("welcome", {"user": 7}, "mail")
    assert rows(file) == []


async def test_a_key_is_one_row_and_one_job_also_when_its_row_is_gone(file: Path, app: OncueApp) -> None:
    connection = shop(file)
    first = oncue.enqueue(connection, "welcome", payload={"user": 7}, idempotency_key="signup-7")
    assert oncue.enqueue(connection, "welcome", payload={"user": 7}, idempotency_key="signup-7") == first
    with pytest.raises(ValueError, match="already used with another"):
        oncue.enqueue(connection, "welcome", payload={"user": 8}, idempotency_key="signup-7")
    with pytest.raises(ValueError, match="printable ASCII"):
        oncue.enqueue(connection, "welcome", payload={"user": 8}, idempotency_key="ü")
    connection.commit()
    assert await relayed(file, app) == Passed(created=1)

    oncue.enqueue(connection, "welcome", payload={"user": 7}, idempotency_key="signup-7")
    connection.commit()
    await relayed(file, app)

    assert len(await created(app)) == 1
    assert rows(file) == []


def test_sqlalchemy_on_sqlite_writes_the_row_in_its_transaction(file: Path) -> None:
    with Session(sqlalchemy.create_engine(f"sqlite:///{file}")) as session:
        kept = oncue.enqueue(session, welcome, user=7)
        session.commit()
        oncue.enqueue(session, welcome, user=8)
        session.rollback()

    assert [row[0] for row in rows(file)] == [str(kept)]


async def test_a_postgres_without_oncue_has_the_same_table(postgres_url: str, app: OncueApp) -> None:
    outbox = Outbox(table="oncue_outbox")
    with psycopg.connect(postgres_url) as connection:
        connection.execute(DDL)
        outbox.enqueue(connection, welcome, user=7)
    session = await asyncpg.connect(postgres_url)
    async with session.transaction():
        kept = await outbox.enqueue(session, "unknown", idempotency_key="k")
    async with opened(postgres_url, "oncue_outbox") as source:
        passed = await Relay(source, app.async_client, FakeClock()).run_once()
        left = await source.listed(10)

    assert (passed.created, [row.id for row in left]) == (1, [str(kept)])
    assert "not registered" in (left[0].why or "")
    assert [job.payload for job in await created(app)] == [{"user": 7}]
    await session.close()


# -------------------------------------------------------------------------------------------------------------- refused


async def test_what_is_refused_stays_with_its_reason_and_is_sent_again_after_a_minute(
    file: Path, app: OncueApp
) -> None:
    connection, clock = shop(file), FakeClock()
    row = oncue.enqueue(connection, "welcome", payload={"user": 7}, options={"queue": 1})
    oncue.enqueue(connection, welcome, user=8)
    connection.execute(
        "insert into oncue_outbox values ('by hand', 'welcome', 'no JSON', '{}', null, ?, 0, null)", [clock.now()]
    )
    connection.commit()

    passed = await relayed(file, app, clock)

    assert passed.created == 1
    assert [why.partition(":")[0] for _, why in passed.refused] == ["queue", "payload and options must be JSON objects"]
    assert [row[1:] for row in rows(file)] == [(why, clock.now() + MINUTE) for _, why in passed.refused]
    assert await relayed(file, app, clock) == Passed()

    connection.execute("delete from oncue_outbox where id = 'by hand'")
    connection.execute("update oncue_outbox set options = '{}' where id = ?", [str(row)])
    connection.commit()
    await clock.advance(MINUTE)
    assert await relayed(file, app, clock) == Passed(created=1)
    assert sorted(job.payload["user"] for job in await created(app)) == [7, 8]


async def test_a_relative_time_counts_from_the_call(file: Path, app: OncueApp) -> None:
    connection = shop(file)
    oncue.enqueue(connection, welcome.using(schedule="in 10m"), user=7)
    at = app.now.timestamp() * 1e6 + MINUTE
    connection.execute("update oncue_outbox set at = ?", [int(at)])
    connection.commit()

    await relayed(file, app)

    [job] = await created(app)
    assert job.next_run_at.timestamp() * 1e6 == at + 10 * MINUTE


# --------------------------------------------------------------------------------------------------------- nothing lost


class Killed(BaseException):
    """The relay ends here."""


class Dying:
    """An outbox whose relay is killed after it was answered, before or after the rows are gone."""

    def __init__(self, source: Source, chance: Random) -> None:
        self._source = source
        self._chance = chance

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    async def settle(self, done: Sequence[str], refused: Sequence[Refusal]) -> None:
        if self._chance.random() < 0.3:
            raise Killed
        await self._source.settle(done, refused)
        if self._chance.random() < 0.3:
            raise Killed


async def test_a_relay_that_is_killed_anywhere_or_not_answered_loses_and_doubles_nothing(
    file: Path, app: OncueApp
) -> None:
    chance, connection = Random(1), shop(file)

    async def answer(request: httpx2.Request) -> httpx2.Response:
        if chance.random() < 0.1:
            raise httpx2.ConnectError("lost before")
        answered = await app.answer(request)
        if chance.random() < 0.1:
            raise httpx2.ReadError("lost after")
        return answered

    client = AsyncClient(URL, app._system.key, retries=0, transport=AsyncTransport(answer))
    users = set[int]()
    for n in range(60):
        for user in chance.sample(range(n * 5, n * 5 + 5), 3):
            key = f"user {user}" if chance.random() < 0.5 else None
            oncue.enqueue(connection, "welcome", payload={"user": user}, idempotency_key=key)
            if key and chance.random() < 0.5:
                oncue.enqueue(connection, "welcome", payload={"user": user}, idempotency_key=key)
            if chance.random() < 0.3:
                connection.rollback()
            else:
                connection.commit()
                users.add(user)
        with suppress(Killed, ServerUnreachable):
            async with opened(f"sqlite:///{file}", "oncue_outbox") as source:
                await Relay(Dying(source, chance), client, FakeClock()).run_once()
    while rows(file):
        await relayed(file, app)

    assert Counter(job.payload["user"] for job in await created(app)) == Counter(users)


class Patient(FakeClock):
    """A clock with which waiting takes no time, and ends when there is nothing left to do."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file

    async def sleep(self, length: Duration) -> None:
        self.jump(length)
        if not rows(self._file):
            raise Killed


async def test_a_relay_goes_on_after_answers_that_say_nothing_of_a_row(file: Path, app: OncueApp) -> None:
    with (connection := shop(file)):
        oncue.enqueue(connection, welcome, user=1)
    odd = [httpx2.Response(500, json={"detail": "a bug"}), httpx2.Response(200, text="<html>Back soon</html>")]

    async def answer(request: httpx2.Request) -> httpx2.Response:
        return odd.pop() if odd else await app.answer(request)

    client = AsyncClient(URL, app._system.key, transport=AsyncTransport(answer))
    with suppress(Killed):
        await _relay(f"sqlite:///{file}", "oncue_outbox", client, Patient(file), False, lambda _: None)

    assert [job.payload for job in await created(app)] == [{"user": 1}]


@pytest.mark.parametrize(
    ("column", "value", "why"),
    [
        ("options", '{"idempotency_key": "x"}', "idempotency_key is a column of its own"),
        ("at", "now", "at must be microseconds since 1970"),
        ("idempotency_key", "ä", "it cannot be sent"),
        ("payload", 7, "payload and options must be JSON objects"),
        ("payload", '{"user": ' + "[" * 5_000 + "]" * 5_000 + "}", "payload and options must be JSON objects"),
        ("task", "a\0b", "task: has the invisible character"),
        ("task", b"\xff", "task must be the name of a task"),
        ("at", 2**63 - 1, "at must be microseconds since 1970"),
        ("idempotency_key", "a\r\nX-Other: 1", "it cannot be sent: idempotency_key"),
        ("idempotency_key", b"\0", "it cannot be sent: idempotency_key"),
    ],
)
async def test_a_row_that_no_request_can_be_made_of_stops_no_other(
    file: Path, app: OncueApp, column: str, value: Any, why: str
) -> None:
    connection = shop(file)
    with connection:
        bad, good = oncue.enqueue(connection, welcome, user=1), oncue.enqueue(connection, welcome, user=2)
        connection.execute(f"update oncue_outbox set {column} = ? where id = ?", (value, str(bad)))

    passed = await relayed(file, app)

    assert (passed.created, [row.id for row, _ in passed.refused]) == (1, [str(bad)])
    assert passed.refused[0][1].startswith(why)
    assert [row[0] for row in rows(file)] == [str(bad)], good


async def test_a_row_without_an_id_is_not_sent_again_and_again(file: Path, app: OncueApp) -> None:
    """Tables of an older `oncue outbox ddl` take such rows: in SQLite a primary key may be NULL."""
    connection = shop(file)
    connection.executescript(f"drop table oncue_outbox; {DDL.replace('text not null primary', 'text primary')}")
    oncue.enqueue(connection, welcome, user=1)
    connection.execute("update oncue_outbox set id = null")
    connection.commit()

    assert (await relayed(file, app), await created(app)) == (Passed(), [])

    connection.executescript(f"drop table oncue_outbox; {DDL}")
    oncue.enqueue(connection, welcome, user=1)
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute("update oncue_outbox set id = null")


@pytest.mark.parametrize("given", [{"payload": {"a": [float("nan")]}}, {"payload": [1]}, {"options": 7}])
async def test_what_json_would_change_or_refuse_is_refused_by_enqueue(file: Path, given: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"is NaN or infinite|must be dictionaries"):
        oncue.enqueue(shop(file), "welcome", **given)
