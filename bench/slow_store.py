"""What a slow or flapping PostgreSQL costs: oncue under load behind a bad network (bench/store_proxy.py).

    python -m bench.slow_store                               # all cases, seven minutes
    python -m bench.slow_store "hole 5s" "half open" --json slow.json

`oncue up` and a second worker reach a private PostgreSQL only through a proxy. 50 runs a second are due (`--rate`):
half of them are created over the API, one in five of these takes 1.5 s, and half are due by schedules, whatever the API
answers. A create that is not answered, or with 503, is repeated with its Idempotency-Key. Each case comes after some
calm seconds, and is followed by others. At the end everything is compared with what the task itself wrote down:

- lost: a run that was created, or an occurrence of a schedule, that did not start, or did not succeed;
- again: starts of a run that had started before; *unexplained*: the attempt before is not recorded as lost;
- ended: processes that ended by themselves; restarts: worker processes that their supervisor replaced, and of these
  after the store was back;
- normal after: how long after the end of the case runs that became due still started late: later than 250 ms, or twice
  the calm p99 before the first case.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import uvloop
from bench.steady_load import SteadyLoad, percentile
from bench.store_proxy import StoreProxy
from bench.witnessed import Witnessed
from rich.console import Console
from rich.table import Table

from oncue.clock import SystemClock
from oncue.testing.postgres import PrivatePostgres
from oncue_bench.processes import Process, Processes

TASKS = Path(__file__).with_name("witness_tasks.py")
RATE = 50  # runs a second
SLACK = 10.0  # seconds that schedules go on
CALM = 10.0  # seconds before the first case, and after each
MARGIN = 1.0  # seconds at the edges of what is calm: what is due then may start later
LATE = 0.25  # seconds; later than this, or than twice what is usual here, is late
SETTLED = 120.0  # seconds for all that was created to end
WIDE = 170
END_ALL = (
    "select count(pg_terminate_backend(pid)) from pg_stat_activity where application_name like 'oncue%' and "
    "pid <> pg_backend_pid()"
)
CONNECTIONS = "select count(*) from pg_stat_activity where application_name like 'oncue%'"

Fault = Callable[["Bench", float], Awaitable[None]]


@dataclass
class Bench:
    proxy: StoreProxy
    server: asyncpg.Connection[asyncpg.Record]  # past the proxy
    processes: Processes
    load: SteadyLoad
    began: float = 0.0


@dataclass
class Row:
    """Figures of one case."""

    case: str
    lasted_s: float
    calm_p99_ms: float
    during_p50_ms: float
    during_p99_ms: float
    answered_p99_ms: float
    refused: int
    again: int
    unexplained: int
    restarts: int
    restarts_after: int
    errors: int
    normal_after_s: float


@dataclass
class Found:
    rows: list[Row]
    started: int
    lost: list[str]
    ended: list[str]
    connections: int
    said: list[str] = field(default_factory=list)


# ---------------------------------------------------------------------------------------------------------- the faults


def latency(milliseconds: int) -> Fault:
    async def slow(bench: Bench, seconds: float) -> None:
        bench.proxy.delay = milliseconds / 1_000
        await asyncio.sleep(seconds)
        bench.proxy.delay = 0.0

    return slow


async def hole(bench: Bench, seconds: float) -> None:
    bench.proxy.open.clear()
    await asyncio.sleep(seconds)
    bench.proxy.open.set()


async def resets(bench: Bench, seconds: float) -> None:
    bench.proxy.resets = 0.02
    await asyncio.sleep(seconds)
    bench.proxy.resets = 0.0


async def half_open(bench: Bench, seconds: float) -> None:
    bench.proxy.leave_half_open()


async def terminated(bench: Bench, seconds: float) -> None:
    until = bench.load.now() + seconds
    while bench.load.now() < until:
        await bench.server.execute(END_ALL)
        await asyncio.sleep(2)


CASES: Mapping[str, tuple[Fault, float]] = {
    "latency 50ms": (latency(50), 20),
    "latency 200ms": (latency(200), 20),
    "latency 1000ms": (latency(1_000), 60),
    "half open": (half_open, 0),
    "resets": (resets, 30),
    "hole 5s": (hole, 5),
    "hole 20s": (hole, 20),
    "hole 60s": (hole, 60),
    "terminated": (terminated, 60),
}


# -------------------------------------------------------------------------------------------------------- the measuring


@asynccontextmanager
async def bad_network(folder: Path, rate: int) -> AsyncIterator[Bench]:
    with PrivatePostgres() as postgres:
        url = urlsplit(postgres.create_database("oncue"))
        proxy = StoreProxy(url.port or 0)
        server = await asyncpg.connect(url.geturl())
        try:
            async with proxy.listening() as port:
                through = url._replace(netloc=f"postgres@127.0.0.1:{port}").geturl()
                with Processes(through, folder) as processes:
                    door = processes.start("up", "--port", "0", "--tasks", str(TASKS))
                    told = await asyncio.to_thread(processes.opened, door)
                    processes.start("worker", "--tasks", str(TASKS))
                    load = SteadyLoad(told["address"], told["admin_key"], SystemClock(), rate)
                    yield Bench(proxy, server, processes, load)
        finally:
            await server.close()


async def measure(cases: Sequence[str], rate: int = RATE, calm: float = CALM, part: float = 1.0) -> Found:
    """Go through these cases; `part`: of the time that each takes."""
    with tempfile.TemporaryDirectory(prefix="oncue-slow-store-") as name:
        async with bad_network(Path(name), rate) as bench:
            length = sum(part * CASES[case][1] for case in cases) + (len(cases) + 1) * calm
            await bench.load.recurring(length + SLACK)
            spans: dict[str, tuple[float, float]] = {}
            async with bench.load.going():
                await asyncio.sleep(calm)
                for case in cases:
                    began = bench.load.now()
                    fault, seconds = CASES[case]
                    await fault(bench, part * seconds)
                    spans[case] = began, bench.load.now()
                    await asyncio.sleep(calm)
            witnessed = Witnessed(Path(name), bench.load)
            left = await witnessed.settled(SETTLED)
            ended = [f"{one.role}: {one.last_words}" for one in _all(bench.processes) if one.code is not None]
            connections = await bench.server.fetchval(CONNECTIONS)
            first = min(began for began, _ in spans.values())
            usual = percentile(witnessed.lags(first - calm + MARGIN, first - MARGIN), 0.99)
            rows = [await _judged(case, span, witnessed, calm, usual) for case, span in spans.items()]
            lost = left + await witnessed.lost()
            return Found(rows, len(witnessed.starts), lost, ended, connections, witnessed.problems())


def _all(processes: Processes) -> list[Process]:
    return processes.of("up", "worker")


async def _judged(case: str, span: tuple[float, float], witnessed: Witnessed, calm: float, usual: float) -> Row:
    began, over = span
    during = witnessed.lags(began, over) or [0.0]
    answers = witnessed.load.answered(began, over)
    again = witnessed.again(began, over + calm)
    restarts = witnessed.restarts(began, over + calm)
    return Row(
        case,
        round(over - began, 1),
        round(1_000 * usual),
        round(1_000 * percentile(during, 0.5)),
        round(1_000 * percentile(during, 0.99)),
        round(1_000 * percentile([one.seconds for one in answers] or [0.0], 0.99)),
        sum(one.status != 201 for one in answers),
        len(again),
        len(await witnessed.unexplained(again)),
        len(restarts),
        sum(at > over for at in restarts),
        witnessed.errors(began, over + calm),
        round(witnessed.late_until(over, over + calm, max(LATE, 2 * usual)) - over, 2),
    )


# ---------------------------------------------------------------------------------------------------------- the telling

HEADS = {
    "case": "case",
    "lasted_s": "s",
    "calm_p99_ms": "calm p99 ms",
    "during_p50_ms": "lag p50",
    "during_p99_ms": "lag p99",
    "answered_p99_ms": "create p99",
    "refused": "refused",
    "again": "again",
    "unexplained": "unexplained",
    "restarts": "restarts",
    "restarts_after": "after",
    "errors": "errors",
    "normal_after_s": "normal after s",
}


def tell(found: Found, rate: int, console: Console) -> None:
    table = Table(*HEADS.values(), title=f"A slow or flapping store: {rate} runs/s, two workers")
    for row in found.rows:
        table.add_row(*(str(value) for value in asdict(row).values()))
    console.print(table)
    console.print(
        f"{found.started:,} starts; lost: {len(found.lost)} {found.lost[:5]}; {found.connections} connections"
    )
    console.print(f"ended by themselves: {found.ended or 'none'}")
    for line in found.said:
        console.print(line, markup=False, highlight=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=list(CASES), metavar="CASE", help=f"of {', '.join(CASES)}")
    parser.add_argument("--rate", type=int, default=RATE, help=f"runs a second (default: {RATE})")
    parser.add_argument("--json", type=Path, help="write the figures here as well")
    options = parser.parse_args()
    if unknown := set(options.cases) - CASES.keys():
        parser.error(f"no such case: {', '.join(unknown)}; there are {', '.join(CASES)}")
    console = Console()
    if not console.is_terminal:
        console.width = WIDE
    found = uvloop.run(measure(options.cases, options.rate))
    tell(found, options.rate, console)
    if options.json:
        options.json.write_text(json.dumps(asdict(found), indent=2))


if __name__ == "__main__":
    main()
