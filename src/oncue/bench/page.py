"""The results as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import TypeVar

from oncue.bench.measures import Row
from oncue.bench.minutes import COLUMNS as MINUTE_COLUMNS
from oncue.bench.minutes import cells as minute_cells
from oncue.bench.minutes import levels_of
from oncue.bench.notes import Histogram, Series
from oncue.bench.plots import lag_histogram, levels, over_time
from oncue.bench.report import COLUMNS, Report, cells, lines

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
