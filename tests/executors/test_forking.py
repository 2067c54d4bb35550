"""A worker's event loop has no copies."""

import asyncio
import multiprocessing
import os
import sys
from collections.abc import Iterator
from threading import Thread

import pytest

from oncue.executors import forking


@pytest.fixture(autouse=True)
def refused_here() -> Iterator[None]:
    undo = forking.refuse_in_this_thread()
    yield
    undo()


@pytest.mark.parametrize("fork", ["fork", "forkpty"])
async def test_a_task_in_the_loop_cannot_fork(fork: str) -> None:
    with pytest.raises(RuntimeError, match="isolation='process'"):
        getattr(os, fork)()


async def test_nor_can_multiprocessing_for_it() -> None:
    with pytest.raises(RuntimeError, match="isolation='process'"):
        multiprocessing.get_context("fork").Process(target=int).start()


async def test_it_can_start_programs() -> None:
    program = await asyncio.create_subprocess_exec(sys.executable, "-S", "-c", "raise SystemExit(3)")

    assert await program.wait() == 3


def test_a_thread_can_fork() -> None:
    ended = []

    def fork() -> None:
        if (copy := os.fork()) == 0:
            os._exit(5)
        ended.append(os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1]))

    thread = Thread(target=fork)
    thread.start()
    thread.join(10)

    assert ended == [5]
