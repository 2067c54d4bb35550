"""What only SQLite has: one writer thread that commits for everybody, and a file that may be in the way."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import apsw
import pytest

from oncue.domain.errors import Invalid, OncueError, StoreUnavailable
from oncue.domain.instants import SECOND, Duration, Instant
from oncue.engines.sqlite import store as store_module
from oncue.engines.sqlite.engine import SqliteEngine
from oncue.engines.sqlite.store import Connection, Store, fetch
from oncue.settings import Settings

NOW = Instant(1_900_000_000_000_000)


def settings(path: Path, **other: Duration) -> Settings:
    return Settings(engine=f"sqlite:///{path}", **other)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "oncue.db"


@pytest.fixture
def a_diary(tmp_path: Path) -> Path:
    diary = tmp_path / "diary"
    diary.write_bytes(b"Dear diary, " * 1_000)
    return diary


@pytest.fixture
async def engine(path: Path) -> AsyncIterator[SqliteEngine]:
    engine = await SqliteEngine.open(settings(path))
    yield engine
    await engine.close()


@pytest.fixture
async def store(engine: SqliteEngine) -> Store:
    await engine._store.write(lambda db: db.execute("create table notes (note text primary key)").fetchall())
    return engine._store


async def add(store: Store, note: str) -> str:
    await store.write(lambda db: db.execute("insert into notes values (?)", (note,)).fetchall())
    return note


async def notes(store: Store) -> set[str]:
    return {note for (note,) in await store.read(lambda db: fetch(db, "select note from notes"))}


@asynccontextmanager
async def writer_at_work(store: Store) -> AsyncIterator[asyncio.Task[None]]:
    """In this block the writer thread is busy with somebody's work, and whatever else is written queues up."""
    begun, may_end = threading.Event(), threading.Event()

    def work(db: Connection) -> None:
        begun.set()
        may_end.wait()

    task = asyncio.create_task(store.write(work))
    await asyncio.to_thread(begun.wait)
    try:
        yield task
    finally:
        may_end.set()


async def queued(*work: asyncio.Future[str]) -> None:
    """Each of these has been handed to the writer thread."""
    for _ in work:
        await asyncio.sleep(0)


