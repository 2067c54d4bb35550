"""How quickly every call that reads is answered, on a store with millions of jobs and runs.

    python -m bench.calls                              # both engines: 5,000,000 jobs, 10,000,000 ended runs
    python -m bench.calls --jobs 20000 --ended 50000 --requests 100
    python -m bench.calls --only postgres --keep /tmp/filled --json calls.json
    python -m bench.calls --only postgres --keep /tmp/filled --calls /lookup limit=1000

The store is filled as bench/filled_store.py says: 1,000 users, one of whom has half of everything. Then each call of
the route table is asked for `--requests` times, on one connection, as an administrator and as that large user, with the
examples of bench/call_examples.py. A bare server (bench/bare.py) is asked before and after: what a request costs here
that reads nothing. With `--keep` the filled store stays in that folder, and the next measurement takes it from there.
Beside the waiting are the processor times of the API and of PostgreSQL for one request, which other work on the machine
changes less; and at the end how many of the examples were answered within 10 ms, within 50, and later.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from itertools import cycle, islice
from pathlib import Path
from urllib.parse import quote, urlsplit

import uvloop
from bench.call_examples import EXAMPLES, Example, routes
from bench.creating import Served, serving
from bench.filled_store import SAMPLES, Sampled, fill, keep_up
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from bench import bare
from oncue.api.routes import Route
from oncue.clock import SystemClock
from oncue.domain.instants import DAY, SECOND, Instant, rfc3339
from oncue.testing.postgres import PrivatePostgres
from oncue_bench.http_load import Load, load, request

GOAL, LIMIT = 10.0, 50.0  # milliseconds, p99
WARM_UP = 20  # requests of each example before they are counted
PATIENCE = 300  # seconds for all requests of an example
WIDE = 140  # columns of a table that is written to a file
SERVER = {"shared_buffers": "1GB", "max_wal_size": "8GB", "maintenance_work_mem": "512MB"}

Row = dict[str, object]
Step = Callable[[str, int, int], None]


# ------------------------------------------------------------------------------------------------------------ the store


@contextmanager
def filled(engine: str, options: argparse.Namespace, step: Step) -> Iterator[tuple[str, int | None, Sampled]]:
    """The URL of a filled store, the process of its server, and what to ask it for."""
    with ExitStack() as stack:
        kept = None if options.keep is None else options.keep / f"{engine}-{options.jobs}-{options.ended}"
        folder = kept or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        known = folder / "sampled.json"
        if not known.exists():  # an attempt that did not end is no store
            shutil.rmtree(folder)
            folder.mkdir()
        url, pid = stack.enter_context(_opened(engine, folder, new=not known.exists()))
        if not known.exists():
            sampled = uvloop.run(fill(url, options.jobs, options.ended, step))
            known.write_text(json.dumps(asdict(sampled)))
        else:
            uvloop.run(keep_up(url, Instant(int(known.stat().st_mtime) * SECOND)))
        yield url, pid, Sampled(**json.loads(known.read_text()))


@contextmanager
def _opened(engine: str, folder: Path, *, new: bool) -> Iterator[tuple[str, int | None]]:
    if engine == "sqlite":
        yield f"sqlite:///{folder}/filled.db", None
        return
    folder.chmod(0o755)  # the server has another account than root
    with PrivatePostgres(settings=SERVER) as server:
        _take_over(server, folder / "data")
        if new:
            server.create_database("filled")
        try:
            yield urlsplit(server.url)._replace(path="/filled").geturl(), server.pid
        finally:
            server.stop()


def _take_over(server: PrivatePostgres, data: Path) -> None:
    """Let the server use this folder. Its own is removed when it ends; through a link only the link is."""
    own = server.folders[0]
    server.stop()
    if data.exists():
        shutil.copy2(own / "postgresql.conf", data)  # its port
        shutil.rmtree(own)
    else:
        shutil.move(own, data)
    own.symlink_to(data)
    server.start()


# ------------------------------------------------------------------------------------------------------------ measuring


class Requests:
    """The requests of an example, each with other ids."""

    def __init__(self, served: Served, sampled: Sampled, user: str) -> None:
        now = SystemClock().now()
        whose = sampled.ids["large"] if user == sampled.large else _mixed(sampled.ids)
        self._address, self._key = served.addresses[0], sampled.keys[user]
        self._values = whose | {
            "worker": sampled.workers,
            "short": [one[-8:] for one in whose["recurring"]],
            "from": [_instant(now - 5 * DAY)],
            "to": [_instant(now - 4 * DAY)],
            "soon": [_instant(now + 3 * DAY)],
            "later": [_instant(now + 4 * DAY)],
        }

    def of(self, route: Route, example: Example, count: int) -> list[bytes]:
        path = (example.path or route.path) + (f"?{example.query}" if example.query else "")
        body = "" if example.body is None else json.dumps(example.body)
        some = [self._written(route.method, path, body, n) for n in range(min(count, SAMPLES))]
        return list(islice(cycle(some), count))

    def _written(self, method: str, path: str, body: str, n: int) -> bytes:
        for name, values in self._values.items():
            value = values[n % len(values)]
            path = path.replace(f"{{{name}}}", quote(value, safe=""))
            body = body.replace(f"{{{name}}}", value)
        return request(self._address, self._key, method, f"/v1{path}", body.encode())


def _mixed(ids: dict[str, dict[str, list[str]]]) -> dict[str, list[str]]:
    """Everybody's, in turn; but keys are found only by their own user."""
    return {name: [*ids["any"].get(name, ()), *some] for name, some in ids["large"].items() if name != "key"}


def _instant(at: int) -> str:
    return rfc3339(Instant(at))


