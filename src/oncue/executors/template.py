"""A process that has the user's tasks imported and runs none of them.

    python -P -m oncue.executors.template FD

Each run gets a copy of it, made by fork: ready within a millisecond or two, and as if freshly started. When the copy
has ended, the template kills whatever the copy started, and then tells the worker how it ended. So nothing that a run
leaves behind (threads, children, descriptors, handlers, environment, folder, limits) exists when the next one starts.

A fork copies one thread, and shares what is open. Where importing the tasks has left other threads, children or open
files behind, and outside Linux, this process serves one run by itself and ends.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

import msgspec

from oncue.domain.errors import Invalid
from oncue.executors import child, words
from oncue.executors.capture import capture_logging
from oncue.executors.loading import load_tasks
from oncue.executors.warden import (
    LINUX,
    PR_SET_CHILD_SUBREAPER,
    PR_SET_PDEATHSIG,
    descendants,
    ended,
    kill,
    process_control,
)
from oncue.settings import Settings
from oncue.tasks import Tasks


class Template:
    def __init__(self, orders: socket.socket, settings: Settings, tasks: Tasks | Invalid) -> None:
        self._orders = orders
        self._settings = settings
        self._tasks = tasks
        self._control = process_control()
        self._copy = 0  # the process of the current run, or of the next one
        self._stopping = False

    def on_term(self, number: int, frame: FrameType | None) -> None:
        """Pass TERM on to our copy: it may have been forked after the warden listed the processes."""
        self._stopping = True
        if self._copy:
            with suppress(ProcessLookupError):
                os.kill(self._copy, signal.SIGTERM)

    def serve(self, left: str) -> None:
        """Serve runs until the worker closes its end, or TERM. `left`: what keeps us from forking, if anything does."""
        self._orders.sendall(words.ready(left))
        if left:
            self._wait_for_run()
        self._control(PR_SET_CHILD_SUBREAPER, 1)  # orphans of a run become our children
        signal.signal(signal.SIGTERM, self.on_term)
        while (ending := self._in_a_copy()) is not None:
            try:
                self._orders.sendall(f"{ending}\n".encode())
            except OSError:
                return

    def _in_a_copy(self) -> str | None:
        """Serve a run in a copy, forked before there is a run: the start of a run need not wait for the fork."""
        us = os.getpid()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        if self._stopping:
            return None
        copy = self._copy = os.fork()
        if copy == 0:
            os.setsid()
            self._control(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() == us:
                self._wait_for_run()
            os._exit(1)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        os.waitid(os.P_PID, copy, os.WEXITED | os.WNOWAIT)
        self._copy = 0  # before another process can get its pid
        _, status = os.waitpid(copy, 0)
        sweep()
        return ended(status)

    def _wait_for_run(self) -> NoReturn:
        """Wait for a run. Until there is one, TERM ends this process."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        order, handed, _, _ = socket.recv_fds(self._orders, 1, 2)
        if not order:
            os._exit(0)
        self._orders.close()
        line, output = handed
        child.serve(line, output, self._settings, self._tasks)


def sweep() -> None:
    """Kill until no process is left: the run is over, and every living process that it started descends from us."""
    with suppress(ChildProcessError):
        while True:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                kill(descendants())
                os.waitpid(-1, 0)


def open_files() -> set[int]:
    """The open files of this process, without the folder that is read to find them."""
    found = set[int]()
    for file in Path("/proc/self/fd").iterdir() if LINUX else ():
        with suppress(OSError):
            os.fstat(int(file.name))
            found.add(int(file.name))
    return found


def left_by_imports(before: set[int]) -> str:
    """What a fork would not copy, or would share: empty, or a word for it."""
    if not LINUX:
        return "the system is not Linux"
    left = {
        "threads": len(list(Path("/proc/self/task").iterdir())) > 1,
        "processes": bool(descendants()),
        "open files": bool(open_files() - before),
    }
    return ", ".join(what for what, there in left.items() if there)


def load(settings: Settings) -> Tasks | Invalid:
    try:
        return load_tasks(settings.tasks)
    except Invalid as wrong:
        return wrong


def main() -> None:
    orders = socket.socket(fileno=int(sys.argv[1]))
    orders.set_inheritable(False)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]  # at start they are files
    with orders.makefile("rb") as reading:
        settings = msgspec.json.decode(reading.readline(), type=Settings)
    signal.signal(signal.SIGINT, lambda *_: None)  # not ignored: programs that tasks start would inherit that
    capture_logging()
    before = open_files()
    tasks = load(settings)
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # a module may have replaced it
            stream.flush()
    gc.collect()
    gc.freeze()  # else a copy's first collection would touch, and so copy, all memory
    Template(orders, settings, tasks).serve(left_by_imports(before))


if __name__ == "__main__":
    main()
