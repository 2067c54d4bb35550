"""What tasks may copy, and how a copy behaves. No copies of a worker's event loop.

A copy made by `os.fork` shares the loop's sockets, and goes on with it: what it reads and writes there is missing, or
twice, in the worker. So a task in the loop cannot fork. One in a thread can: in its copy there is no other thread, and
it ends with the function. Starting programs is no fork in this sense.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from threading import get_ident, local
from typing import Any

REFUSED = "a task in the worker's event loop cannot fork: give it isolation='process', or start a program"


def end_copies_by_signals() -> None:
    """A copy that a task makes ends by TERM and INT, like any process: our handlers there would swallow them, and who
    waits for its end would wait for ever. One that the task has set itself stays. What comes before the copy is ready
    for it waits so long.
    """
    usual: dict[int, Any] = {signal.SIGTERM: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler}
    ours = {number: signal.getsignal(number) for number in usual}
    here = local()

    def block() -> None:
        here.mask = signal.pthread_sigmask(signal.SIG_BLOCK, usual)

    def unblock() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, here.mask)

    def restore() -> None:
        signal.set_wakeup_fd(-1)
        for number, handler in usual.items():
            if signal.getsignal(number) == ours[number]:
                signal.signal(number, handler)
        unblock()

    os.register_at_fork(before=block, after_in_parent=unblock, after_in_child=restore)


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
