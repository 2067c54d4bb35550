"""What the engines reach beside what raw SQL reaches, measured in one run: compare the ratios, machines are noisy.

    python bench/engines.py                      # full: 5 M future and 10 M finished runs, a quarter of an hour
    python bench/engines.py --quick              # a few minutes less than that, with a fiftieth of the rows
    python bench/engines.py --only sqlite --json rates.json

The raw limit is a bare table without ids of ours, jobs, users, lanes, counters or indexes on history: claim a thousand,
delete them into a history table. The engines do the same through the port, with all of those, fenced and durable.
"""

from __future__ import annotations

import argparse
import gc
import json
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from engine_driver import BATCH, Driver
from engine_subjects import PostgresSubject, SqliteSubject, Subject

DRAIN = 60_000
FULL = (5_000_000, 10_000_000)
QUICK = (100_000, 200_000)


class Report:
    """Rows of figures, each beside what it is compared with and what it should reach."""

    def __init__(self) -> None:
        self.rows: list[dict[str, object]] = []

    def add(self, engine: str, measure: str, value: str, ratio: float | None = None, goal: str = "") -> None:
        self.rows.append({"engine": engine, "measure": measure, "value": value, "ratio": ratio, "goal": goal})

    def show(self, console: Console) -> None:
        table = Table("engine", "measure", "value", "ratio", "goal")
        for row in self.rows:
            ratio = row["ratio"]
            table.add_row(
                *(str(row[k]) for k in ("engine", "measure", "value")),
                f"{ratio:.2f}" if ratio else "",
                str(row["goal"]),
            )
        console.print(table)


async def best(times: int, measure: Callable[[], Awaitable[float]]) -> float:
    """The best of a few: what the machine allows when nobody else disturbs it."""
    results = []
    for _ in range(times):
        gc.collect()
        results.append(await measure())
    return max(results)


async def measure(subject: Subject, report: Report, step: Callable[[str], None], future: int, finished: int) -> None:
    step("raw limit")
    raw = await best(3, lambda: subject.raw(DRAIN))
    report.add(subject.name, "raw SQL, claim + settle × 1000", f"{raw:,.0f}/s")
    driver = await Driver.on(await subject.open())

    step("create")
    report.add(
        subject.name, "create, batches of 1000", f"{await best(2, lambda: driver.create_rate(DRAIN // 2)):,.0f}/s"
    )
    await driver.drain()

    step("claim + settle")
    for name, drain in (("one after the other", driver.drain), ("settling while claiming", driver.drain_piped)):
        rate = await best(3, lambda drain=drain: driver.filled(DRAIN, drain))
        report.add(subject.name, f"claim + settle × {BATCH}, {name}", f"{rate:,.0f}/s", rate / raw, "≥ 0.50 of raw")
    empty = await best(3, lambda: driver.filled(DRAIN, driver.drain))
    claim_empty = driver.claim_ms

    step("an old snapshot")
    async with subject.old_snapshot():
        await driver.filled(DRAIN, driver.drain)  # so that there are dead rows to trip over
        held = await best(3, lambda: driver.filled(DRAIN, driver.drain))
    report.add(
        subject.name, "the same while another session holds an old snapshot", f"{held:,.0f}/s", held / empty, "≥ 0.70"
    )

    step(f"loading {future:,} future and {finished:,} finished runs")
    await subject.load(driver, future, finished)
    step("claim beside them")
    full = await best(3, lambda: driver.filled(DRAIN, driver.drain))
    report.add(
        subject.name, f"the same with {future:,} future, {finished:,} finished", f"{full:,.0f}/s", full / empty, ""
    )
    report.add(
        subject.name,
        "one claim of 1000, empty → full",
        f"{claim_empty:.1f} → {driver.claim_ms:.1f} ms",
        driver.claim_ms / claim_empty,
        "≤ 1.25",
    )
    step("pages of jobs")
    first, last = await driver.page_ms(min(future, 1_000_000))
    report.add(
        subject.name, "a page of 100 jobs, first → millionth", f"{first:.2f} → {last:.2f} ms", last / first, "about 1"
    )
    await driver.engine.close()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a fiftieth of the rows")
    parser.add_argument("--only", choices=["sqlite", "postgres"])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    return parser.parse_args()


async def main(asked: argparse.Namespace) -> None:
    console, report = Console(), Report()
    future, finished = QUICK if asked.quick else FULL
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with tempfile.TemporaryDirectory(prefix="oncue-bench-") as folder:
        subjects: list[Subject] = [SqliteSubject(Path(folder)), PostgresSubject()]
        for subject in subjects:
            if asked.only not in (None, subject.name):
                continue
            with subject, Progress(*columns, console=console, transient=True) as progress:
                bar = progress.add_task(subject.name, total=7)

                def step(
                    what: str, subject: Subject = subject, bar: TaskID = bar, progress: Progress = progress
                ) -> None:
                    progress.update(bar, advance=1, description=f"{subject.name}: {what}")

                await measure(subject, report, step, future, finished)
    report.show(console)
    console.print(time.strftime("%Y-%m-%d"), *(s.about for s in subjects if asked.only in (None, s.name)), sep="; ")
    if asked.json:
        asked.json.write_text(json.dumps(report.rows, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    gc.set_threshold(
        100_000, 50, 50
    )  # a thousand runs at a time make garbage collection's defaults a tenth of the cost
    uvloop.run(main(arguments()))
