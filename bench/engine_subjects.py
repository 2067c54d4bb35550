"""What is measured: each engine on a private store, with the raw limit beside it and quick ways to fill it."""

from __future__ import annotations

import asyncio
import platform
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
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
        connection = await asyncpg.connect(self._url)
        now = driver.now()
        await connection.execute(_POSTGRES_FUTURE, future, driver.uid, driver.class_id, now)
        await connection.execute(_POSTGRES_FINISHED, finished, driver.uid, driver.class_id, now, driver.worker_id)
        await connection.execute("vacuum analyze waiting")
        await connection.execute("vacuum analyze history")
        await connection.execute("checkpoint")
        await connection.close()

    @asynccontextmanager
    async def old_snapshot(self) -> AsyncIterator[None]:
        connection = await asyncpg.connect(self._url)
        async with connection.transaction(isolation="repeatable_read"):
            await connection.fetch("select count(*) from waiting")
            yield
        await connection.close()


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
_UUID7 = (
    "(lpad(to_hex($4::bigint / 1000 + i / 1000), 12, '0')"
    " || '7' || substr(md5(i::text), 1, 3) || '8' || substr(md5(i::text), 4, 15))::uuid"
)
_SPEC = '{"task":"noop","schedule":{"at":1794777050567281}}'
_POSTGRES_FUTURE = f"""
insert into waiting (run_id, job_id, uid, class_id, due, wanted, nominal, trigger, job_version, spec, payload)
select id, id, $2, $3, at, at, at, 0, 1, '{_SPEC}', '{{}}'
from (select {_UUID7} as id, $4::bigint + 86400000000 + i * 1000 as at from generate_series(1, $1::bigint) i) made
"""
_POSTGRES_FINISHED = f"""
insert into history (run_id, job_id, uid, class_id, state, wanted, nominal, trigger, job_version, token, failures,
  losses, started_at, ended_at, worker_id, spec, payload)
select id, id, $2, $3, 2, at, at, 0, 1, 1, 0, 0, at, at, $5, '{_SPEC}', '{{}}'
from (select {_UUID7.replace("$4::bigint / 1000", "$4::bigint / 1000 - 9000000")} as id, $4::bigint - 10000000 + i as at
  from generate_series(1, $1::bigint) i) made
"""


class SqliteSubject:
    name = "sqlite"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
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
        return await open_engine(Settings(engine=f"sqlite:///{self._folder}/oncue.db", store_timeout=PATIENT))

    async def load(self, driver: Driver, future: int, finished: int) -> None:
        await asyncio.to_thread(self._load, driver, future, finished)

    def _load(self, driver: Driver, future: int, finished: int) -> None:
        db = apsw.Connection(str(self._folder / "oncue.db"))
        db.set_busy_timeout(60_000)
        now, who = driver.now(), (driver.uid, driver.class_id)
        [(piece,)] = db.execute("select name from pieces where from_at <= ?1 and until_at > ?1", (now,))
        for start in range(0, future, 250_000):
            db.execute(_SQLITE_FUTURE, (now, start, start + 250_000, *who))
        for start in range(0, finished, 250_000):
            db.execute(_SQLITE_FINISHED.replace("PIECE", piece), (now, start, start + 250_000, *who))
        db.execute("pragma wal_checkpoint(truncate)")
        db.close()

    @asynccontextmanager
    async def old_snapshot(self) -> AsyncIterator[None]:
        db = apsw.Connection(str(self._folder / "oncue.db"))
        db.execute("begin")
        list(db.execute("select count(*) from runs"))
        yield
        db.close()


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
_SQLITE_UUID7 = "unhex(printf('%012x7%03x8%015x', ?1 / 1000 {shift} + i / 1000, i % 4096, abs(random()) % (1 << 60)))"
_SQLITE_SERIES = (
    "with recursive n(i) as (select ?2 + 1 union all select i + 1 from n where i < ?3), made as materialized"
)
_SQLITE_FUTURE = f"""
insert into runs (run_id, job_id, uid, class_id, due, wanted, nominal, trigger, job_version, token, failures, losses,
  held, spec, payload)
{_SQLITE_SERIES} (select {_SQLITE_UUID7.format(shift="")} as id, ?1 + 86400000000 + i * 1000 as at from n)
select id, id, ?4, ?5, at, at, at, 0, 1, 0, 0, 0, 0, cast('{_SPEC}' as blob), x'7b7d' from made
"""
_SQLITE_FINISHED = f"""
insert into PIECE (run_id, job_id, uid, class_id, state, wanted, nominal, trigger, job_version, token, failures, losses,
  started_at, ended_at, spec, payload)
{_SQLITE_SERIES} (select {_SQLITE_UUID7.format(shift="- 9000000")} as id, ?1 - 10000000 + i as at from n)
select id, id, ?4, ?5, 2, at, at, 0, 1, 1, 0, 0, at, at, cast('{_SPEC}' as blob), x'7b7d' from made
"""
