"""The table of all pairs that were run, printed at the end: whichever process ran which."""

from collections import defaultdict
from collections.abc import Iterable

import msgspec
import pytest
from tests.pairs.table import Pair
from tests.pairs.verbs import VERBS

RAN = "pairs"  # what a test says about itself


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    sums: dict[tuple[str, str], Pair] = defaultdict(Pair)
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, ran in getattr(report, "user_properties", ()):
                if name == RAN and report.when == "call":
                    for first, second, pair in msgspec.convert(ran, list[tuple[str, str, Pair]]):
                        sums[first, second] = sums[first, second].plus(pair)
    if sums:
        terminalreporter.section("pairs: the verb above after each step of the verb on the left")
        terminalreporter.write("\n".join(lines(sums)) + "\n")


def lines(sums: dict[tuple[str, str], Pair]) -> Iterable[str]:
    """How many times each pair met, a row for whoever was interrupted; and how long that took."""
    yield "|".join(["", *(f" {verb} " for verb in ("", *VERBS, "all", "waited", "seconds")), ""])
    yield "|" + "---|" * (len(VERBS) + 4)
    for first in VERBS:
        row = [sums.get((first, second), Pair()) for second in VERBS]
        whole = sum((pair.count for pair in row), 0)
        tail = [whole, sum(pair.waited for pair in row), f"{sum(pair.seconds for pair in row):.1f}"]
        yield "|".join(["", *(f" {cell} " for cell in (first, *(pair.count or "" for pair in row), *tail)), ""])
    every = sums.values()
    yield (
        f"{sum(pair.count for pair in every)} times two verbs met, {sum(pair.waited for pair in every)} times one had"
        f" to wait; {sum(pair.deadlocks for pair in every)} deadlocks; {sum(pair.seconds for pair in every):.0f} s"
    )
