"""What a million runs that are due at once cost everybody else, and how they are got rid of.

    python -m bench.overload                        # a million runs: ten minutes
    python -m bench.overload --runs 20000 --json overload.json

`oncue up` and a second worker on a private PostgreSQL run a task that takes half a second, with 20 slots each: 80 runs
a second at most. One job of the administrator has `--runs` runs that are due, all in one class. The phases: calm,
before they are there; overload; the job is paused, resumed and cancelled, each until all its runs have followed or a
minute has passed; and after it. In each phase two requests a second of every kind are sent, and each second the
administrator creates a run with high priority, and a second user an ordinary one of the same class. The table has, for
each phase:

- reads, creates: how long the API takes to answer, p50 and p99 in ms; slowest: the read with the highest p50;
- lag of the high-priority runs and of the second user's, p50 and p99 in ms, by what the task itself wrote down;
- longest: the longest transaction that was seen, in ms; memory of `up`, of the worker and of their processes, in MB.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import uvloop
from bench.slow_store import TASKS
from bench.steady_load import SteadyLoad, percentile
from rich.console import Console
from rich.table import Table

from oncue.clock import SystemClock
from oncue.testing.postgres import PrivatePostgres
from oncue_bench import procfs
from oncue_bench.processes import Processes

SLOTS, SECONDS = "20", 0.5  # of each worker; of each run
SERVER = {"shared_buffers": "1GB", "max_wal_size": "8GB"}
CALM, OVERLOAD = 30.0, 60.0  # seconds
FOLLOW = 60.0  # seconds, at most, that the runs follow a change of their job
PATIENCE = 300.0  # seconds until what was created has started
EVERY = 0.5  # seconds between two requests of each kind
WIDE = 170
READS = {
    "runs": "/v1/runs?limit=50",
    "queued": "/v1/runs?status=queued&limit=50",
    "jobs": "/v1/jobs?limit=50",
    "runs of the job": "/v1/jobs/{job}/runs?limit=50",
    "the job": "/v1/jobs/{job}",
    "explain": "/v1/runs/{run}/explain",
    "stats": "/v1/stats",
    "queues": "/v1/queues",
    "workers": "/v1/workers",
}
LONGEST = (
    "select coalesce(max(extract(epoch from clock_timestamp() - xact_start)), 0)::float8 from pg_stat_activity "
    "where application_name like 'oncue%' and pid <> pg_backend_pid()"
)
UNFINISHED = "select count(*) from unfinished where job_id = $1"


@dataclass
class Row:
    phase: str
    lasted_s: float
    reads_p50_ms: float
    reads_p99_ms: float
    slowest: str
    creates_p50_ms: float
    creates_p99_ms: float
    refused: str
    high_p50_ms: float
    high_p99_ms: float
    second_p50_ms: float
    second_p99_ms: float
    longest_ms: float
    up_mb: float
    worker_mb: float


@dataclass
class Seen:
    """What the probes of one phase saw."""

    phase: str
    began: float
    over: float = 0.0
    took: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    created: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    refused: Counter[str] = field(default_factory=Counter)
    longest: float = 0.0
    memory: tuple[float, float] = (0.0, 0.0)


class Overload:
    def __init__(self, folder: Path, processes: Processes, sessions: list[Any], users: list[SteadyLoad]) -> None:
        self._folder = folder
        self._processes = processes
        self._server, self._watcher = sessions
        self._admin, self._second = users
        self._job = self._run = ""
        self.seen: list[Seen] = []

    # ------------------------------------------------------------------------------------------------------- the phases

    async def prepare(self) -> None:
        """Create the job, and one run of it that waits: all others are its copies."""
        body = {"task": "witness", "payload": {"seconds": SECONDS}, "schedule": "0 0 1 1 *", "overlap": "allow"}
        self._job = (await self._admin.acknowledged("POST", "/v1/jobs", body))["job_id"]
        await self._admin.acknowledged("POST", "/v1/queues/default/pause")
        answer = await self._admin.acknowledged("POST", f"/v1/jobs/{self._job}/runNow")
        self._run = answer["run_id"]

    async def flood(self, count: int) -> None:
        """Copy the run in the table itself: the API would take minutes, and is not what is measured here."""
        names = [row[0] for row in await self._server.fetch(COLUMNS)]
        values = [COPIED.get(name, name) for name in names]
        into, what = ", ".join(names), ", ".join(values)
        copy = f"insert into waiting ({into}) select {what} from waiting cross join generate_series($2::int, $3::int) n"
        for start in range(1, count, 50_000):
            stop = min(start + 49_999, count - 1)
            await self._server.execute(f"{copy} where run_id = $1", self._run, start, stop)
        await self._server.execute("vacuum analyze waiting")

    async def resume_queue(self) -> None:
        await self._admin.acknowledged("POST", "/v1/queues/default/resume")

    async def act(self, method: str, path: str) -> None:
        """Change the job, and wait until all its runs have followed, or for as long as they may."""
        await self._admin.acknowledged(method, f"/v1/jobs/{self._job}{path}")
        until = self._admin.now() + FOLLOW
        while self._admin.now() < until and await self._server.fetchval(UNFINISHED, self._job):
            await asyncio.sleep(0.5)

    async def phase(self, name: str, work: Awaitable[object]) -> None:
        """Do it while all probes go on."""
        seen = Seen(name, self._admin.now())
        async with _beside(self._reads(seen), self._creates(seen), self._watch(seen)):
            await work
        seen.over = self._admin.now()
        self.seen.append(seen)
        self._processes.check()

    # ------------------------------------------------------------------------------------------------------- the probes

    async def _reads(self, seen: Seen) -> None:
        paths = {name: path.format(job=self._job, run=self._run) for name, path in READS.items()}
        while True:
            for name, path in paths.items():
                await self._timed(seen, name, self._admin.ask("GET", path))
                await asyncio.sleep(EVERY / len(paths))

    async def _creates(self, seen: Seen) -> None:
        for turn in range(1_000_000):
            body: dict[str, Any] = {"task": "witness", "payload": {"seconds": 0.0}}
            high = turn % 2 == 0
            if high:
                body["priority"] = "high"
            answer = await self._timed(
                seen, "create", (self._admin if high else self._second).ask("POST", "/v1/jobs", body)
            )
            if answer is not None:
                seen.created["high" if high else "second"].append(answer["job_id"])
            await asyncio.sleep(EVERY)

    async def _timed(self, seen: Seen, name: str, asking: Coroutine[Any, Any, tuple[int, Any]]) -> Any:
        began = self._admin.now()
        status, answer = await asking
        seen.took[name].append(self._admin.now() - began)
        if status >= 300 or status == 0:
            seen.refused[f"{name} {status}"] += 1
            return None
        return answer

    async def _watch(self, seen: Seen) -> None:
        up, worker = self._processes.of("up", "worker")
        while True:
            seen.longest = max(seen.longest, await self._watcher.fetchval(LONGEST))
            now = procfs.megabytes(up.pid), procfs.megabytes(worker.pid)
            seen.memory = max(seen.memory[0], now[0]), max(seen.memory[1], now[1])
            await asyncio.sleep(0.2)

    # ------------------------------------------------------------------------------------------------------ the figures

    async def rows(self) -> list[Row]:
        wanted = {run for seen in self.seen for runs in seen.created.values() for run in runs}
        async with asyncio.timeout(PATIENCE):
            while wanted - (lags := self._lags()).keys():
                await asyncio.sleep(1)
        return [_row(seen, lags) for seen in self.seen]

    def _lags(self) -> dict[str, float]:
        lines = (self._folder / "witness.jsonl").read_text().splitlines()
        return {one["run"]: one["start"] - one["due"] for one in map(json.loads, lines)}


COLUMNS = (
    "select column_name from information_schema.columns where table_name = 'waiting' and table_schema = 'public' "
    "and is_generated = 'NEVER' order by ordinal_position"
)
# Each is a microsecond earlier, with an id of the same time.
COPIED = {
    "run_id": "(left(run_id::text, 15) || substr(gen_random_uuid()::text, 16))::uuid",
    "wanted": "wanted - n",
    "due": "due - n",
}


def _row(seen: Seen, lags: dict[str, float]) -> Row:
    reads = {name: took for name, took in seen.took.items() if name != "create"}
    slowest = max(reads, key=lambda name: percentile(reads[name], 0.5))
    high, second = ([lags[run] for run in seen.created[who]] or [0.0] for who in ("high", "second"))
    return Row(
        seen.phase,
        round(seen.over - seen.began, 1),
        *_both([one for took in reads.values() for one in took]),
        f"{slowest} {round(1_000 * percentile(reads[slowest], 0.5))}",
        *_both(seen.took["create"]),
        ", ".join(f"{what}: {times}" for what, times in seen.refused.items()),
        *_both(high),
        *_both(second),
        round(1_000 * seen.longest),
        *(round(one) for one in seen.memory),
    )


def _both(values: list[float]) -> tuple[float, float]:
    return round(1_000 * percentile(values, 0.5)), round(1_000 * percentile(values, 0.99))


@asynccontextmanager
async def _beside(*going: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(one) for one in going]
    try:
        yield
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def measure(runs: int, say: Callable[[str], None], calm: float = CALM, overload: float = OVERLOAD) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="oncue-overload-") as name, PrivatePostgres(settings=SERVER) as postgres:
        url, folder = postgres.create_database("oncue"), Path(name)
        with Processes(url, folder) as processes:
            able = ("--tasks", str(TASKS), "--concurrency", SLOTS)
            told = await asyncio.to_thread(processes.opened, processes.start("up", "--port", "0", *able))
            processes.start("worker", *able)
            clock, address = SystemClock(), told["address"]
            admin = SteadyLoad(address, told["admin_key"], clock, 1)
            made = await admin.acknowledged("POST", "/v1/keys", {"user_id": "second", "role": "member"})
            sessions = [await asyncpg.connect(url) for _ in range(2)]
            try:
                bench = Overload(folder, processes, sessions, [admin, SteadyLoad(address, made["key"], clock, 1)])
                await _phases(bench, runs, say, calm, overload)
                return await bench.rows()
            finally:
                for session in sessions:
                    session.terminate()


async def _phases(bench: Overload, runs: int, say: Callable[[str], None], calm: float, overload: float) -> None:
    await bench.prepare()
    await bench.resume_queue()
    say("calm")
    await bench.phase("calm", asyncio.sleep(calm))
    await bench.prepare()
    say(f"{runs:,} runs are copied")
    await bench.flood(runs)
    await bench.resume_queue()
    say("overload")
    await bench.phase("overload", asyncio.sleep(overload))
    say("pause")
    await bench.phase("paused", bench.act("POST", "/pause"))
    say("resume")
    await bench.phase("resumed", bench.act("POST", "/resume"))
    say("cancel")
    await bench.phase("cancelled", bench.act("DELETE", ""))
    say("after")
    await bench.phase("after", asyncio.sleep(calm))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1_000_000, help="that are due (default: 1,000,000)")
    parser.add_argument("--json", type=Path, help="write the figures here as well")
    options = parser.parse_args()
    console = Console()
    if not console.is_terminal:
        console.width = WIDE
    rows = uvloop.run(measure(options.runs, lambda what: console.print(what, style="dim")))
    table = Table(*(name.replace("_", " ") for name in Row.__annotations__), title=f"{options.runs:,} runs are due")
    for row in rows:
        table.add_row(*(str(value) for value in asdict(row).values()))
    console.print(table)
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=2))


if __name__ == "__main__":
    main()
