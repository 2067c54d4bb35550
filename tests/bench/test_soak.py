"""What a soak counts, and how it tells it."""

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from oncue.client import Finding
from oncue.domain.instants import MILLISECOND, SECOND, Instant
from oncue.testing.clock import FakeClock
from oncue_bench import measures, procfs
from oncue_bench.measures import Reached, Row
from oncue_bench.minutes import COLUMNS, MEGABYTE, Sample, StoreState, Table, cells, levels_of, minutes
from oncue_bench.notes import BINS, Histogram, Noted
from oncue_bench.report import Report, as_json, page, this_machine
from oncue_bench.soak import Open, audited
from oncue_bench.stand import AHEAD, steady

NOON = Instant(1_800_000_000 * SECOND)


def lags(*milliseconds: float) -> Histogram:
    return Noted([0] * len(milliseconds), [round(lag * MILLISECOND) for lag in milliseconds]).histogram(10 * BINS)


def sample(n: int) -> Sample:
    store = StoreState(Table(MEGABYTE, n, 2, 3.5), Table(2 * MEGABYTE, 0, 0, None), 9 * MEGABYTE, 5, 30 * MEGABYTE, 0)
    memory = {"up": 50.0, "worker": 60.0 + n}
    return Sample((n + 1) * 10, 10, 1_000 + n, lags(*[5] * 99, 40), 41 + n, memory, store, 10 * MEGABYTE)


class TestWhatIsOpen:
    def test_what_was_created_is_open_until_it_starts(self) -> None:
        runs = Open()
        runs.create([1, 2, 2, 3])
        runs.start([2, 1])

        assert (runs.created, runs.left, runs.again) == (4, 2, 0)
        runs.start([3, 2])
        assert (runs.created, runs.left, runs.again) == (4, 0, 0)

    def test_one_that_starts_twice_does_not_stand_in_for_one_that_is_lost(self) -> None:
        runs = Open()
        runs.create([1, 2, 3])
        runs.start([1, 1])
        runs.start([3])

        assert (runs.left, runs.again) == (1, 1)

    def test_it_keeps_nothing_of_what_is_over(self) -> None:
        runs = Open()
        for n in range(1_000):
            runs.create([n, n])
            runs.start([n, n])

        assert len(runs._runs) == 0


class TestSelfAudit:
    def test_without_a_finding_it_is_told_how_much_was_checked(self) -> None:
        row = audited([], 12_345)

        assert (row.reached, row.note) == (Reached.GOAL, "none, 12,345 objects checked")

    def test_a_finding_fails_the_soak_also_if_the_check_holds_again(self) -> None:
        again = Finding(check="orphan", cleared_at=datetime(2026, 11, 17, tzinfo=UTC))
        row = audited([again, Finding(check="lane"), Finding(check="lane")], 3)
        report = Report(this_machine(FakeClock(), {"postgres": "PostgreSQL 15"}), {"postgres": [row]})

        assert (row.value, row.note) == (3, "2 of lane, 1 of orphan, 3 objects checked")
        assert (row.reached, report.failed) == (Reached.MISSED, True)


class TestSteadyLoad:
    @pytest.mark.parametrize("rate", [10, 17, 500, 10_000])
    def test_every_second_has_its_runs_and_batches_go_out_ahead(self, rate: int) -> None:
        sent = list(steady(NOON, rate, 3))
        dues = [due for _, some in sent for due in some]

        assert [sum(NOON + n * SECOND <= due < NOON + (n + 1) * SECOND for due in dues) for n in range(3)] == [rate] * 3
        assert dues == sorted(dues)
        assert len(sent) == 30
        assert all(AHEAD - MILLISECOND < due - at < AHEAD + SECOND // 10 for at, some in sent for due in some)

    def test_dues_are_what_the_api_can_print(self) -> None:
        assert {due % MILLISECOND for _, some in steady(NOON, 333, 1) for due in some} == {0}


class TestLags:
    def test_percentiles_are_within_three_percent(self) -> None:
        found = lags(*range(1, 1_001))

        assert [found.lag(part) for part in (0.5, 0.99, 1)] == [pytest.approx(x, rel=0.03) for x in (500, 990, 1_000)]
        assert found.lag(0.5) >= 500

    def test_several_are_as_one_of_all(self) -> None:
        assert Histogram.together([lags(1, 20), lags(300), lags()]) == lags(1, 20, 300)

    def test_coarse_ones_have_the_same_lags_in_the_bins_of_a_plot(self) -> None:
        noted = Noted([0] * 4, [n * MILLISECOND for n in (1, 20, 300, 999_999)])

        assert noted.histogram(10 * BINS).coarse(10) == noted.histogram()


class TestMinutes:
    def test_six_samples_are_a_minute_and_the_rest_is_told_too(self) -> None:
        first, second = minutes([sample(n) for n in range(8)])

        assert (first.begins, first.seconds, second.begins, second.seconds) == (0, 60, 60, 20)
        assert first.runs_per_second == pytest.approx(6_015 / 60, abs=0.1)
        assert (first.lag_p50_ms, first.lag_p99_ms) == (pytest.approx(5, rel=0.03), pytest.approx(5, rel=0.03))
        assert (first.lag_max_ms, second.lag_max_ms) == (46, 48)
        assert (first.memory_mb["worker"], first.store.waiting.dead) == (65, 5)
        assert first.wal_mb_per_second == 1

    def test_the_table_has_a_cell_for_each_column(self) -> None:
        _, second = minutes([sample(n) for n in range(8)])

        assert dict(zip(COLUMNS, cells(second), strict=True)) == {
            "from": "1:00",
            "runs/s": "101",  # 1,006 and 1,007 in twenty seconds
            "lag p50 ms": "5.0",
            "p99 ms": "5.0",
            "max ms": "48.0",
            "memory MB": "up 50, worker 67",
            "waiting MB": "1.0",
            "running MB": "2.0",
            "history MB": "9.0",
            "pieces": "5",
            "database MB": "30",
            "WAL MB/s": "1.0",
            "dead rows waiting, running": "7, 0",
            "vacuums, last s ago": "2: 4, never",
        }

    def test_page_and_json_have_every_minute(self) -> None:
        found = minutes([sample(n) for n in range(8)])
        row = Row(measures.SOAK_RATE, 100, "100/s asked for", minutes=found)
        report = Report(this_machine(FakeClock(), {"postgres": "PostgreSQL 15"}), {"postgres": [row]})

        [written] = msgspec.json.decode(as_json(report))["rows"]
        assert [one["begins"] for one in written["minutes"]] == [0, 60]
        shown = page(report)
        ElementTree.fromstring(shown.removeprefix("<!DOCTYPE html>"))
        assert all(f"<title>soak: {title}</title>" in shown for title, _ in levels_of(found))
        assert "<td>up 50, worker 67</td>" in shown


def test_processor_time_of_children_that_have_ended_is_counted() -> None:
    if not procfs.readable():
        pytest.skip("processes are found in /proc")
    script = (
        "import os, subprocess, sys\n"
        "from oncue_bench.procfs import busy_seconds\n"
        "before = busy_seconds(os.getpid())\n"
        "subprocess.run([sys.executable, '-c', 'import time\\nwhile time.process_time() < 0.5: pass'], check=True)\n"
        "print(busy_seconds(os.getpid()) - before)"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, cwd=Path("/")).stdout

    assert float(said) >= 0.48  # it is told in hundredths
