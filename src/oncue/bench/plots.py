"""Plots as SVG: lines over an axis of times, bars over a logarithmic axis of lags.

Colours come from the page: `.s0`, `.s1` … for the data, `.axis` for the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from math import ceil, floor, log10

from oncue.bench.notes import Histogram, Series

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