class TestTheWriter:
    async def test_a_failing_piece_of_work_is_undone_alone(self, store: Store) -> None:
        async def fail() -> str:
            def work(db: Connection) -> str:
                db.execute("insert into notes values ('half done')")
                raise ValueError("changed my mind")

            return await store.write(work)

        async with writer_at_work(store) as first:
            others = [asyncio.ensure_future(add(store, "before")), asyncio.ensure_future(fail())]
            others += [asyncio.ensure_future(add(store, "after")), asyncio.ensure_future(add(store, "before"))]
            await queued(*others)
        await first
        answers = await asyncio.gather(*others, return_exceptions=True)

        assert [type(answer) for answer in answers] == [str, ValueError, str, apsw.ConstraintError]
        assert await notes(store) == {"before", "after"}

    async def test_what_fails_alone_leaves_nothing(self, store: Store) -> None:
        def work(db: Connection) -> None:
            db.execute("insert into notes values ('half done')")
            raise ValueError("changed my mind")

        with pytest.raises(ValueError, match="changed my mind"):
            await store.write(work)

        assert await notes(store) == set()

    async def test_whatever_is_queued_shares_a_commit(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        batches: list[int] = []
        commit = store._transact
        monkeypatch.setattr(store, "_transact", lambda db, batch: batches.append(len(batch)) or commit(db, batch))

        async with writer_at_work(store) as first:
            others = [asyncio.ensure_future(add(store, str(i))) for i in range(50)]
            await queued(*others)
        await asyncio.gather(first, *others)

        assert batches == [1, 50]

    async def test_an_answer_is_on_disk(self, store: Store, path: Path) -> None:
        await add(store, "kept")

        with sqlite3.connect(path) as another:
            assert another.execute("select note from notes").fetchall() == [("kept",)]
        another.close()

    async def test_work_nobody_waits_for_any_more_is_not_begun(self, store: Store) -> None:
        async with writer_at_work(store) as first:
            given_up = asyncio.ensure_future(add(store, "given up"))
            await queued(given_up)
            given_up.cancel()
            kept = asyncio.ensure_future(add(store, "kept"))
            await queued(kept)
        await asyncio.gather(first, kept)

        assert await notes(store) == {"kept"}

    async def test_giving_up_while_it_is_written_hurts_nobody(self, store: Store) -> None:
        async with writer_at_work(store) as first:
            first.cancel()

        assert await add(store, "next") == "next"

    async def test_reading_does_not_wait_for_the_writer(self, store: Store) -> None:
        await add(store, "there")

        async with writer_at_work(store) as first:
            assert await notes(store) == {"there"}
        await first

    async def test_the_log_is_kept_short_while_writing_goes_on(
        self, store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(store_module, "WAL_PAGES", 50)
        monkeypatch.setattr(store_module, "WAL_LEFT", 10)

        for i in range(500):
            await add(store, f"{i:05}" * 200)

        assert path.with_name("oncue.db-wal").stat().st_size < 500 * 4096


class TestTrouble:
    async def test_a_slow_answer_is_no_answer(self, path: Path) -> None:
        engine = await SqliteEngine.open(settings(path, store_timeout=Duration(SECOND // 20)))
        slow = pytest.raises(StoreUnavailable, match="did not answer within 50ms")
        async with writer_at_work(engine._store) as first:
            with slow:
                await engine.accounts.user("ada", NOW)
        with pytest.raises(StoreUnavailable):
            await first
        assert await engine.accounts.user("ada", NOW) == 1
        await engine.close()

    async def test_a_full_disk_is_said_and_recovered_from(self, engine: SqliteEngine, store: Store) -> None:
        def fill(db: Connection) -> None:
            db.pragma("max_page_count", db.pragma("page_count"))

        await add(store, "before")
        await store.write(fill)

        async with writer_at_work(store) as first:
            others = [asyncio.ensure_future(add(store, str(i) * 50_000)) for i in range(3)]
            await queued(*others)
        await first
        answers = await asyncio.gather(*others, return_exceptions=True)

        assert {type(answer) for answer in answers} == {StoreUnavailable}
        assert "full" in str(answers[0])
        assert await add(store, "after") == "after"
        assert await notes(store) == {"before", "after"}

    async def test_a_file_that_is_no_database_is_said(self, a_diary: Path) -> None:
        with pytest.raises(StoreUnavailable, match="not a SQLite database"):
            await SqliteEngine.open(settings(a_diary))

    async def test_a_folder_that_cannot_be_made_is_said(self, a_diary: Path) -> None:
        with pytest.raises(StoreUnavailable, match=r"oncue\.db is unavailable"):
            await SqliteEngine.open(settings(a_diary / "oncue.db"))

    async def test_after_closing_every_call_says_so(self, path: Path) -> None:
        engine = await SqliteEngine.open(settings(path))
        await engine.close()

        with pytest.raises(StoreUnavailable, match="closed"):
            await engine.accounts.user("ada", NOW)
        with pytest.raises(StoreUnavailable, match="closed"):
            await engine.accounts.keys()


class TestOpening:
    @pytest.mark.parametrize("url", ["sqlite:///:memory:", "sqlite:///", "sqlite:///oncue.db?key=geheim"])
    async def test_what_is_no_file_is_refused(self, url: str) -> None:
        with pytest.raises(Invalid, match="names no file") as refused:
            await SqliteEngine.open(Settings(engine=url))

        assert refused.value.problems[0].path == "engine"
        assert "geheim" not in str(refused.value)

    async def test_only_its_owner_may_read_it(self, engine: SqliteEngine, path: Path) -> None:
        await engine.accounts.user("ada", NOW)

        modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir() if file.is_file()}

        assert set(modes.values()) == {0o600}
        assert "oncue.db" in modes

    async def test_a_relative_path_stays_where_it_was(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        engine = await SqliteEngine.open(Settings(engine="sqlite:///here.db"))
        monkeypatch.chdir("/")

        await engine.accounts.user("ada", NOW)
        await engine.close()

        assert (tmp_path / "here.db").is_file()

    async def test_a_newer_schema_is_refused(self, engine: SqliteEngine, path: Path) -> None:
        await engine._store.write(lambda db: db.pragma("user_version", 9_999))

        with pytest.raises(OncueError, match="schema has level 9999"):
            await SqliteEngine.open(settings(path))
