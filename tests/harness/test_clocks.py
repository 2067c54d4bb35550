"""A short story with clocks that jump, and whether the judge would find what they must not do."""

from __future__ import annotations

import os
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import pytest
from tests.harness.clocks import judge_clocks, make_clock_plan, tell_of_clocks
from tests.harness.evidence import Evidence, Untold
from tests.harness.planted import OF_CLOCKS, planted
from tests.harness.shifting import NoCompiler, WallClocks
from tests.harness.story import Told, about

from oncue.testing.postgres import PostgresMissing, PrivatePostgres

pytestmark = [pytest.mark.kills, pytest.mark.first, pytest.mark.xdist_group("clocks")]  # one process tells the story

SECONDS = 6.0


@pytest.fixture(scope="module")
def needed(tmp_path_factory: pytest.TempPathFactory) -> None:
    try:
        PrivatePostgres("")
        WallClocks(tmp_path_factory.mktemp("compiled"))
    except (PostgresMissing, NoCompiler) as missing:
        pytest.fail(str(missing)) if os.environ.get("CI") else pytest.skip(str(missing))


@pytest.fixture(scope="module")
def story(needed: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Told, Path]:
    folder = tmp_path_factory.mktemp("clocks")
    return tell_of_clocks(make_clock_plan(1, SECONDS), folder), folder


def test_clocks_that_jump_start_nothing_early_and_miss_nothing(story: tuple[Told, Path]) -> None:
    told, folder = story
    assert not told.violations, "\n".join(about(told, one, folder) for one in told.violations[:3])
    assert len(told.evidence.spans) > 30, told.figures


def start_early(found: Evidence) -> None:
    found.spans[0] = found.spans[0]._replace(start=found.spans[0].due - 0.1)


def miss_an_occurrence(found: Evidence) -> None:
    job = found.known.job_ids[0]
    found.untold[job].append(Untold(found.spans[0].due, found.spans[0].due, 1, "missed"))


def lose_an_attempt(found: Evidence) -> None:
    run = next(run for run in found.runs.values() if run["attempts"])
    run["attempts"][0]["outcome"] = "lost"


def see_the_right_time(found: Evidence) -> None:
    found.spans = [span._replace(wall=span.start) for span in found.spans]


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (start_early, "never early"),
        (miss_an_occurrence, "missed by a clock"),
        (lose_an_attempt, "dead by a clock"),
        (see_the_right_time, "the clocks"),
    ],
    ids=lambda one: getattr(one, "__name__", None),
)
def test_a_clock_that_decides_is_found(story: tuple[Told, Path], change: Callable[[Evidence], None], rule: str) -> None:
    told, folder = story
    other = deepcopy(told.evidence)
    change(other)
    assert rule in {violation.rule for violation in judge_clocks(other, folder)}


@pytest.mark.long
@pytest.mark.parametrize("bug", OF_CLOCKS)
def test_a_planted_bug_is_found(needed: None, tmp_path: Path, bug: str) -> None:
    told = tell_of_clocks(make_clock_plan(1, SECONDS), tmp_path, planted(bug), patience=10)
    assert OF_CLOCKS[bug] in {violation.rule for violation in told.violations}
