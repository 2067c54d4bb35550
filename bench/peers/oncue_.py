"""oncue: `oncue up` as a user starts it, jobs made through its HTTP API, history kept, every setting its default.

For a drain the queue is paused while the jobs are made, and then resumed (docs/api.md, "queues").

WORKERS=2: another `oncue worker` beside it. NO_HISTORY=1: an experiment, for comparison with peers that keep none; the
statement that settles runs forgets them. There is no such setting: what has happened could not be shown.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from http.client import HTTPConnection
from urllib.parse import urlsplit

from protocol import BATCH, Asked, Stopwatch, asked, mark, tell, tell_ahead

from oncue import Context, Tasks
from oncue.engines.postgres import running
from oncue_bench.processes import told_in

tasks = Tasks()
CONNECTIONS = 2  # for batches: while one is stored, the next is read
MORE_WORKERS = int(os.environ.get("WORKERS", "1")) - 1

if os.environ.get("NO_HISTORY"):
    before, _, rest = running._SQL["settle_final"].partition("kept as (")
    running._SQL["settle_final"] = before + "counted as (" + rest.partition("counted as (")[2]


@tasks.task("mark")
async def mark_task(ctx: Context, number: int) -> None:
    mark(number)


class Door:
    """One connection to the API."""

    def __init__(self, address: str, key: str) -> None:
        self._http = HTTPConnection(urlsplit(address).netloc, timeout=60)
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    def call(self, method: str, path: str, body: object = None) -> bytes:
        self._http.request(method, path, json.dumps(body) if body else None, self._headers)
        answer = self._http.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {text.decode()}")
        return text


@contextmanager
def up() -> Iterator[tuple[str, str]]:
    """A running `oncue up` whose worker has said which tasks it knows: its address, and a key."""
    with tempfile.TemporaryDirectory() as folder:
        oncue = [sys.executable, "-m", "oncue"]
        arguments = ["--engine", asked().store, "--tasks", __file__, "--data-dir", folder]
        command = [*oncue, "up", "--json", "--port", "0", *arguments]
        processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True)]
        assert processes[0].stdout is not None
        try:
            told = told_in(processes[0].stdout.readline())
            processes += [subprocess.Popen([*oncue, "worker", *arguments], text=True) for _ in range(MORE_WORKERS)]
            door = Door(told["address"], told["admin_key"])
            while door.call("GET", "/v1/workers").count(b'"mark"') < len(processes):
                time.sleep(0.05)
            yield told["address"], told["admin_key"]
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait(30)


def job(number: int, due: float | None) -> dict[str, object]:
    at = "now" if due is None else datetime.fromtimestamp(due, UTC).isoformat().replace("+00:00", "Z")
    return {"task": "mark", "schedule": at, "payload": {"number": number}}


def one_by_one(address: str, key: str, ask: Asked, dues: list[float]) -> None:
    door = Door(address, key)
    for number in range(ask.count):
        door.call("POST", "/v1/jobs", job(number, dues[number]))


def in_batches(address: str, key: str, ask: Asked, dues: list[float] | None) -> None:
    starts = iter(range(0, ask.count, BATCH))

    def send() -> None:
        door = Door(address, key)
        for start in starts:
            numbers = range(start, min(start + BATCH, ask.count))
            jobs = [job(number, dues[number] if dues else None) for number in numbers]
            door.call("POST", "/v1/jobs/batch", {"jobs": jobs})

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        for sent in [pool.submit(send) for _ in range(CONNECTIONS)]:
            sent.result()


def enqueue(ask: Asked, how: Callable[[str, str, Asked, list[float]], None]) -> None:
    with up() as (address, key), Stopwatch() as watch:
        how(address, key, ask, ask.dues(86_400))
    tell(per_second=ask.count / watch.seconds)


def main() -> None:
    ask = asked()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if ask.measure in ("one_by_one", "batch"):
        enqueue(ask, one_by_one if ask.measure == "one_by_one" else in_batches)
        return
    with up() as (address, key):
        if ask.measure == "drain":
            door = Door(address, key)
            door.call("POST", "/v1/queues/default/pause")
            in_batches(address, key, ask, None)
            tell()
            door.call("POST", "/v1/queues/default/resume")
        else:
            dues = ask.dues(5)
            in_batches(address, key, ask, dues)
            tell_ahead(dues)
        signal.pause()


if __name__ == "__main__":
    main()
