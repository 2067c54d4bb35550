"""What follows from notes that are known."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from oncue.domain.instants import MILLISECOND, SECOND, Duration, Instant
from oncue_bench.measuring_tasks import Notebook
from oncue_bench.notes import ENVIRONMENT, RECORD, WINDOW, Noted, Notes

NOON = Instant(1_800_000_000 * SECOND)


def noted(*lags_ms: float) -> Noted:
    return Noted([NOON] * len(lags_ms), [NOON + round(lag * MILLISECOND) for lag in lags_ms])


class TestLags:
    def test_percentiles_are_lags_that_so_many_do_not_exceed(self) -> None:
        found = noted(*range(100, 0, -1))

        assert [found.lag(part) for part in (0.01, 0.5, 0.99, 0.991, 1)] == [1, 50, 99, 100, 100]

    def test_of_one_run_every_percentile_is_its_lag(self) -> None:
        assert [noted(7.25).lag(part) for part in (0, 0.5, 1)] == [7.25] * 3

    def test_only_what_starts_before_it_is_due_is_early(self) -> None:
        assert noted(0, 3, -0.001, 5, -20).early == 2

    def test_only_what_was_due_in_a_stretch_counts_for_it(self) -> None:
        found = Noted([NOON - 1, NOON, NOON + 9, NOON + 10], [NOON + 20] * 4)

        assert list(found.due_within(NOON, Instant(NOON + 10)).due) == [NOON, NOON + 9]


class TestHistogram:
    def test_every_lag_is_counted_once_also_beyond_the_ends(self) -> None:
        found = noted(-3, 0.05, 0.1, 0.5, 12, 12.1, 500, 99_999, 250_000).histogram()

        assert sum(found.counts) == 9
        assert found.counts[0] == 3
        assert found.counts[-1] == 2
        assert len(found.edges) == len(found.counts) + 1

    def test_a_lag_lies_between_the_edges_of_its_bin(self) -> None:
        found = noted(42).histogram()
        [bin_] = [n for n, count in enumerate(found.counts) if count]

        assert found.edges[bin_] <= 42 < found.edges[bin_ + 1]


class TestThroughput:
    def test_starts_are_counted_by_the_second_with_the_empty_ones(self) -> None:
        starts = [NOON, NOON + SECOND - 1, NOON + SECOND, NOON + 3 * SECOND]
        found = Noted([NOON] * 4, starts).by_time(NOON)

        assert (found.step_ms, found.counts) == (1_000, (2, 1, 0, 1))

    def test_steps_may_be_shorter_and_what_came_before_counts_as_the_first(self) -> None:
        found = Noted([NOON] * 3, [NOON - 5, NOON + 50, NOON + 150_000]).by_time(NOON, Duration(100 * MILLISECOND))

        assert (found.step_ms, found.counts) == (100, (2, 1))

    def test_the_end_of_a_stretch_is_not_in_it(self) -> None:
        found = Noted([NOON] * 3, [NOON, NOON + 9, NOON + 10])

        assert found.started_within(NOON, Instant(NOON + 10)) == 2


class TestFiles:
    @pytest.mark.parametrize("count", [0, 1, 1_000, WINDOW // RECORD.size, WINDOW // RECORD.size + 1])
    def test_what_was_written_is_counted_and_taken(self, tmp_path: Path, count: int) -> None:
        notebook, notes = Notebook(tmp_path / "1.notes"), Notes(tmp_path)
        for n in range(count):
            notebook.write(Instant(NOON + n), Instant(NOON + 2 * n))

        assert notes.count() == count
        taken = notes.take()
        assert (list(taken.due), list(taken.start)) == (
            [NOON + n for n in range(count)],
            [NOON + 2 * n for n in range(count)],
        )
        notebook.close()

    def test_each_note_is_taken_once_and_those_of_other_processes_too(self, tmp_path: Path) -> None:
        one, other, notes = Notebook(tmp_path / "1.notes"), Notebook(tmp_path / "2.notes"), Notes(tmp_path)
        one.write(NOON, NOON)
        assert len(notes.take()) == 1

        one.write(NOON, Instant(NOON + 1))
        other.write(NOON, Instant(NOON + 2))

        assert notes.count() == 2
        assert list(notes.take().start) == [NOON + 1, NOON + 2]
        assert (notes.count(), len(notes.take())) == (0, 0)
        one.close()
        other.close()

    def test_none_of_it_stays_in_the_memory_of_whoever_writes(self, tmp_path: Path) -> None:
        script = (
            "from pathlib import Path\n"
            "from oncue_bench.measuring_tasks import Notebook\n"
            "def memory(): return int(Path('/proc/self/statm').read_text().split()[1])\n"
            f"notebook = Notebook(Path({str(tmp_path)!r}) / '1.notes')\n"
            "for n in range(100_000): notebook.write(1, n + 1)\n"
            "before = memory()\n"
            "for n in range(1_000_000): notebook.write(1, n + 1)\n"
            "print((memory() - before) * 4096)"
        )
        if not Path("/proc/self/statm").exists():
            pytest.skip("memory is read from /proc")
        environment = {name: value for name, value in os.environ.items() if name != ENVIRONMENT}
        grown = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, env=environment).stdout

        assert int(grown) < 4 * WINDOW  # sixteen were written
