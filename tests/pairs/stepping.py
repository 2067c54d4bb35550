"""Stopping a verb between two statements: an engine that says after each one that it is done, and waits to go on."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from oncue.engines.postgres.engine import PostgresEngine
from oncue.engines.postgres.store import Connection, Pool, Store
from oncue.settings import Settings

PATIENCE = 20.0  # seconds, for what takes milliseconds
STATEMENTS = ("fetch", "fetchrow", "fetchval", "execute", "executemany", "copy_records_to_table")

Meanwhile = Callable[[], Awaitable[Any]]


class Steps:
    """Counts what an engine has the server do: each statement, and each commit. After the chosen one `meanwhile` runs.

    A step is done before it is counted, so a verb stands still with all its locks, or, after a commit, without any.
    """

    def __init__(self) -> None:
        self.begin()

    def begin(self, after: int = 0, meanwhile: Meanwhile | None = None) -> None:
        self.names: list[str] = []
        self.pid = 0  # of the session that has it now
        self.deadlocks = 0
        self._after = after
        self._meanwhile = meanwhile

    async def done(self, name: str) -> None:
        self.names.append(name)
        if len(self.names) == self._after and self._meanwhile is not None:
            await self._meanwhile()


class SteppedStore(Store):
    """What is but one statement stands still before its commit, too, as if the commit took long."""

    steps: Steps

    async def fetch(self, statement: str, *args: Any, hot: bool = False) -> list[asyncpg.Record]:
        return await self.write(lambda connection: connection.fetch(statement, *args), hot=hot)

    @asynccontextmanager
    async def _borrowed(self, wanted: Pool) -> AsyncIterator[Connection]:
        async with super()._borrowed(wanted) as connection:
            self.steps.pid = connection.get_server_pid()
            try:
                yield _Stepped(connection, self.steps)  # type: ignore[misc]  # it is used as one
            except asyncpg.DeadlockDetectedError:
                self.steps.deadlocks += 1
                raise


class _Stepped:
    """A look at one moment is one step, however many statements it takes: it has no locks, and sees nothing new."""

    def __init__(self, connection: Connection, steps: Steps) -> None:
        self._connection = connection
        self._steps = steps
        self._looking = False

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._connection, name)
        if name not in STATEMENTS:
            return real

        async def stepped(what: str, *args: Any, **options: Any) -> Any:
            answer = await real(what, *args, **options)
            if not self._looking:
                await self._steps.done(what)
            return answer

        return stepped

    def transaction(self, **how: Any) -> "_SteppedTransaction":
        self._looking = how.get("readonly", False)
        return _SteppedTransaction(self._connection.transaction(**how), self._steps)


class _SteppedTransaction:
    def __init__(self, transaction: Any, steps: Steps) -> None:
        self._steps = steps
        self.start, self.rollback, self._commit = transaction.start, transaction.rollback, transaction.commit

    async def commit(self) -> None:
        await self._commit()
        await self._steps.done("commit")


class Actor:
    """An engine with connections of its own, which can be stopped between two statements."""

    def __init__(self, engine: PostgresEngine, steps: Steps) -> None:
        self.engine = engine
        self.steps = steps

    @classmethod
    async def on(cls, url: str) -> "Actor":
        settings = Settings(engine=url, pool_size=2)
        store = await SteppedStore.connect(settings)
        store.steps = Steps()
        engine = PostgresEngine(store, settings)
        await engine._pieces.refresh()
        return cls(engine, store.steps)


class Watcher:
    """Says when somebody who was started has come to an end, or can go no further until another goes on."""

    def __init__(self, session: "asyncpg.Connection[asyncpg.Record]") -> None:
        self._session = session

    async def ends_or_waits(self, acting: "asyncio.Task[Any]", steps: Steps) -> bool:
        """True: it has to wait for a lock that somebody else has."""
        async with asyncio.timeout(PATIENCE):
            while True:
                await asyncio.wait([acting], timeout=0.001)
                if acting.done():
                    return False
                pid = steps.pid
                waits = await self._session.fetchval("select cardinality(pg_blocking_pids($1)) > 0", pid)
                if waits and steps.pid == pid and not acting.done():
                    return True


async def interleaved(
    first: Actor, act: Meanwhile, after: int, second: Actor, other: Meanwhile, watcher: Watcher
) -> tuple[Any, Any, bool]:
    """Both answers, the other's begun after so many steps of the first; and whether it had to wait then."""
    beside: list[asyncio.Task[Any]] = []
    waited = False

    async def meanwhile() -> None:
        nonlocal waited
        beside.append(asyncio.create_task(other()))  # type: ignore[arg-type]  # a coroutine function
        waited = await watcher.ends_or_waits(beside[0], second.steps)

    first.steps.begin(after, meanwhile)
    second.steps.begin()
    async with asyncio.timeout(PATIENCE):
        answer = await act()
        if not beside:
            return answer, None, False
        return answer, await beside[0], waited
