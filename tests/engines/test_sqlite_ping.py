"""Whether a file takes our writes: others may keep us from it, our own work may not."""

import fcntl
import os
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import apsw
import pytest

from oncue.domain.errors import StoreUnavailable
from oncue.domain.instants import MILLISECOND, Duration
from oncue.engines.sqlite.store import Store
from oncue.settings import Settings

SOON = Duration(100 * MILLISECOND)

Free = Callable[[], None]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await Store.open(Settings(engine=f"sqlite:///{tmp_path}/oncue.db"))
    await opened.write(lambda db: None)
    yield opened
    await opened.close()


def the_turn_to_write(store: Store) -> Free:
    """As another process of ours holds it."""
    held = os.open(f"{store.path}.lock", os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_EX)
    return lambda: os.close(held)


def the_file_itself(store: Store) -> Free:
    """As any program that knows SQLite can lock it."""
    other = apsw.Connection(str(store.path))
    other.execute("begin immediate")
    return other.close


@pytest.mark.parametrize("held", [the_turn_to_write, the_file_itself])
async def test_a_file_that_others_hold_is_away_until_they_let_go(store: Store, held: Callable[[Store], Free]) -> None:
    free = held(store)
    try:
        with pytest.raises(StoreUnavailable):
            await store.ping(SOON)
    finally:
        free()

    await store.ping(Duration(50 * SOON))


async def test_while_we_ourselves_write_for_long_it_is_there(store: Store) -> None:
    begun, enough = threading.Event(), threading.Event()

    def long_work(db: apsw.Connection) -> None:
        begun.set()
        assert enough.wait(10)

    writing = store._loop.create_task(store.write(long_work))
    await store._loop.run_in_executor(None, begun.wait)

    await store.ping(SOON)

    assert not writing.done()
    enough.set()
    await writing
