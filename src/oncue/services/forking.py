"""No copies of a worker's event loop.

A copy made by `os.fork` shares the loop's sockets, and goes on with it: what it reads and writes there is missing, or
twice, in the worker. So a task in the loop cannot fork. One in a thread can: in its copy there is no other thread, and
it ends with the function. Starting programs is no fork in this sense.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import get_ident
from typing import Any

REFUSED = "a task in the worker's event loop cannot fork: give it isolation='process', or start a program"


def refuse_in_this_thread() -> Callable[[], None]:
    """From now on, also for multiprocessing where it forks. What is returned undoes it."""
    thread, real = get_ident(), (os.fork, os.forkpty)

    def guarded(fork: Callable[[], Any]) -> Callable[[], Any]:
        def guard() -> Any:
            if get_ident() == thread:
                raise RuntimeError(REFUSED)
            return fork()

        return guard

    def undo() -> None:
        os.fork, os.forkpty = real

    os.fork, os.forkpty = map(guarded, real)
    return undo
