"""Huey on Redis: eight threads, no results kept, due tasks looked for each second, which is the shortest it takes.

From its docs: the consumer's options `workers`, `worker_type` and `scheduler_interval` (1 to 60 s), and `results=False`
where nobody reads them.
"""

from __future__ import annotations

import signal
import sys
from datetime import UTC, datetime

from huey import RedisHuey
from protocol import Asked, Stopwatch, asked, mark, tell, tell_ahead

ask = asked()
huey = RedisHuey("bench", url=ask.store, results=False)


@huey.task()
def mark_task(number: int) -> None:
    mark(number)


def send(ask: Asked, dues: list[float] | None = None) -> None:
    for number in range(ask.count):
        if dues:
            mark_task.schedule((number,), eta=datetime.fromtimestamp(dues[number], UTC))
        else:
            mark_task(number)


def main() -> None:
    if ask.measure == "one_by_one":
        with Stopwatch() as watch:
            send(ask)
        tell(per_second=ask.count / watch.seconds)
        return
    if ask.measure == "drain":
        send(ask)
    consumer = huey.create_consumer(workers=8, worker_type="thread", scheduler_interval=1, periodic=False)
    consumer.start()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if ask.measure == "drain":
        tell()
    else:
        dues = ask.dues(5 + ask.count / 1_000)
        send(ask, dues)
        tell_ahead(dues)
    signal.pause()


if __name__ == "__main__":
    main()
