"""Huey on Redis: eight threads, no results kept, due tasks looked for each second, which is the shortest it takes.

From its docs: the consumer's options `workers`, `worker_type` and `scheduler_interval` (1 to 60 s), and `results=False`
where nobody reads them.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from huey import RedisHuey
from protocol import Asked, asked, mark, play

huey = RedisHuey("bench", url=asked().store, results=False)


@huey.task()
def mark_task(number: int) -> None:
    mark(number)


def send(ask: Asked, dues: list[float] | None) -> None:
    for number in range(ask.count):
        if dues:
            mark_task.schedule((number,), eta=datetime.fromtimestamp(dues[number], UTC))
        else:
            mark_task(number)


@contextmanager
def work() -> Iterator[Callable[[], object]]:
    huey.create_consumer(workers=8, worker_type="thread", scheduler_interval=1, periodic=False).start()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # the consumer has a handler of its own
    yield signal.pause


def main() -> None:
    play(send, work, 5, 1_000)


if __name__ == "__main__":
    main()
