"""The table, the JSON and the page tell the same."""

import re
from xml.etree import ElementTree

import msgspec
import pytest

from oncue.domain.instants import MILLISECOND
from oncue.testing.clock import FakeClock
from oncue_bench import measures
from oncue_bench.measures import Row
from oncue_bench.notes import Noted, Series
from oncue_bench.report import (
    HEIGHT,
    WIDTH,
    Report,
    as_json,
    cells,
    lag_histogram,
    levels,
    number,
    over_time,
    page,
    this_machine,
)

SVG = "{http://www.w3.org/2000/svg}"


def lags(*milliseconds: float) -> Noted:
    return Noted([0] * len(milliseconds), [round(lag * MILLISECOND) for lag in milliseconds])


def report() -> Report:
    rows = [
        Row(measures.DRAIN, 23_456.7, "500 runs", started=Series(100, (10, 0, 40))),
        *measures.BURST.rows(lags(1.25, 30, 400), "3 due <at once> & more"),
        Row(measures.EARLY, 0, "of 503"),
    ]
    machine = this_machine(FakeClock(), {"sqlite": "SQLite 3", "postgres": "PostgreSQL 15"})
    return Report(machine, {"sqlite": rows, "postgres": rows})


def plain() -> ElementTree.Element:
    return ElementTree.fromstring(page(report()).removeprefix("<!DOCTYPE html>"))


def test_the_table_says_what_was_found_and_what_it_is_worth() -> None:
    drain, p50, p99, *_ = cells(report())

    assert drain == ("sqlite", "drain: runs that are due", "23,457 runs/s", "≥ 15,000", "≥ 40,000", "floor", "500 runs")
    assert p50[1:6] == ("burst: start lag p50", "30 ms", "", "", "")
    assert p99[2:6] == ("400 ms", "≤ 2,000", "≤ 300", "floor")


def test_a_caution_is_told_beside_what_it_is_about() -> None:
    found = report()
    warned = [msgspec.structs.replace(row, caution="the machine stood still") for row in found.found["sqlite"]]

    [first, *_] = cells(Report(found.machine, {"sqlite": warned}))
    assert first[-1] == "500 runs; the machine stood still"


def test_what_is_missed_is_a_failure_only_if_it_must_not_be() -> None:
    machine = report().machine

    def failed(*rows: Row) -> bool:
        return Report(machine, {"sqlite": [], "postgres": rows}).failed

    assert not failed(Row(measures.DRAIN, 1), Row(measures.EARLY, 0), Row(measures.SOAK_MEMORY, 10))
    assert failed(Row(measures.EARLY, 1))
    assert failed(Row(measures.DRAIN, 50_000), Row(measures.SOAK_MEMORY, 10.1))


def test_the_json_has_what_the_table_shows_and_what_the_plots_need() -> None:
    written = msgspec.json.decode(as_json(report()))

    shown = [
        (row["engine"], f"{row['part']}: {row['measure']}", f"{number(row['value'])} {row['unit']}", row["reached"])
        for row in written["rows"]
    ]
    assert shown == [(row[0], row[1], row[2], row[5]) for row in cells(report())]
    assert written["rows"][0]["started"] == {"step_ms": 100, "counts": [10, 0, 40]}
    assert sum(written["rows"][2]["lags"]["counts"]) == 3
    assert set(written["machine"]) == {"oncue", "date", "cores", "memory_gib", "python", "system", "stores"}
    assert written["machine"]["stores"]["postgres"] == "PostgreSQL 15"


def test_the_page_is_well_formed_and_has_every_cell_of_the_table() -> None:
    found = [tuple(cell.text or "" for cell in row) for row in plain().iter("tr")]

    assert found[1:] == cells(report())


def test_the_page_needs_nothing_else() -> None:
    written = page(report())

    assert not re.search(r"<script|<link|<img|src=|href=|url\(|@import", written)
    assert re.findall(r"https?://[^\"]+", written).count("http://www.w3.org/2000/svg") == len(
        re.findall(r"https?://", written)
    )


