"""Which tasks may fork, and how a forked copy behaves. No copies of a worker's event loop.

A copy made by `os.fork` shares the loop's sockets and continues the loop: what it reads and writes there is missing, or
twice, in the worker. So a task in the loop cannot fork. A task in a thread can: its copy has no other thread, and ends
with the function. Starting programs is no fork in this sense.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from threading import get_ident, local
from typing import Any

REFUSED = "a task in the worker's event loop cannot fork: give it isolation='process', or start a program"


def end_copies_by_signals() -> None:
    """Let TERM and INT end the forked copies of a task, like any process: our handlers would swallow the signals there,
    and a parent that waits for the copy's end would wait for ever. A handler that the task has set itself stays.
    Signals that arrive before the copy is ready stay pending until then.
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
    """Refuse forks in this thread from now on, also by multiprocessing where it forks. Returns an undo function."""
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
