"""The file and its writers: one writer thread a process, and one process at a time.

Every write is a plain function of a connection. The writer thread takes all queued ones, runs them in one
transaction and commits once for all of them: callers are answered after the commit, so an answer is durable.
Between processes a lock on `<file>.lock` decides which one may write. SQLite's own lock polls, starves and in the end
says "database is locked"; for this one a process waits in the kernel, which frees it when its holder is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import apsw

from oncue.domain.errors import Invalid, StoreUnavailable
from oncue.domain.instants import SECOND, Duration, show_duration
from oncue.domain.shown_url import shown_url
from oncue.engines.patience import within
from oncue.engines.sqlite.connecting import FileLock, Place, open_private, refuse_what_is_no_file
from oncue.engines.sqlite.reasons import REFUSED, reason, refusal
from oncue.settings import Settings

Connection = apsw.Connection
T = TypeVar("T")
Act = Callable[[Connection], T]
Row = tuple[Any, ...]

READERS = 2  # for lists; what workers wait for has its own thread
BUSY_TIMEOUT = 5_000  # milliseconds SQLite itself waits: only for recovery after a crash, and for opening
CACHE_WRITING, CACHE_READING = 16_000, 4_000  # KiB
WAL_PAGES = 4_000  # 16 MB: from here on pages are copied back into the file, in parallel with the writer
WAL_LEFT = 500  # pages; few enough for the writer itself to copy, which lets the log start again from its beginning
WAL_BYTES = 64 * 1024 * 1024  # the size to which a larger log shrinks

# The file, or the disk under it, is unavailable now: the caller may retry.
_UNAVAILABLE = (
    OSError,
    apsw.BusyError,
    apsw.LockedError,
    apsw.CantOpenError,
    apsw.CorruptError,
    apsw.FullError,
    apsw.IOError,
    apsw.NoMemError,
    apsw.NotADBError,
    apsw.PermissionsError,
    apsw.ReadOnlyError,
    apsw.AuthError,
    apsw.ProtocolError,
    apsw.InterruptError,
    apsw.ConnectionClosedError,
)


def path_of(url: str) -> Path:
    """Return the path of `sqlite:///relative.db` or `sqlite:////abs.db`."""
    name = url.removeprefix("sqlite:///")
    if name in ("", ":memory:") or "?" in name:
        raise Invalid.of(
            "engine",
            "bad_engine",
            f"{shown_url(url)!r} names no file, and oncue needs one: write sqlite:///oncue.db",
        )
    return Path(name)


class _Queued(NamedTuple):
    act: Act[Any]
    done: asyncio.Future[Any]


class _Answer(NamedTuple):
    done: asyncio.Future[Any]
    result: Any
    error: BaseException | None


class Store:
    """Runs work in a transaction, within the time limit; turns every error of the file into StoreUnavailable."""

    def __init__(self, path: Path, timeout: Duration) -> None:
        self.path = path
        self._place = Place(path)
        self._timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._lock = FileLock(path)
        self._queue: queue.SimpleQueue[_Queued | None] = queue.SimpleQueue()
        self._writing: Connection | None = None
        self._reading = threading.local()
        self._open: set[Connection] = set()
        self._readers = ThreadPoolExecutor(READERS, "oncue-sqlite-read")
        self._hot = ThreadPoolExecutor(1, "oncue-sqlite-peek")
        self._tidier = ThreadPoolExecutor(1, "oncue-sqlite-tidy")
        self._closed = False
        self._our_turn = False
        self._turns = 0  # so far
        self._log_pages = 0
        self._tidying = False
        self._left_to_tidy = False
        self._writer = threading.Thread(target=self._write_all, name="oncue-sqlite-write", daemon=True)
        self._writer.start()

    @classmethod
    async def open(cls, settings: Settings) -> Store:
        path = path_of(settings.engine)
        refuse_what_is_no_file(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            os.close(open_private(path))
            return cls(path.resolve(), settings.store_timeout)
        except OSError as away:
            raise unavailable(path, away) from away

    async def read_afresh(self) -> None:
        """Read as another process would, from the file and its log: nothing is cached."""
        await self._within(self._loop.run_in_executor(self._readers, self._look_afresh))

    def is_empty(self) -> bool:
        return self.path.stat().st_size == 0

    async def close(self) -> None:
        """Close after writing what was queued before."""
        self._closed = True
        self._queue.put(None)
        await asyncio.to_thread(self._writer.join, self._timeout / SECOND)
        await asyncio.to_thread(self._close_rest)

    async def write(self, act: Act[T], timeout: Duration | None = None) -> T:
        """Run one transaction, durable when this returns. Several may share a commit; each fails alone."""
        self._still_open()
        done: asyncio.Future[T] = self._loop.create_future()
        self._queue.put(_Queued(act, done))
        return await self._within(done, timeout)

    async def ping(self, within: Duration) -> None:
        """Check that other processes let us write. In our turn they do, however long it is; and as long as any process
        writes, our turn will come.
        """
        before = self._written()
        try:
            await self.write(lambda db: None, within)
        except StoreUnavailable:
            if not self._our_turn and self._written() == before:
                raise

    def _written(self) -> tuple[int, int]:
        """Return a number that changes with every write, by us or by another process."""
        with contextlib.suppress(OSError):
            return self._turns, self.path.with_name(self.path.name + "-wal").stat().st_mtime_ns
        return self._turns, 0

    async def read(self, act: Act[T], *, hot: bool = False) -> T:
        """Read from one snapshot. Never waits for a writer."""
        self._still_open()
        threads = self._hot if hot else self._readers
        return await self._within(self._loop.run_in_executor(threads, self._look, act))

    def _still_open(self) -> None:
        if self._closed:
            raise StoreUnavailable(f"{self.path} is already closed in this process")

    async def _within(self, done: asyncio.Future[T], timeout: Duration | None = None) -> T:
        limit = timeout or self._timeout
        try:
            async with within(limit):
                return await done
        except TimeoutError:
            raise StoreUnavailable(
                f"{self.path} did not answer within {show_duration(limit)}; retry the call"
            ) from None

    # ------------------------------------------------------------------------------------------- in the writer thread

    def _write_all(self) -> None:
        while (first := self._queue.get()) is not None:
            batch, last = self._drain(first)
            wanted = [queued for queued in batch if not queued.done.cancelled()]
            if wanted:
                self._answer(self._commit(wanted))
            if last:
                return

    def _drain(self, first: _Queued) -> tuple[list[_Queued], bool]:
        batch = [first]
        while True:
            try:
                queued = self._queue.get_nowait()
            except queue.Empty:
                return batch, False
            if queued is None:
                return batch, True
            batch.append(queued)

    def _commit(self, batch: Sequence[_Queued]) -> list[_Answer]:
        try:
            with self._lock.held():
                self._place.check()
                answers = self._transact(self._writing_connection(), batch)
                self._place.check()  # a write to a file that no process will find must not be confirmed
                self._finish_tidying()
        except Exception as trouble:  # the thread must survive any error: all writes depend on it
            self._forget_writing()
            error = unavailable(self.path, trouble) if isinstance(trouble, _UNAVAILABLE) else trouble
            return [_Answer(queued.done, None, error) for queued in batch]
        if self._log_pages >= WAL_PAGES and not self._tidying:
            self._tidying = True
            self._tidier.submit(self._tidy)
        return answers

    def _transact(self, db: Connection, batch: Sequence[_Queued]) -> list[_Answer]:
        db.execute("begin immediate")
        self._our_turn = True
        self._turns += 1
        try:
            answers = [_run(db, queued, apart=len(batch) > 1) for queued in batch]
            alone_and_failed = len(batch) == 1 and answers[0].error is not None
            db.execute("rollback" if alone_and_failed else "commit")
        except BaseException:
            with contextlib.suppress(apsw.Error):
                if db.in_transaction:
                    db.execute("rollback")
            raise
        finally:
            self._our_turn = False
        return answers

    def _answer(self, answers: list[_Answer]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is gone, and the caller with it
            self._loop.call_soon_threadsafe(_deliver, answers)

    def _writing_connection(self) -> Connection:
        if self._writing is None:
            self._writing = connect(self.path, CACHE_WRITING)
            self._writing.execute("pragma journal_mode = wal")
            self._writing.set_wal_hook(self._note_log)
        return self._writing

    def _forget_writing(self) -> None:
        """Close a connection after an error: the next write opens a new one."""
        if self._writing is not None:
            with contextlib.suppress(apsw.Error):
                self._writing.close(force=True)
            self._writing = None

    def _note_log(self, db: Connection, name: str, pages: int) -> int:
        self._log_pages = pages
        return apsw.SQLITE_OK

    def _finish_tidying(self) -> None:
        if self._left_to_tidy and self._writing is not None:
            self._left_to_tidy = False
            with contextlib.suppress(*_UNAVAILABLE):  # the commit before stays valid
                _checkpoint(self._writing)

    # ----------------------------------------------------------------------------------------------- beside the writer

    def _tidy(self) -> None:
        """Copy the log back into the file while writes continue; the writer then copies the few pages left."""
        with contextlib.suppress(*_UNAVAILABLE):
            db, before, left = self._connection_of_thread(), WAL_PAGES, _checkpoint(self._connection_of_thread())
            while WAL_LEFT < left < before:
                before, left = left, _checkpoint(db)
        self._left_to_tidy = True
        self._tidying = False

    def _look(self, act: Act[T]) -> T:
        try:
            db = self._connection_of_thread()
            db.execute("begin")
            try:
                return act(db)
            finally:
                db.execute("rollback")
        except REFUSED as refused:
            raise refusal(refused) from refused
        except _UNAVAILABLE as away:
            self._forget_connection_of_thread()
            raise unavailable(self.path, away) from away

    def _look_afresh(self) -> None:
        try:
            with contextlib.closing(connect(self.path, CACHE_READING)) as db:
                fetch(db, "select name from sqlite_master")
            self._place.check()
        except _UNAVAILABLE as away:
            raise unavailable(self.path, away) from away

    def _connection_of_thread(self) -> Connection:
        db: Connection | None = getattr(self._reading, "db", None)
        if db is None:
            db = self._reading.db = connect(self.path, CACHE_READING)
            self._open.add(db)
        return db

    def _forget_connection_of_thread(self) -> None:
        if (db := getattr(self._reading, "db", None)) is not None:
            self._reading.db = None
            self._open.discard(db)
            with contextlib.suppress(apsw.Error):
                db.close(force=True)

    def _close_rest(self) -> None:
        for threads in (self._tidier, self._hot, self._readers):
            threads.shutdown(cancel_futures=True)
        while self._open:
            self._open.pop().close(force=True)
        if not self._writer.is_alive():  # otherwise it still waits for its turn, and ends with the process
            self._forget_writing()
            self._lock.close()


def connect(path: Path, cache: int) -> Connection:
    """Open a connection. One thread at a time uses it, so it needs no mutex: a fifth off every row read."""
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOMUTEX
    db = Connection(str(path), flags=flags, statementcachesize=300)
    db.set_busy_timeout(BUSY_TIMEOUT)
    db.execute(
        f"pragma synchronous = full; pragma wal_autocheckpoint = 0; pragma journal_size_limit = {WAL_BYTES};"
        f" pragma cache_size = -{cache}; pragma temp_store = memory"
    )
    return db


def fetch(db: Connection, statement: str, given: apsw.Bindings = ()) -> list[Row]:
    return db.execute(statement, given).fetchall()


def first(db: Connection, statement: str, given: apsw.Bindings = ()) -> Row | None:
    row: Row | None = db.execute(statement, given).fetchone()
    return row


def stream(db: Connection, statement: str, given: apsw.Bindings = ()) -> Iterator[Row]:
    """Yield row by row, as far as the caller reads."""
    return db.execute(statement, given)


def _run(db: Connection, queued: _Queued, *, apart: bool) -> _Answer:
    """Do one piece of work. Among others it has a savepoint, so that its failure is rolled back alone."""
    if apart:
        db.execute("savepoint apart")
    try:
        answer = _Answer(queued.done, queued.act(db), None)
    except _UNAVAILABLE:
        raise  # SQLite may have rolled back everything: no work of this transaction is certain now
    except BaseException as error:
        answer = _Answer(queued.done, None, refusal(error))
        if apart:
            db.execute("rollback to apart")
    if apart:
        db.execute("release apart")
    return answer


def _deliver(answers: list[_Answer]) -> None:
    for done, result, error in answers:
        if done.done():
            continue  # the caller has given up
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error)


def _checkpoint(db: Connection) -> int:
    """Copy as many pages as possible without blocking others; return how many are left."""
    in_log, copied = db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    return max(0, in_log - copied)


def unavailable(path: Path, away: Exception) -> StoreUnavailable:
    what_to_do = "retry the call"
    if isinstance(away, apsw.NotADBError | apsw.CorruptError):
        what_to_do = "restore it from a backup, or correct the setting `engine`"
    return StoreUnavailable(f"{path} is unavailable ({reason(away)}); {what_to_do}")
