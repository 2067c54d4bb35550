"""How late runs start, measured by the task itself, with everything as users have it: `oncue up`, real processes.

    python bench/lag.py                     # both engines, 20 s of each kind
    python bench/lag.py --only postgres --seconds 60 --json lags.json

One-shots, `every` and cron with seconds at 100 a second each, one kind after the other; then 10,000 due in one instant.
One-shots are created through the API, the 10,000 and the recurring ones straight in the store.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import uvloop
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from oncue.clock import SystemClock
from oncue.domain.change import first_cursor, only_run
from oncue.domain.ids import JobId, uuid7
from oncue.domain.instants import MILLISECOND, SECOND, Duration, Instant, rfc3339
from oncue.domain.job import Job, Spec
from oncue.domain.schedule import Schedule
from oncue.engines.open import open_engine
from oncue.engines.port import Engine, Hint, NewJob, Topic
from oncue.settings import Settings
from oncue.testing.postgres import PrivatePostgres

RATE = 100
BURST = 10_000
KINDS = ("one-shots", "every 1s", "cron with seconds", "burst")
GOALS = ("p99 ≤ 20 ms", "p99 ≤ 20 ms", "p99 ≤ 20 ms", "max ≤ 2,000 ms")


class Up:
    """A running `oncue up` on a store of its own, and a way into that store."""

    def __init__(self, engine: Engine, url: str, key: str, lags: Path) -> None:
        self.engine = engine
        self.clock = SystemClock()
        self.http = httpx2.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {key}"}, trust_env=False)
        self._lags = lags

    def lags(self, kind: int) -> list[float]:
        """Start less due, in milliseconds, smallest first."""
        rows = struct.iter_unpack("<qdd", self._lags.read_bytes()) if self._lags.exists() else ()
        return sorted((start - due) * 1_000 for k, due, start in rows if k == kind)

    async def reached(self, kind: int, count: int, patience: float) -> None:
        end = time.monotonic() + patience
        while len(self.lags(kind)) < count and time.monotonic() < end:
            await asyncio.sleep(0.05)

    async def add(self, kind: int, schedules: list[Schedule]) -> list[JobId]:
        """Jobs straight into the store, a thousand at a time."""
        now = self.clock.now()
        uid = await self.engine.people.user("bench", now)
        jobs = [
            Job(
                JobId(uuid7(Instant(now + i), os.urandom(8))),
                uid,
                Spec("mark", schedule),
                b'{"kind":%d}' % kind,
                now,
                now,
            )
            for i, schedule in enumerate(schedules)
        ]
        [class_id] = await self.engine.jobs.intern([jobs[0].spec.class_key])
        new = [
            NewJob(job, class_id, cursor=first_cursor(job.spec.schedule, now))
            if job.spec.schedule.recurring
            else NewJob(job, class_id, run=only_run(job, class_id, now))
            for job in jobs
        ]
        for some in (new[i : i + 1_000] for i in range(0, len(new), 1_000)):
            await self.engine.jobs.create(some, self.clock.now(), whole=True)
        await self.engine.signals.send([Hint(Topic.JOBS), Hint(Topic.RUNS)])
        return [job.job_id for job in jobs]


async def one_shots(up: Up, seconds: int) -> None:
    """Each created two seconds ahead, due a hundredth of a second apart."""
    first = up.clock.now() + 2 * SECOND

    async def create(due: Instant) -> None:
        await asyncio.sleep(max(0.0, (due - 2 * SECOND - up.clock.now()) / SECOND))
        job = {"task": "mark", "schedule": rfc3339(due), "payload": {"kind": 0}}
        (await up.http.post("/v1/jobs", json=job)).raise_for_status()

    await asyncio.gather(*(create(Instant(first + number * SECOND // RATE)) for number in range(RATE * seconds)))
    await up.reached(0, RATE * seconds, 10)


async def every(up: Up, seconds: int) -> None:
    now = up.clock.now() // SECOND * SECOND
    anchors = [Instant(now + i * SECOND // RATE) for i in range(RATE)]
    await recur(up, 1, [Schedule(every=SECOND, anchor=anchor) for anchor in anchors], seconds)


async def cron(up: Up, seconds: int) -> None:
    await recur(up, 2, [Schedule(cron="* * * * * *")] * RATE, seconds)


async def recur(up: Up, kind: int, schedules: list[Schedule], seconds: int) -> None:
    jobs = await up.add(kind, schedules)
    await asyncio.sleep(seconds)
    for job_id in jobs:
        await up.engine.jobs.cancel(None, job_id, up.clock.now())


async def burst(up: Up, _: int) -> None:
    due = Instant((up.clock.now() // SECOND + 6) * SECOND)
    await up.add(3, [Schedule(at=due)] * BURST)
    assert up.clock.now() < due - 700 * MILLISECOND, "creating them took too long: they would be late from the start"
    await up.reached(3, BURST, 20)


PARTS: tuple[Callable[[Up, int], Awaitable[None]], ...] = (one_shots, every, cron, burst)


@contextmanager
def running(engine_url: str, folder: Path) -> Iterator[tuple[str, str, Path]]:
    """`oncue up` as a user starts it: the address and the key it prints, and where its runs write their lags."""
    lags = folder / "lags"
    command = [sys.executable, "-m", "oncue", "up", "--port", "0", "--data-dir", str(folder), "--engine", engine_url]
    process = subprocess.Popen(
        [*command, "--tasks", str(Path(__file__).with_name("lag_tasks.py"))],
        env=os.environ | {"ONCUE_LAGS": str(lags)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        address = process.stdout.readline().split()[-1]
        process.stdout.readline()
        yield address, process.stdout.readline().strip(), lags
    finally:
        process.terminate()
        process.wait(30)


async def measure(name: str, engine_url: str, seconds: int, step: Callable[[str], None]) -> list[dict[str, object]]:
    rows = []
    with tempfile.TemporaryDirectory() as folder, running(engine_url, Path(folder)) as (address, key, lags):
        engine = await open_engine(Settings(engine=engine_url, store_timeout=Duration(30 * SECOND)))
        up = Up(engine, address, key, lags)
        await known(up)
        for kind, part in enumerate(PARTS):
            step(KINDS[kind])
            await part(up, seconds)
            rows.append({"engine": name, "kind": KINDS[kind], "goal": GOALS[kind], **figures(up.lags(kind))})
        await up.http.aclose()
        await engine.close()
    return rows


async def known(up: Up) -> None:
    """The worker has announced its task."""
    while "mark" not in (await up.http.get("/v1/tasks")).text:
        await asyncio.sleep(0.05)


def figures(lags: list[float]) -> dict[str, object]:
    count = len(lags)
    at = {"p50": 0.5, "p99": 0.99}
    percentiles = {name: round(lags[int(count * part)], 1) for name, part in at.items()} if lags else {}
    return {
        "runs": count,
        "early": sum(lag < 0 for lag in lags),
        **percentiles,
        "max": round(lags[-1], 1) if lags else None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("sqlite", "postgres"))
    parser.add_argument("--seconds", type=int, default=20, help="of each kind (default: 20)")
    parser.add_argument("--json", type=Path, help="write the figures here as well")
    options = parser.parse_args()
    console = Console()
    rows: list[dict[str, object]] = []
    engines = (options.only,) if options.only else ("sqlite", "postgres")
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("starting", total=len(engines) * len(PARTS))
        for name in engines:

            def step(what: str, name: str = name) -> None:
                progress.update(bar, description=f"{name}: {what}", advance=1)

            with store(name) as url:
                rows += uvloop.run(measure(name, url, options.seconds, step))
    names = ("engine", "kind", "runs", "early", "p50", "p99", "max", "goal")
    table = Table(*names, title="Start lag in milliseconds")
    for row in rows:
        table.add_row(*(str(row.get(name, "")) for name in names))
    console.print(table)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2))


@contextmanager
def store(name: str) -> Iterator[str]:
    if name == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            yield f"sqlite:///{folder}/bench.db"
    else:
        with PrivatePostgres() as server:
            yield server.create_database("lag")


if __name__ == "__main__":
    main()
