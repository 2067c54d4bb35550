"""What losing a primary costs: a real primary and a streaming replica, under load, and one of them is lost.

    python -m bench.failover                                 # all cases, seven minutes
    python -m bench.failover "crash, sync" "silent, sync" --json failover.json

Both servers are in the URL of every process: an API, a scheduler and two workers. 40 runs a second are due (`--rate`):
half of them are created over the API with an Idempotency-Key and repeated until they are acknowledged, and half are due
by schedules, one each second. The operator promotes the replica two seconds after the loss. The cases, each with a
synchronous replica and with an asynchronous one:

- crash: SIGKILL of all processes of the primary; its address refuses connections;
- silent: SIGSTOP of them, as a host that lost its power or its network: nothing answers, nothing is closed;
- planned: the primary is stopped in order, and the replica promoted at once;
- returned: crash, and five seconds after the promotion the old primary is started again as it was; then a scheduler
  and a worker are started, and many jobs are created at once;
- woken: silent, and five seconds after the promotion the old primary goes on, with its connections; then the same;
- stalled: the replica is silent for 15 s, and wakes; the figures count from then on.

`crash, behind`: the asynchronous replica has received nothing for 1.5 s. Everything is judged by what the task itself
wrote down, and by asking for every job that was acknowledged:

- RPO: acknowledged jobs that are gone;
- RTO: from the promotion to the first create that is acknowledged, and to the first run that starts;
- missed: occurrences without a run; doubled: those that started more than once although no lease was lost;
- again: starts of a run that had started before; *unexplained*: the attempt before is not recorded as lost;
- open: acknowledged jobs and occurrences that have not succeeded in the end.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import uvloop
from bench.steady_load import SteadyLoad
from bench.witnessed import Start, Witnessed
from rich.console import Console
from rich.table import Table

from oncue.clock import SystemClock
from oncue.testing.postgres_replica import ReplicatedPostgres
from oncue_bench.processes import Processes

TASKS = Path(__file__).with_name("witness_tasks.py")
RATE = 40  # runs a second
CALM = 5.0  # seconds of load before the loss
OPERATOR = 2.0  # seconds until the replica is promoted
AFTER = 12.0  # seconds of load after the promotion
RETURNS_AFTER = 5.0  # seconds: a service manager that starts what has crashed
STALLED = 15.0  # seconds
BURSTS = 10
BEHIND = 1.5  # seconds
SLACK = 3.0  # seconds that schedules start late, and go on
SETTLED = 60.0  # seconds for all that was created to end
WIDE = 170

Loss = Callable[["Bench"], Awaitable[None]]


@dataclass
class Bench:
    servers: ReplicatedPostgres
    processes: Processes
    load: SteadyLoad
    up: float = 0.0  # when the promotion was complete

    async def do(self, *steps: Callable[[], object]) -> None:
        """One after the other, beside the load."""
        for step in steps:
            await asyncio.to_thread(step)

    async def promoted(self) -> None:
        await self.do(self.servers.second.promote)
        self.up = self.load.now()


@dataclass
class Row:
    """Figures of one case. None: it never happened."""

    case: str
    acknowledged: int
    rpo: int
    rto_create_s: float | None
    rto_start_s: float | None
    missed: int
    doubled: int
    again: int
    unexplained: int
    open: int
    wrong: list[str]  # examples


# --------------------------------------------------------------------------------------------------------------- losses


async def crash(bench: Bench) -> None:
    await bench.do(bench.servers.first.kill)
    await asyncio.sleep(OPERATOR)
    await bench.promoted()


async def silent(bench: Bench) -> None:
    await bench.do(bench.servers.first.silence)
    await asyncio.sleep(OPERATOR)
    await bench.promoted()


async def planned(bench: Bench) -> None:
    await bench.do(bench.servers.first.stop)
    await bench.promoted()


async def returned(bench: Bench) -> None:
    await crash(bench)
    await asyncio.sleep(RETURNS_AFTER)
    await bench.do(bench.servers.first.start)
    await _need_connections(bench)


async def woken(bench: Bench) -> None:
    await silent(bench)
    await asyncio.sleep(RETURNS_AFTER)
    await bench.do(bench.servers.first.wake)
    await _need_connections(bench)


async def _need_connections(bench: Bench) -> None:
    """More than the processes have: many jobs are created at once, by the side of a new scheduler and a new worker."""
    bench.processes.start("scheduler")
    bench.processes.start("worker", "--tasks", str(TASKS))
    for _ in range(BURSTS):
        await asyncio.gather(*(bench.load.create() for _ in range(20)))


async def stalled(bench: Bench) -> None:
    await bench.do(bench.servers.second.silence)
    await asyncio.sleep(STALLED)
    await bench.do(bench.servers.second.wake)
    bench.up = bench.load.now()


async def behind(bench: Bench) -> None:
    await bench.do(bench.servers.second.detach)
    await asyncio.sleep(BEHIND)
    await crash(bench)


LOSSES: Mapping[str, tuple[Loss, float]] = {
    "crash": (crash, OPERATOR),
    "silent": (silent, OPERATOR),
    "planned": (planned, 0),
    "returned": (returned, OPERATOR + RETURNS_AFTER),
    "woken": (woken, OPERATOR + RETURNS_AFTER),
    "stalled": (stalled, STALLED),
}
CASES: Mapping[str, tuple[Loss, float]] = {
    **{f"{name}, sync": loss for name, loss in LOSSES.items()},
    **{f"{name}, async": loss for name, loss in LOSSES.items()},
    "crash, behind": (behind, BEHIND + OPERATOR),
}


# -------------------------------------------------------------------------------------------------------- the measuring


@asynccontextmanager
async def pair(folder: Path, rate: int, source: str | None, *, synchronous: bool) -> AsyncIterator[Bench]:
    with ReplicatedPostgres() as servers, Processes(servers.create_database("oncue"), folder, source) as processes:
        door = processes.start("api", "--port", "0")
        told = await asyncio.to_thread(processes.opened, door)
        processes.start("scheduler")
        for _ in range(2):
            processes.start("worker", "--tasks", str(TASKS))
        load = SteadyLoad(told["address"], told["admin_key"], SystemClock(), rate)
        await load.acknowledged("GET", "/v1/jobs")
        while not (await load.acknowledged("GET", "/v1/tasks"))["tasks"]:
            await asyncio.sleep(0.1)
        if synchronous:
            await asyncio.to_thread(servers.first.set_synchronous, servers.second)
        yield Bench(servers, processes, load)
        for process in processes.of("api", "scheduler", "worker"):
            os.kill(process.pid, signal.SIGKILL)  # told to stop, a worker would wait for claims whose answers were lost


async def measure(
    case: str, rate: int = RATE, calm: float = CALM, after: float = AFTER, source: str | None = None
) -> Row:
    """`source`: the `src` of another version, whose code is measured."""
    loss, lasts = CASES[case]
    with tempfile.TemporaryDirectory(prefix="oncue-failover-") as name:
        async with pair(Path(name), rate, source, synchronous=case.endswith(", sync")) as bench:
            load = bench.load
            await load.recurring(calm + lasts + after + SLACK)
            try:
                async with load.going():
                    await asyncio.sleep(calm + SLACK)
                    await loss(bench)
                    await asyncio.sleep(after)
            except TimeoutError:
                return Row(
                    case, len(load.created), 0, None, None, 0, 0, 0, 0, 0, ["creates are still not acknowledged"]
                )
            witnessed = Witnessed(Path(name), load)
            left = await witnessed.settled(SETTLED)
            return await _judged(case, bench, witnessed, left)


async def _judged(case: str, bench: Bench, witnessed: Witnessed, left: list[str]) -> Row:
    load, up = bench.load, bench.up
    gone = [job for job in (*load.created, *load.jobs) if await _status(load, job) == 404]
    again = witnessed.again(0, float("inf"))
    unexplained = [one for one in again if await _is_unexplained(load, *one)]
    doubled = [one for one in unexplained if one[1].job in load.jobs]
    lost = [line for line in await witnessed.lost() if not any(job in line for job in gone)]
    missed = [line for line in lost if " has no run " in line]
    still = [*left, *(line for line in lost if line not in missed)]
    starts = [one.start for one in witnessed.starts if one.start > up]
    creates = [at for at in load.created.values() if at > up]
    return Row(
        case,
        len(load.created) + len(load.jobs),
        len(gone),
        round(min(creates) - up, 2) if creates else None,
        round(min(starts) - up, 2) if starts else None,
        len(missed),
        len(doubled),
        len(again),
        len(unexplained),
        len(still),
        [*still[:3], *missed[:3], *map(str, unexplained[:3])],
    )


async def _status(load: SteadyLoad, job: str) -> int:
    return (await load.ask("GET", f"/v1/jobs/{job}"))[0]


async def _is_unexplained(load: SteadyLoad, before: Start, one: Start) -> bool:
    """Whether the attempt before is not recorded as lost."""
    _, run = await load.ask("GET", f"/v1/runs/{one.run}")
    outcomes = {attempt["number"]: attempt.get("outcome") for attempt in (run or {}).get("attempts", ())}
    return one.attempt <= before.attempt or outcomes.get(before.attempt) != "lost"


# ---------------------------------------------------------------------------------------------------------- the telling

HEADS = (
    "case",
    "acknowledged",
    "RPO",
    "RTO create s",
    "RTO start s",
    "missed",
    "doubled",
    "again",
    "unexplained",
    "open",
)


def tell(rows: Sequence[Row], rate: int, console: Console) -> None:
    table = Table(*HEADS, title=f"Failover of PostgreSQL: {rate} runs/s, an API, a scheduler, two workers")
    for row in rows:
        *figures, _ = asdict(row).values()
        table.add_row(*("never" if value is None else str(value) for value in figures))
    console.print(table)
    for row in rows:
        for line in row.wrong:
            console.print(f"{row.case}: {line}", markup=False, highlight=False)


async def measured(cases: Sequence[str], rate: int, source: str | None) -> list[Row]:
    return [await measure(case, rate, source=source) for case in cases]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=list(CASES), metavar="CASE", help=f"of {'; '.join(CASES)}")
    parser.add_argument("--rate", type=int, default=RATE, help=f"runs a second (default: {RATE})")
    parser.add_argument("--source", help="the `src` of another version, whose code is measured")
    parser.add_argument("--json", type=Path, help="write the figures here as well")
    options = parser.parse_args()
    if unknown := set(options.cases) - CASES.keys():
        parser.error(f"no such case: {'; '.join(sorted(unknown))}; there are {'; '.join(CASES)}")
    console = Console()
    if not console.is_terminal:
        console.width = WIDE
    rows = uvloop.run(measured(options.cases, options.rate, options.source))
    tell(rows, options.rate, console)
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=2))


if __name__ == "__main__":
    main()
