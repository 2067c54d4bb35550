"""What is measured: each engine on a private store, with the raw limit beside it and quick ways to fill it."""

from __future__ import annotations

import asyncio
import platform
import time
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol, Self

import apsw
import asyncpg

from engine_driver import BATCH, Driver
from oncue.domain.instants import MINUTE, Duration
from oncue.engines.open import open_engine
from oncue.engines.port import Engine
from oncue.settings import Settings
from oncue.testing.postgres import PrivatePostgres
from oncue_bench.filling import Owner, fill, old_snapshot

PATIENT = Duration(10 * MINUTE)  # nothing here is to be called away for being slow


class Subject(Protocol):
    name: str
    about: str

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    async def raw(self, n: int) -> float:
        """Runs a second that a bare table takes from due to history."""
        ...

    async def open(self) -> Engine: ...

    async def load(self, driver: Driver, future: int, finished: int) -> None:
        """Rows as the engine would have written them, faster than it would."""
        ...

    def old_snapshot(self) -> AbstractAsyncContextManager[None]:
        """Another session that has begun to read and does not end: what it sees cannot be cleaned up."""
        ...


class PostgresSubject:
    name = "postgres"

    def __init__(self) -> None:
        self.about = ""

    def __enter__(self) -> Self:
        self._server = PrivatePostgres(settings={"max_wal_size": "8GB", "shared_buffers": "1GB"}).__enter__()
        self._raw = self._server.create_database("raw")
        self._url = self._server.create_database("oncue")
        self.about = f"{self._server.kind}, fsync and synchronous_commit on, {platform.python_version()}"
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    async def raw(self, n: int) -> float:
        connection = await asyncpg.connect(self._raw)
        await connection.execute(_POSTGRES_RAW)
        await connection.execute(
            "insert into runs (job, due, payload) select 'j' || i % 1000, now() - i * interval '1 us', '{}'"
            " from generate_series($1::int, 1, -1) i",
            n,
        )
        await connection.execute("vacuum analyze runs")
        claim, settle = await connection.prepare(_POSTGRES_CLAIM), await connection.prepare(_POSTGRES_SETTLE)
        began = time.perf_counter()
        while claimed := await claim.fetch(BATCH):
            await settle.fetch([row[0] for row in claimed])
        rate = n / (time.perf_counter() - began)
        await connection.close()
        return rate

    async def open(self) -> Engine:
        return await open_engine(Settings(engine=self._url, store_timeout=PATIENT))

    async def load(self, driver: Driver, future: int, finished: int) -> None:
        await fill(self._url, _owner(driver), driver.now(), future, finished, _silent)

    def old_snapshot(self) -> AbstractAsyncContextManager[None]:
        return old_snapshot(self._url)


_POSTGRES_RAW = """
drop table if exists runs, history;
create table runs (id bigint generated always as identity primary key, job text not null,
  state smallint not null default 0, due timestamptz not null, attempt smallint not null default 0, worker int,
  lease timestamptz, payload bytea);
create index on runs (due) where state = 0;
create table history (id bigint, job text, due timestamptz, done timestamptz, worker int);
"""
_POSTGRES_CLAIM = """
update runs set state = 1, attempt = attempt + 1, worker = 7, lease = now() + interval '30 s'
where id = any(array(select id from runs where state = 0 and due <= now() order by due limit $1 for update skip locked))
returning id, job, due, attempt, payload
"""
_POSTGRES_SETTLE = """
with done as (delete from runs where id = any($1::bigint[]) and worker = 7 returning id, job, due, worker)
insert into history select id, job, due, now(), worker from done
"""


class SqliteSubject:
    name = "sqlite"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._url = f"sqlite:///{folder}/oncue.db"
        self.about = f"SQLite {apsw.sqlite_lib_version()}, WAL, synchronous=FULL"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """The folder goes as a whole."""

    async def raw(self, n: int) -> float:
        return await asyncio.to_thread(self._raw, n)

    def _raw(self, n: int) -> float:
        path = self._folder / "raw.db"
        for left in self._folder.glob("raw.db*"):
            left.unlink()
        db = apsw.Connection(str(path))
        for statement in _SQLITE_RAW:
            db.execute(statement)
        with db:
            db.executemany(
                "insert into runs (job, due, payload) values (?, ?, ?)", ((f"j{i % 1000}", i, b"{}") for i in range(n))
            )
        began = time.perf_counter()
        while claimed := self._raw_claim(db):
            db.execute("begin immediate")
            db.executemany("delete from runs where id = ? and worker = 7", [(row[0],) for row in claimed])
            db.executemany("insert into history values (?, ?, ?, 1)", [row[:3] for row in claimed])
            db.execute("commit")
        rate = n / (time.perf_counter() - began)
        db.close()
        return rate

    def _raw_claim(self, db: apsw.Connection) -> list[tuple[object, ...]]:
        db.execute("begin immediate")
        claimed = list(db.execute(_SQLITE_CLAIM, (10**12, BATCH)))
        db.execute("commit")
        return claimed

    async def open(self) -> Engine:
        return await open_engine(Settings(engine=self._url, store_timeout=PATIENT))

    async def load(self, driver: Driver, future: int, finished: int) -> None:
        await fill(self._url, _owner(driver), driver.now(), future, finished, _silent)

    def old_snapshot(self) -> AbstractAsyncContextManager[None]:
        return old_snapshot(self._url)


_SQLITE_RAW = (
    "pragma journal_mode = wal",
    "pragma synchronous = full",
    "create table runs (id integer primary key, job text, state int default 0, due int, attempt int default 0,"
    " worker int, lease int, payload blob)",
    "create index runs_due on runs (due) where state = 0",
    "create table history (id int, job text, due int, done int)",
)
_SQLITE_CLAIM = """
update runs set state = 1, attempt = attempt + 1, worker = 7, lease = 1
where id in (select id from runs where state = 0 and due <= ? order by due limit ?)
returning id, job, due, attempt, payload
"""


def _owner(driver: Driver) -> Owner:
    return Owner(driver.uid, driver.class_id, driver.worker_id)


def _silent(what: str, done: int, of: int | None) -> None:
    """Whoever drives this says what is being done."""
