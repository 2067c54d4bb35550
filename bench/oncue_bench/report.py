"""The results as a table and as JSON.

The results as one self-contained HTML page.

Plots as SVG: lines over an axis of times, bars over a logarithmic axis of lags.

Colours come from the page: `.s0`, `.s1` … for the data, `.axis` for the rest.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from math import ceil, floor, log10
from typing import Any, TypeVar

import msgspec

from oncue import __version__
from oncue.clock import Clock
from oncue.domain.instants import rfc3339
from oncue_bench.measures import Reached, Row
from oncue_bench.minutes import COLUMNS as MINUTE_COLUMNS
from oncue_bench.minutes import cells as minute_cells
from oncue_bench.minutes import levels_of
from oncue_bench.notes import Histogram, Series

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


# ------------------------------------------------------------------------------------------------------------ as a page

T = TypeVar("T", Histogram, Series)

STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1c2024; --faint: #60646c; --line: #d9d9e0;
  --s0: #0b68cb; --s1: #c2410c; --goal: #18794e; --floor: #8a5a00; --missed: #c0262d }
@media (prefers-color-scheme: dark) { :root { --paper: #111113; --ink: #edeef0; --faint: #b0b4ba; --line: #363a3f;
  --s0: #70b8ff; --s1: #ffa057; --goal: #3dd68c; --floor: #ffca16; --missed: #ff9592 } }
body { background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto;
  max-width: 62rem; padding: 0 1rem }
p { color: var(--faint); margin: 0 }
.wide { overflow-x: auto }
table { border-collapse: collapse; margin: 1.5rem 0; font-variant-numeric: tabular-nums }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .7rem .3rem 0; text-align: left; white-space: nowrap }
th { color: var(--faint); font-weight: 500 }
td:nth-child(n+3):nth-child(-n+5) { text-align: right }
.goal { color: var(--goal) } .floor { color: var(--floor) } .missed { color: var(--missed) }
svg { display: block; width: 100%; height: auto; margin: 1.5rem 0 }
svg text { font: 12px system-ui, sans-serif; fill: var(--ink) }
svg .name { font-weight: 600 } svg .axis { fill: var(--faint) } svg .rule { stroke: var(--line); fill: none }
svg .s0 { stroke: var(--s0); fill: var(--s0); fill-opacity: .18; stroke-width: 1.5 }
svg .s1 { stroke: var(--s1); fill: var(--s1); fill-opacity: .18; stroke-width: 1.5 }
"""


def page(report: Report) -> str:
    about = "".join(f"<p>{escape(line)}</p>" for line in lines(report.machine))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>'
        '<meta name="viewport" content="width=device-width"/><title>oncue bench</title>'
        f"<style>{STYLE}</style></head>\n<body><h1>oncue bench</h1>{about}\n"
        f"{_table(COLUMNS, cells(report))}{''.join(_plots(report))}{''.join(_minutes(report))}</body></html>\n"
    )


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    heads = "".join(f"<th>{name}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(_cell(cell) for cell in row)}</tr>\n" for row in rows)
    return f'<div class="wide"><table><thead><tr>{heads}</tr></thead>\n<tbody>{body}</tbody></table></div>\n'


def _cell(text: str) -> str:
    kind = f' class="{text}"' if text in ("goal", "floor", "missed") else ""
    return f"<td{kind}>{escape(text)}</td>"


def _plots(report: Report) -> Iterable[str]:
    for title, started in _gathered(report, lambda row: row.started):
        yield over_time(f"{title}: runs started a second", started) + "\n"
    for title, lags in _gathered(report, lambda row: row.lags):
        yield lag_histogram(f"{title}: start lag", lags) + "\n"


def _minutes(report: Report) -> Iterable[str]:
    """Return plots over the minutes, of each part that ran long enough to be sampled."""
    for row in (row for rows in report.found.values() for row in rows if row.minutes):
        yield f"<h2>{escape(f'{row.measure.part}, {row.note}, minute by minute')}</h2>\n"
        edges = [*(one.begins for one in row.minutes), row.minutes[-1].begins + row.minutes[-1].seconds]
        for title, found in levels_of(row.minutes):
            yield levels(f"{row.measure.part}: {title}", edges, found) + "\n"
        yield _table(MINUTE_COLUMNS, map(minute_cells, row.minutes))


def _gathered(report: Report, pick: Callable[[Row], T | None]) -> list[tuple[str, dict[str, T]]]:
    """Return what there is of a kind, by part and note, and then by engine."""
    found: dict[str, dict[str, T]] = {}
    for engine, rows in report.found.items():
        for row in rows:
            one = pick(row)
            if one is not None:
                found.setdefault(f"{row.measure.part}, {row.note}", {})[engine] = one
    return list(found.items())


# ---------------------------------------------------------------------------------------------------------------- plots

WIDTH, HEIGHT = 720, 240
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 30, 40
INNER_WIDTH, INNER_HEIGHT = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
LETTER = 7.2  # approximate width of a letter in a legend

Place = Callable[[float], float]


def lag_histogram(title: str, found: Mapping[str, Histogram]) -> str:
    """Plot the fraction of runs in each interval of lag, one outline per result."""
    first, last = _span(list(found.values()))
    edges = next(iter(found.values())).edges[first : last + 1]
    parts = {name: _parts(one)[first:last] for name, one in found.items()}
    highest = max(max(one) for one in parts.values())
    across = _scale(log10(edges[0]), log10(edges[-1]), LEFT, LEFT + INNER_WIDTH)
    up = _scale(0, highest, TOP + INNER_HEIGHT, TOP)
    shapes = [
        _outline([across(log10(edge)) for edge in edges], [up(part) for part in one], number)
        for number, one in enumerate(parts.values())
    ]
    ticks = [(across(log10(lag)), f"{lag:,g} ms") for lag in _round_lags(edges[0], edges[-1])]
    return _svg(title, list(found), [*_rules(highest, up, _percent), *_ticks(ticks, "start lag"), *shapes])