async def measure(
    served: Served, sampled: Sampled, reference: str, count: int, step: Step, only: Sequence[str] = ("",)
) -> list[Row]:
    """Measure the examples that have one of the texts of `only` in them."""
    users, rows = ("admin", sampled.large), [await _bare(reference, count)]
    of_all = [(route, example) for name, route in routes().items() for example in EXAMPLES[name]]
    asked = [(route, example) for route, example in of_all if any(text in _what(route, example) for text in only)]
    for done, (route, example) in enumerate(asked, 1):
        for user in users:
            if user == "admin" and "{key}" in example.path + example.query:
                continue
            if user != "admin" and (route.admin or example.admin):
                continue
            requests = Requests(served, sampled, user).of(route, example, count)
            rows.append({"what": _what(route, example), "as": user, **await _asked(served, requests)})
        step("asking", done, len(asked))
    return [*rows, await _bare(reference, count)]


def _what(route: Route, example: Example) -> str:
    return f"{route.method} {example.path or route.path}{'?' if example.query else ''}{example.query}"


async def _asked(served: Served, requests: list[bytes]) -> Row:
    try:
        async with asyncio.timeout(PATIENCE):
            await load(served.addresses[0], 1, lambda: iter(requests[:WARM_UP]))
            before = served.spent()
            answered = await load(served.addresses[0], 1, lambda: iter(requests))
    except (TimeoutError, OSError, ValueError) as error:
        return {"p50_ms": "", "p99_ms": "", "api_ms": "", "store_ms": "", "note": f"no answer: {error!r}"}
    api, store = (
        round(1_000 * (after - was) / len(requests), 1) for was, after in zip(before, served.spent(), strict=True)
    )
    return {**_figures(answered), "api_ms": api, "store_ms": store}


async def _bare(reference: str, count: int) -> Row:
    await bare.asked(reference, WARM_UP, connections=1)
    return {"what": "a bare server", "as": "", **_figures(await bare.asked(reference, count, connections=1))}


def _figures(answered: Load) -> Row:
    p50, p99 = (round(answered.percentile(part), 2) for part in (0.5, 0.99))
    note = "over 50 ms" if p99 > LIMIT else "over 10 ms" if p99 > GOAL else ""
    if answered.refused:
        note = f"refused: {answered.refused} {answered.refusal[:200]}"
    return {"p50_ms": p50, "p99_ms": p99, "note": note}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("sqlite", "postgres"))
    parser.add_argument("--jobs", type=int, default=5_000_000, help="that wait or recur (default: 5,000,000)")
    parser.add_argument("--ended", type=int, default=10_000_000, help="runs in history (default: 10,000,000)")
    parser.add_argument("--requests", type=int, default=1_000, help="of each example (default: 1,000)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the filled store here, or use the one there")
    parser.add_argument("--calls", nargs="+", default=("",), metavar="TEXT", help="only those with such a text in them")
    parser.add_argument("--json", type=Path, help="write the figures here as well")
    options = parser.parse_args()
    routes()  # before hours of filling
    console, rows = Console(), list[Row]()
    if not console.is_terminal:
        console.width = WIDE
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as progress:
        bar = progress.add_task("starting")
        for engine in (options.only,) if options.only else ("postgres", "sqlite"):

            def step(what: str, done: int, of: int, engine: str = engine) -> None:
                progress.update(bar, description=f"{engine}: {what}", completed=done, total=of)
                if not console.is_terminal and done * 20 // of > (done - 1) * 20 // of:
                    print(f"{engine}: {what}, {done:,} of {of:,}", file=sys.stderr, flush=True)

            rows += [{"engine": engine, **row} for row in _of_engine(engine, options, step)]
    _print(console, rows, options)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2))


def _of_engine(engine: str, options: argparse.Namespace, step: Step) -> list[Row]:
    with ExitStack() as stack:
        url, pid, sampled = stack.enter_context(filled(engine, options, step))
        data, reference = stack.enter_context(tempfile.TemporaryDirectory()), stack.enter_context(bare.serving())
        served = stack.enter_context(serving(url, data, 1, store_pid=pid, settings={"RATE_LIMIT": "0"}))
        return uvloop.run(measure(served, sampled, reference, options.requests, step, options.calls))


def _print(console: Console, rows: list[Row], options: argparse.Namespace) -> None:
    title = f"{options.jobs:,} jobs, {options.ended:,} ended runs; {options.requests:,} requests each; milliseconds"
    table = Table("engine", "call", "as", "p50", "p99", "API", "store", "", title=title)
    for row in rows:
        figures = (row.get(name, "") for name in ("engine", "what", "as", "p50_ms", "p99_ms", "api_ms", "store_ms"))
        table.add_row(*map(str, figures), str(row["note"]))
    console.print(table)
    for engine in dict.fromkeys(row["engine"] for row in rows):
        console.print(f"{engine}: {summary([row for row in rows if row['engine'] == engine and row['as']])}")


def summary(rows: Sequence[Row]) -> str:
    """Say how many examples were answered in time. One that was refused, or not answered at all, is beyond."""
    told = []
    for name, part in (("p99_ms", "99th"), ("p50_ms", "50th")):
        answered = [float(str(row[name])) for row in rows if row[name] != "" and not _failed(row)]
        good, bad = sum(took <= GOAL for took in answered), len(rows) - sum(took <= LIMIT for took in answered)
        within = f"{good} within {GOAL:.0f} ms, {len(rows) - good - bad} within {LIMIT:.0f}, {bad} beyond"
        told.append(f"at the {part} percentile {within}")
    return f"of {len(rows)} examples, {'; '.join(told)}; {sum(map(_failed, rows))} refused or not answered."


def _failed(row: Row) -> bool:
    return str(row["note"]).startswith(("refused", "no answer"))


if __name__ == "__main__":
    main()
