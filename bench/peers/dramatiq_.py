"""Dramatiq on Redis: a process for each of two processors with eight threads each, its defaults; no results.

Neither results nor metrics are on unless they are asked for. Delayed messages wait in the worker's memory.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from protocol import Asked, asked, mark, play, worker_process

dramatiq.set_broker(RedisBroker(url=os.environ.get("BROKER") or asked().store))


@dramatiq.actor(actor_name="mark", max_retries=0)
def mark_task(number: int) -> None:
    mark(number)


def send(ask: Asked, dues: list[float] | None) -> None:
    for number in range(ask.count):
        delay = round((dues[number] - time.time()) * 1_000) if dues else None
        mark_task.send_with_options(args=(number,), delay=delay)


def main() -> None:
    here = ("dramatiq", "dramatiq_", "--path", str(Path(__file__).parent))
    play(send, lambda: worker_process(*here, "--processes", "2", "--threads", "8"), 8, 500)


if __name__ == "__main__":
    main()
