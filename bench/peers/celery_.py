"""Celery on Redis: two processes (prefork), 128 messages prefetched for each, no results.

From its docs, "Optimizing": a large prefetch multiplier ("64 or 128") for many short tasks, results ignored; no gossip,
mingle or heartbeat with a single worker. Messages with an eta wait in the worker's memory.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from celery import Celery
from protocol import Asked, asked, mark, play, worker_process

WORKER = ("worker", "--concurrency", "2", "--prefetch-multiplier", "128", "--loglevel", "ERROR")
ALONE = ("--without-gossip", "--without-mingle", "--without-heartbeat")

app = Celery("celery_", broker=os.environ.get("BROKER") or asked().store)
app.conf.update(task_ignore_result=True, worker_hijack_root_logger=False, broker_connection_retry_on_startup=True)


@app.task(name="mark")
def mark_task(number: int) -> None:
    mark(number)


def send(ask: Asked, dues: list[float] | None) -> None:
    with app.producer_pool.acquire(block=True) as producer:
        for number in range(ask.count):
            eta = datetime.fromtimestamp(dues[number], UTC) if dues else None
            mark_task.apply_async((number,), eta=eta, producer=producer)


def main() -> None:
    here = ("celery", "--app", "celery_", "--workdir", str(Path(__file__).parent))
    play(send, lambda: worker_process(*here, *WORKER, *ALONE), 8, 300)


if __name__ == "__main__":
    main()