def over_time(title: str, found: Mapping[str, Series]) -> str:
    """Plot runs a second over the seconds."""
    rates = {name: [count * 1_000 / one.step_ms for count in one.counts] for name, one in found.items()}
    edges = {name: [n * one.step_ms / 1_000 for n in range(len(one.counts) + 1)] for name, one in found.items()}
    return _over(title, edges, rates, _thousands)


def levels(title: str, edges: Sequence[float], found: Mapping[str, Sequence[float]]) -> str:
    """Plot values from each edge to the next, in seconds; one outline per result."""
    return _over(title, dict.fromkeys(found, edges), found, lambda value: f"{value:,g}")


def _over(
    title: str,
    edges: Mapping[str, Sequence[float]],
    heights: Mapping[str, Sequence[float]],
    shown: Callable[[float], str],
) -> str:
    seconds, highest = (max(max(one) for one in some.values()) for some in (edges, heights))
    across, up = _scale(0, seconds, LEFT, LEFT + INNER_WIDTH), _scale(0, highest, TOP + INNER_HEIGHT, TOP)
    shapes = [
        _outline([across(edge) for edge in edges[name]], [up(height) for height in one], number)
        for number, (name, one) in enumerate(heights.items())
    ]
    step = _round_step(seconds / 8)
    ticks = [(across(n * step), f"{n * step:g} s") for n in range(floor(seconds / step) + 1)]
    return _svg(title, list(heights), [*_rules(highest, up, shown), *_ticks(ticks, ""), *shapes])


def _span(found: Sequence[Histogram]) -> tuple[int, int]:
    """Return the first and the last edge between which there is data."""
    filled = [n for one in found for n, count in enumerate(one.counts) if count]
    return (min(filled), max(filled) + 1) if filled else (0, 1)


def _round_lags(shortest: float, longest: float) -> list[float]:
    """Return powers of ten between the two; also twice and five times them where there are few."""
    times = (1, 2, 5) if longest / shortest < 200 else (1,)
    powers = range(floor(log10(shortest)), ceil(log10(longest)) + 1)
    lags = [round(10.0**power * one, 4) for power in powers for one in times]
    return [lag for lag in lags if shortest * 0.999 <= lag <= longest * 1.001]


def _parts(one: Histogram) -> list[float]:
    total = sum(one.counts) or 1
    return [count / total for count in one.counts]


def _scale(least: float, most: float, first: float, last: float) -> Place:
    width = (most - least) or 1
    return lambda value: round(first + (value - least) / width * (last - first), 1)


def _outline(edges: Sequence[float], tops: Sequence[float], number: int) -> str:
    """Draw bars without lines between them, so that one outline does not hide another."""
    ground = TOP + INNER_HEIGHT
    points = [f"M{edges[0]} {ground}"]
    for right, top in zip(edges[1:], tops, strict=True):
        points.append(f"V{top}H{right}")
    return f'<path class="s{number}" d="{"".join(points)}V{ground}Z"/>'


def _rules(highest: float, up: Place, shown: Callable[[float], str]) -> list[str]:
    """Draw horizontal lines, each with its value."""
    step = _round_step(highest / 4)
    values = [n * step for n in range(floor(highest / step + 1e-9) + 1)] if step else [0.0]
    return [
        f'<path class="rule" d="M{LEFT} {up(value)}H{LEFT + INNER_WIDTH}"/>'
        f'<text class="axis" x="{LEFT - 6}" y="{up(value) + 4}" text-anchor="end">{shown(value)}</text>'
        for value in values
    ]


def _ticks(ticks: Sequence[tuple[float, str]], name: str) -> list[str]:
    ground = TOP + INNER_HEIGHT
    marks = [
        f'<path class="rule" d="M{x} {ground}v5"/>'
        f'<text class="axis" x="{x}" y="{ground + 18}" text-anchor="middle">{text}</text>'
        for x, text in ticks
    ]
    middle = LEFT + INNER_WIDTH / 2
    return [*marks, f'<text class="axis" x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">{escape(name)}</text>']


def _round_step(least: float) -> float:
    """Return 1, 2 or 5 times a power of ten, at least this value."""
    if least <= 0:
        return 0.0
    power = 10.0 ** floor(log10(least))
    return next(power * times for times in (1, 2, 5, 10) if power * times >= least * (1 - 1e-9))


def _percent(part: float) -> str:
    return f"{100 * part:g} %" if part == 0 or part >= 0.1 else f"{100 * part:.2g} %"


def _thousands(value: float) -> str:
    return f"{value:,.0f}/s"


def _svg(title: str, names: Sequence[str], shapes: Sequence[str]) -> str:
    legend, x = [], LEFT + len(title) * LETTER * 1.2 + 24.0
    for number, name in enumerate(names):
        legend.append(f'<rect class="s{number}" x="{x:.0f}" y="8" width="12" height="12"/>')
        legend.append(f'<text class="axis" x="{x + 17:.0f}" y="18">{escape(name)}</text>')
        x += 17 + len(name) * LETTER + 16
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
        f'<title>{escape(title)}</title><text class="name" x="{LEFT}" y="18">{escape(title)}</text>'
        f"{''.join(legend)}{''.join(shapes)}</svg>"
    )