def test_the_page_is_for_light_and_dark() -> None:
    light, dark = re.findall(r":root \{(.*?)\}", page(report()), re.DOTALL)

    names = set(re.findall(r"(--\w+):", light))
    assert set(re.findall(r"(--\w+):", dark)) == names
    assert set(re.findall(r"var\((--\w+)\)", page(report()))) == names


def test_the_page_has_a_plot_for_each_part_that_has_one_with_both_engines_in_it() -> None:
    plots = {plot.findtext(f"{SVG}title"): plot for plot in plain().iter(f"{SVG}svg")}

    assert set(plots) == {"drain, 500 runs: runs started a second", "burst, 3 due <at once> & more: start lag"}
    for plot in plots.values():
        texts = [text.text for text in plot.iter(f"{SVG}text")]
        assert {"sqlite", "postgres"} <= set(texts)
        assert {path.get("class") for path in plot.iter(f"{SVG}path")} == {"rule", "s0", "s1"}


@pytest.mark.parametrize(
    ("shortest", "longest", "shown"),
    [
        (60, 450, ["100 ms", "200 ms", "500 ms"]),
        (0.3, 40, ["0.5 ms", "1 ms", "2 ms", "5 ms", "10 ms", "20 ms"]),
        (0.05, 90_000, ["0.1 ms", "1 ms", "10 ms", "100 ms", "1,000 ms", "10,000 ms", "100,000 ms"]),
    ],
)
def test_the_axis_of_lags_has_round_ones_however_long_it_is(shortest: float, longest: float, shown: list[str]) -> None:
    plot = ElementTree.fromstring(lag_histogram("lags", {"sqlite": lags(shortest, longest).histogram()}))

    assert [text.text for text in plot.iter(f"{SVG}text") if (text.text or "").endswith(" ms")] == shown


def test_nothing_is_drawn_outside_of_a_plot() -> None:
    noted = lags(0.01, 0.2, 3, 44, 555, 6_666, 77_777, 888_888)
    for plot in (
        lag_histogram("lags", {"sqlite": noted.histogram(), "postgres": lags(5).histogram()}),
        over_time("starts", {"sqlite": Series(1_000, (5, 1_000_000, 3)), "postgres": Series(100, (7,) * 100)}),
        levels("sizes", [0, 60, 120, 130.5], {"waiting": [1, 20_000, 3], "running": [0, 0, 0.5]}),
    ):
        for x, y in points(plot):
            assert 0 <= x <= WIDTH
            assert 0 <= y <= HEIGHT


@pytest.mark.parametrize("counts", [(0,), (7,), (0, 0, 0)])
def test_little_can_be_drawn_too(counts: tuple[int, ...]) -> None:
    ElementTree.fromstring(over_time("starts", {"sqlite": Series(1_000, counts)}))
    ElementTree.fromstring(lag_histogram("lags", {"sqlite": lags(3).histogram()}))


def test_the_highest_bar_is_where_most_starts_were() -> None:
    plot = over_time("starts", {"sqlite": Series(1_000, (1, 4, 2))})
    [outline] = [path for path in ElementTree.fromstring(plot).iter(f"{SVG}path") if path.get("class") == "s0"]
    first, second, third, ground = [float(y) for y in re.findall(r"V([\d.]+)", outline.get("d", ""))]

    assert second < third < first < ground
    assert ground - first == pytest.approx((ground - second) / 4, abs=0.2)


def points(plot: str) -> list[tuple[float, float]]:
    """Every point that a path goes through."""
    found = []
    for path in ElementTree.fromstring(plot).iter(f"{SVG}path"):
        x = y = 0.0
        for kind, numbers in re.findall(r"([MHVvZ])([\d. -]*)", path.get("d", "")):
            values = [float(one) for one in numbers.split()]
            match kind:
                case "M":
                    x, y = values
                case "H":
                    [x] = values
                case "V":
                    [y] = values
                case "v":
                    y += values[0]
            found.append((x, y))
    return found
