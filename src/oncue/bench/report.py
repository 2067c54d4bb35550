"""The results as a table and as JSON."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from oncue import __version__
from oncue.bench.measures import Reached, Row
from oncue.clock import Clock
from oncue.domain.instants import rfc3339

COLUMNS = ("engine", "measure", "value", "floor", "goal", "reached", "note")


class Machine(msgspec.Struct, frozen=True):
    oncue: str
    date: str
    cores: int
    memory_gib: float
    python: str
    system: str
    stores: Mapping[str, str]
    """The version of each store that was measured, by the engine's name."""


class Report(msgspec.Struct, frozen=True):
    machine: Machine
    found: Mapping[str, Sequence[Row]]
    """By the engine's name."""

    @property
    def failed(self) -> bool:
        """Return whether a required bound was missed: a run started before its time, a soak is not flat."""
        rows = [row for found in self.found.values() for row in found]
        return any(row.measure.must and row.reached is Reached.MISSED for row in rows)


def this_machine(clock: Clock, stores: Mapping[str, str]) -> Machine:
    return Machine(
        __version__,
        rfc3339(clock.now()),
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        platform.python_version(),
        platform.platform(),
        stores,
    )


def cells(report: Report) -> list[tuple[str, ...]]:
    """Return the cells of the table, row by row, under `COLUMNS`."""
    return [_cells(engine, row) for engine, rows in report.found.items() for row in rows]


def _cells(engine: str, row: Row) -> tuple[str, ...]:
    about = row.measure
    floor, goal = (_bound(bound, more=about.more_is_better) for bound in (about.floor, about.goal))
    name, value = f"{about.part}: {about.name}", f"{number(row.value)} {about.unit}"
    note = "; ".join(text for text in (row.note, row.caution) if text)
    return engine, name, value, floor, goal, row.reached, note


def _bound(bound: float | None, *, more: bool) -> str:
    return "" if bound is None else f"{'≥' if more else '≤'} {number(bound)}"


def number(value: float) -> str:
    """Format with significant digits only: 23,456, 12.3, 0.45."""
    if value == round(value) or abs(value) >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def lines(machine: Machine) -> list[str]:
    """Return where it was measured."""
    return [
        f"oncue {machine.oncue}, {machine.date}: {machine.cores} cores, {machine.memory_gib:g} GiB, "
        f"Python {machine.python}, {machine.system}",
        *(version for version in machine.stores.values()),
    ]


def as_json(report: Report) -> bytes:
    rows = [_plain(engine, row) for engine, found in report.found.items() for row in found]
    written: bytes = msgspec.json.format(msgspec.json.encode({"machine": report.machine, "rows": rows}), indent=2)
    return written + b"\n"


def _plain(engine: str, row: Row) -> dict[str, Any]:
    about = row.measure
    return {
        "engine": engine,
        "part": about.part,
        "measure": about.name,
        "value": round(row.value, 3),
        "unit": about.unit,
        "floor": about.floor,
        "goal": about.goal,
        "more_is_better": about.more_is_better,
        "reached": row.reached,
        "note": row.note,
        "caution": row.caution,
        "lags": row.lags,
        "started": row.started,
        "minutes": row.minutes,
    }
