"""Dramatiq on Redis: a process for each of two processors with eight threads each, its defaults; no results.

Neither results nor metrics are on unless they are asked for. Delayed messages wait in the worker's memory.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from protocol import Asked, Stopwatch, asked, mark, tell, tell_ahead

dramatiq.set_broker(RedisBroker(url=os.environ.get("BROKER") or asked().store))


@dramatiq.actor(actor_name="mark", max_retries=0)
def mark_task(number: int) -> None:
    mark(number)


def send(ask: Asked, dues: list[float] | None = None) -> None:
    for number in range(ask.count):
        delay = round((dues[number] - time.time()) * 1_000) if dues else None
        mark_task.send_with_options(args=(number,), delay=delay)


def main() -> None:
    ask = asked()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if ask.measure == "one_by_one":
        with Stopwatch() as watch:
            send(ask)
        tell(per_second=ask.count / watch.seconds)
        return
    if ask.measure == "drain":
        send(ask)
    command = [sys.executable, "-m", "dramatiq", "dramatiq_", "--path", str(Path(__file__).parent)]
    arguments = ["--processes", "2", "--threads", "8"]
    worker = subprocess.Popen([*command, *arguments], env=os.environ | {"BROKER": ask.store}, stdout=sys.stderr)
    try:
        if ask.measure == "drain":
            tell()
        else:
            dues = ask.dues(8 + ask.count / 500)
            send(ask, dues)
            tell_ahead(dues)
        worker.wait()
    finally:
        worker.kill()  # there is nothing to save; its children are in our process group


if __name__ == "__main__":
    main()
