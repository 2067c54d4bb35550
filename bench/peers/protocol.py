"""What every script here does alike, so that each holds only its peer.

    SCRIPT MEASURE COUNT STORE, with the file of the marks in $MARKS

One JSON line is the answer: `per_second` for the two measures of enqueueing. For the others it comes once everything is
enqueued and the worker is running, with `due`, the first due instant in seconds since 1970. A drain has none: it counts
the starts after the first tenth, or all from `began` where that would flatter. The worker then goes on until the runner
ends it. The task is given the job's number and marks it, nothing else.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

BATCH = 1_000
PER_SECOND = 100  # jobs due, in a spread


@dataclass(frozen=True)
class Asked:
    measure: str  # one_by_one, batch, drain, burst or spread
    count: int
    store: str  # a URL

    def dues(self, lead: float) -> list[float]:
        """The instant of each job, the first `lead` seconds ahead: the same in a burst, 100 a second in a spread."""
        first = float(int(time.time() + lead) + 1)
        apart = 1 / PER_SECOND if self.measure == "spread" else 0.0
        return [first + number * apart for number in range(self.count)]


def asked() -> Asked:
    _, measure, count, store = sys.argv
    return Asked(measure, int(count), store)


def tell(**figures: float) -> None:
    print(json.dumps(figures), flush=True)


def tell_ahead(dues: list[float]) -> None:
    """Everything is enqueued; if it took so long that the first were late from the start, nothing was measured."""
    ahead = dues[0] - time.time()
    if ahead < 0.5:
        sys.exit(f"enqueueing took too long: the first was due {-ahead:.1f} s before the last was there")
    tell(due=dues[0])


class Stopwatch:
    def __enter__(self) -> Stopwatch:
        self._began = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._began


_marks = os.open(os.environ["MARKS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def mark(number: int) -> None:
    """Which job started, and when: 16 bytes, appended in one piece by whichever process runs it."""
    os.write(_marks, struct.pack("<qd", number, time.time()))


Send = Callable[[Asked, list[float] | None], None]
Working = AbstractContextManager[Callable[[], object]]


def play(send: Send, work: Callable[[], Working], lead: float, per_second: int) -> None:
    """All measures of a peer that takes jobs one at a time.

    `send` enqueues all, for now or for their instants; `work` starts the worker and gives what waits for its end. The
    first instant is so many seconds ahead, and one more for each so many jobs.
    """
    ask = asked()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if ask.measure == "one_by_one":
        with Stopwatch() as watch:
            send(ask, None)
        tell(per_second=ask.count / watch.seconds)
        return
    if ask.measure == "drain":
        send(ask, None)
    with work() as wait:
        if ask.measure == "drain":
            tell()
        else:
            dues = ask.dues(lead + ask.count / per_second)
            send(ask, dues)
            tell_ahead(dues)
        wait()


@contextmanager
def worker_process(*command: str) -> Iterator[Callable[[], object]]:
    """A worker with the store in $BROKER; its children are in our process group."""
    environment = os.environ | {"BROKER": asked().store}
    worker = subprocess.Popen([sys.executable, "-m", *command], env=environment, stdout=sys.stderr)
    try:
        yield worker.wait
    finally:
        worker.kill()  # there is nothing to save, and some would wait for what is not due yet
