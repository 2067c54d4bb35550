"""How much the API takes in and how quickly it answers, as users have it: `oncue api` in a process of its own.

    python -m bench.api                             # both engines: single creates, batches, pages of 100,000 jobs
    python -m bench.api --only postgres --jobs 5000000 --json api.json

Single creates come from 64 connections, one request at a time on each, with an Idempotency-Key as our clients send it
and without; then from one connection, and from our own client; batches of 1,000 from two connections. The pages are of
a store that holds `--jobs` jobs of one user, put there without the API: half of them one-shots, half recurring. Commits
are durable on both engines. With `--servers 2` the connections are shared out among two processes of the API.

Machines differ, and one machine from minute to minute: each round begins with a bare server (bench/bare.py), which
checks requests of the same size and stores nothing, and what is created one by one is also told as a part of that.
Processor time of the API and of the database, in microseconds a job, depends less on what else the machine does. To
compare two versions, `--beside ../before/src` measures the API of another source tree in turn with this one:

    python -m bench.api --only postgres --jobs 0 --batched 0 --beside ../before/src
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path

import asyncpg
import uvloop
from bench.creating import Row, Served, creating, figures, serving, warm_up
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from bench import bare
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
from oncue_bench.http_load import load, request

PAGES = 1_000  # of each filter
WIDE = 140  # columns of a table that is written to a file
SCHEMA = b'{"type":"object","properties":{"n":{"type":"integer"}},"additionalProperties":false}'

Step = Callable[[str, int, int], None]
Place = Callable[[str], tuple[str, str, int | None]]


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


async def pages(address: str, key: str, step: Step) -> list[Row]:
    rows = []
    asked = filters(SystemClock().now())
    for done, (name, query) in enumerate(asked.items(), 1):
        one = request(address, key, "GET", f"/v1/jobs?{query}")
        found = await load(address, 1, lambda one=one: iter([one] * PAGES))
        rows.append({"what": f"page: {name}", **figures(found)})
        step("pages", done, len(asked))
    return rows


async def measure(place: Place, options: argparse.Namespace, step: Step) -> list[Row]:
    sources = [None, *options.beside]
    stores = [place(f"api{number}") for number in range(len(sources))]
    async with AsyncExitStack() as stack:
        reference, served, engines = stack.enter_context(bare.serving()), list[Served](), list[Engine]()
        for (url, folder, pid), source in zip(stores, sources, strict=True):
            served.append(stack.enter_context(serving(url, folder, options.servers, source, pid)))
            engines.append(await open_engine(Settings(engine=url, store_timeout=Duration(60 * SECOND))))
            stack.push_async_callback(engines[-1].close)
            await engines[-1].fleet.announce([Task("mark", SCHEMA)], SystemClock().now())
            await warm_up(served[-1])
        await bare.measure(reference)
        rows: list[Row] = []
        for turn in range(options.rounds):
            rows += await creating(served, reference, options)
            step("creating", turn + 1, options.rounds)
        if options.jobs:
            await fill(engines[0], options.jobs, step)
            await engines[0].history.fold()
            await at_rest(stores[0][0])
            rows += await pages(served[0].addresses[0], served[0].key, step)
    return rows


@contextmanager
def place_of(name: str) -> Iterator[Place]:
    """Where stores are: the URL of each, a folder, and the process id of its server."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        server = stack.enter_context(PrivatePostgres()) if name == "postgres" else None

        def place(store: str) -> tuple[str, str, int | None]:
            data = f"{folder}/{store}"
            if server is None:
                return f"sqlite:///{folder}/{store}.db", data, None
            return server.create_database(store), data, server.pid if server.ours else None

        yield place


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("sqlite", "postgres"))
    parser.add_argument("--servers", type=int, default=1, help="processes of the API (default: 1)")
    parser.add_argument("--rounds", type=int, default=3, help="of single creates and batches (default: 3)")
    parser.add_argument("--singles", type=int, default=20_000, help="created one by one in a round (default: 20,000)")
    parser.add_argument("--batched", type=int, default=100_000, help="created by batches in a round (default: 100,000)")
    parser.add_argument("--jobs", type=int, default=100_000, help="in the store when pages are read (default: 100,000)")
    parser.add_argument("--beside", action="append", default=[], metavar="SRC", help="the src of another version")
    parser.add_argument("--json", type=Path, help="write the figures here as well")
    options = parser.parse_args()
    console, rows = Console(), list[Row]()
    if not console.is_terminal:
        console.width = WIDE
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as progress:
        bar = progress.add_task("starting")
        for name in (options.only,) if options.only else ("sqlite", "postgres"):

            def step(what: str, done: int, of: int, name: str = name) -> None:
                progress.update(bar, description=f"{name}: {what}", completed=done, total=of)

            with place_of(name) as place:
                rows += [{"engine": name, **row} for row in uvloop.run(measure(place, options, step))]
    columns_of = ("engine", "what", "per_second", "p50_ms", "p99_ms", "of_bare", "api_us", "store_us")
    heads = ("engine", "what", "a second", "p50 ms", "p99 ms", "of bare", "µs of API", "of store")
    table = Table(*heads, title="The API")
    for row in rows:
        table.add_row(*(str(row.get(name, "")) for name in columns_of))
    console.print(table)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
