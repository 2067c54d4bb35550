"""How much the API takes in and how quickly it answers, as users have it: `oncue api` in a process of its own.

    python -m bench.api                             # both engines: single creates, batches, pages of 100,000 jobs
    python -m bench.api --only postgres --jobs 5000000 --json api.json

Single creates come from 64 connections, one request at a time on each; batches of 1,000 from two connections. The pages
are of a store that holds `--jobs` jobs of one user, put there without the API: half of them one-shots, half recurring.
Commits are durable on both engines. With `--servers 2` the connections are shared out among two processes of the API.
Machines differ, and one machine from minute to minute: each round begins with a bare server (bench/bare.py), which
checks requests of the same size and stores nothing, and what is created one by one is also told as a part of that.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import uvloop
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from bench import bare
from oncue.bench.http_load import CONNECTIONS, Load, load, request
from oncue.clock import SystemClock
from oncue.domain.change import first_cursor, only_run
from oncue.domain.ids import JobId, uuid7
from oncue.domain.instants import DAY, SECOND, Duration, Instant, rfc3339
from oncue.domain.job import Job, Spec
from oncue.domain.schedule import Schedule
from oncue.engines.open import open_engine
from oncue.engines.port import Engine, NewJob, Task
from oncue.settings import Settings
from oncue.testing.postgres import PrivatePostgres

BATCH = 1_000
PAGES = 1_000  # of each filter
SCHEMA = b'{"type":"object","properties":{"n":{"type":"integer"}},"additionalProperties":false}'

Step = Callable[[str, int, int], None]


@contextmanager
def serving(engine_url: str, folder: str, servers: int) -> Iterator[tuple[list[str], str]]:
    """The addresses of so many `oncue api`, and the key of an administrator, which the first of them makes."""
    command = [sys.executable, "-m", "oncue", "api", "--json", "--port", "0", "--data-dir", folder]
    started, told = list[subprocess.Popen[str]](), list[dict[str, str]]()
    try:
        for _ in range(servers):
            started.append(subprocess.Popen([*command, "--engine", engine_url], stdout=subprocess.PIPE, text=True))
            door = started[-1].stdout
            assert door is not None
            told.append(json.loads(door.readline()))
        yield [one["address"] for one in told], told[0]["admin_key"]
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(30)


async def shared(
    addresses: list[str], connections: int, requests: Callable[[str], Callable[[], Iterator[bytes]]]
) -> Load:
    """The connections shared out among the servers, each with as many requests."""
    loads = (load(one, max(1, connections // len(addresses)), requests(one)) for one in addresses)
    found = await asyncio.gather(*loads)
    return Load(
        sum((one.statuses for one in found), Counter()),
        [took for one in found for took in one.took],
        max(one.seconds for one in found),
    )


def singles(address: str, key: str, count: int) -> Callable[[], Iterator[bytes]]:
    """Due tomorrow: nothing but their creation is measured."""
    due = rfc3339(Instant(SystemClock().now() + DAY))

    jobs = ({"task": "mark", "schedule": due, "payload": {"n": n}} for n in range(count))
    written = [request(address, key, "POST", "/v1/jobs", json.dumps(job).encode()) for job in jobs]
    return lambda: iter(written)


def batches(address: str, key: str, count: int) -> Callable[[], Iterator[bytes]]:
    due = rfc3339(Instant(SystemClock().now() + DAY))
    jobs = [{"task": "mark", "schedule": due, "payload": {"n": n}} for n in range(BATCH)]
    body = json.dumps({"jobs": jobs}).encode()
    return lambda: (request(address, key, "POST", "/v1/jobs/batch", body) for _ in range(count // BATCH))


async def fill(engine: Engine, count: int, step: Step) -> None:
    """Jobs of the first user there is, with names, tags, queues and tasks to filter by."""
    clock, chance = SystemClock(), random.Random(4)
    uid = await engine.accounts.user("admin", clock.now())
    now = clock.now()
    for start in range(0, count, 10_000):
        jobs = [_job(uid, Instant(now + n), n, chance) for n in range(start, min(start + 10_000, count))]
        classes = await engine.jobs.intern([job.spec.class_key for job in jobs])
        new = [
            NewJob(job, class_id, cursor=first_cursor(job.spec.schedule, now))
            if job.spec.schedule.recurring
            else NewJob(job, class_id, run=only_run(job, class_id, now))
            for job, class_id in zip(jobs, classes, strict=True)
        ]
        await engine.jobs.create(new, now)
        step("jobs put into the store", start + len(jobs), count)


async def at_rest(engine_url: str) -> None:
    """What filling has left to do is done: no pages are measured beside the vacuuming of millions of rows."""
    if engine_url.startswith("postgresql"):
        connection = await asyncpg.connect(engine_url)
        for chore in ("vacuum analyze", "checkpoint"):
            await connection.execute(chore)
        await connection.close()


def _job(uid: int, at: Instant, n: int, chance: random.Random) -> Job:
    due = Instant(at + DAY + chance.randrange(30 * DAY))
    spec = Spec(
        f"task-{n % 7}" if n % 1_000 else "rare",
        Schedule(at=due) if n % 2 else Schedule(cron=f"{n % 60} {n % 24} * * *"),
        name=f"job {n % 5_000}",
        queue="default" if n % 20 else "slow",
        tags=("nightly",) if n % 10 == 0 else (f"team-{n % 97}",),
    )
    return Job(JobId(uuid7(at, os.urandom(8))), uid, spec, b'{"n":%d}' % n, at, at)


def filters(now: Instant) -> dict[str, str]:
    soon, later = rfc3339(Instant(now + 3 * DAY)), rfc3339(Instant(now + 4 * DAY))
    return {
        "no filter": "",
        "status=active": "status=active",
        "status=paused (none)": "status=paused",
        "status=finished (none)": "status=finished",
        "last_status=succeeded (none)": "last_status=succeeded",
        "task": "task=task-3",
        "task, one of 1,000": "task=rare",
        "task nobody has": "task=nothing",
        "name": "name=job%2077",
        "tag": "tag=nightly",
        "tag, rare": "tag=team-13",
        "queue": "queue=slow",
        "time": f"start_time={soon}&end_time={later}",
        "time and task": f"start_time={soon}&end_time={later}&task=rare",
        "tag and status": "tag=nightly&status=active",
        "user_id": "user_id=admin",
    }


async def pages(address: str, key: str, step: Step) -> list[dict[str, object]]:
    rows = []
    asked = filters(SystemClock().now())
    for done, (name, query) in enumerate(asked.items(), 1):
        one = request(address, key, "GET", f"/v1/jobs?{query}")
        found = await load(address, 1, lambda one=one: iter([one] * PAGES))
        rows.append({"what": f"page: {name}", **figures(found)})
        step("pages", done, len(asked))
    return rows


def figures(found: Load) -> dict[str, object]:
    assert all(status < 300 for status in found.statuses), found.statuses
    return {
        "per_second": round(found.rate),
        "p50_ms": round(found.percentile(0.5), 1),
        "p99_ms": round(found.percentile(0.99), 1),
    }


async def creating(
    addresses: list[str], key: str, reference: str, options: argparse.Namespace
) -> list[dict[str, object]]:
    """One round."""
    each = options.singles // len(addresses), options.batched // len(addresses)
    bare_rate = await bare.measure(reference)
    found = await shared(addresses, CONNECTIONS, lambda one: singles(one, key, each[0]))
    batched = await shared(addresses, 2, lambda one: batches(one, key, each[1]))
    return [
        {"what": "a bare server", "per_second": round(bare_rate)},
        {"what": "create, one by one", **figures(found), "of_bare": round(found.rate / bare_rate, 2)},
        {
            "what": f"create, batches of {BATCH:,}",
            **figures(batched),
            "per_second": round(batched.rate * BATCH),
        },
    ]


async def measure(engine_url: str, folder: str, options: argparse.Namespace, step: Step) -> list[dict[str, object]]:
    engine = await open_engine(Settings(engine=engine_url, store_timeout=Duration(60 * SECOND)))
    rows: list[dict[str, object]] = []
    try:
        with serving(engine_url, folder, options.servers) as (addresses, key), bare.serving() as reference:
            await engine.fleet.announce([Task("mark", SCHEMA)], SystemClock().now())
            await bare.measure(reference)
            await shared(addresses, CONNECTIONS, lambda one: singles(one, key, 2_000))  # everything is warm after this
            for turn in range(options.rounds):
                rows += await creating(addresses, key, reference, options)
                step("creating", turn + 1, options.rounds)
            if options.jobs:
                await fill(engine, options.jobs, step)
                await engine.history.fold()
                await at_rest(engine_url)
                rows += await pages(addresses[0], key, step)
    finally:
        await engine.close()
    return rows


@contextmanager
def store(name: str, folder: str) -> Iterator[str]:
    if name == "sqlite":
        yield f"sqlite:///{folder}/bench.db"
    else:
        with PrivatePostgres() as server:
            yield server.create_database("api")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("sqlite", "postgres"))
    parser.add_argument("--servers", type=int, default=1, help="processes of the API (default: 1)")
    parser.add_argument("--rounds", type=int, default=3, help="of single creates and batches (default: 3)")
    parser.add_argument("--singles", type=int, default=20_000, help="created one by one in a round (default: 20,000)")
    parser.add_argument("--batched", type=int, default=100_000, help="created by batches in a round (default: 100,000)")
    parser.add_argument("--jobs", type=int, default=100_000, help="in the store when pages are read (default: 100,000)")
    parser.add_argument("--json", type=Path, help="write the figures here as well")
    options = parser.parse_args()
    console, rows = Console(), list[dict[str, object]]()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as progress:
        bar = progress.add_task("starting")
        for name in (options.only,) if options.only else ("sqlite", "postgres"):

            def step(what: str, done: int, of: int, name: str = name) -> None:
                progress.update(bar, description=f"{name}: {what}", completed=done, total=of)

            with tempfile.TemporaryDirectory() as folder, store(name, folder) as url:
                rows += [{"engine": name, **row} for row in uvloop.run(measure(url, folder, options, step))]
    table = Table("engine", "what", "a second", "p50 ms", "p99 ms", "of a bare server", title="The API")
    for row in rows:
        columns_of = ("engine", "what", "per_second", "p50_ms", "p99_ms", "of_bare")
        table.add_row(*(str(row.get(name, "")) for name in columns_of))
    console.print(table)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
