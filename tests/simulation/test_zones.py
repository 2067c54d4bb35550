"""Time-zone rules are updated under way: each occurrence by the newer ones has one run, whoever plans."""

from __future__ import annotations

import pytest
from tests.engines.mutants import Statement
from tests.simulation.zones import two_versions


@pytest.mark.parametrize("seed", [9_000, 9_001, *(pytest.param(n, marks=pytest.mark.long) for n in (9_002, 9_003))])
async def test_schedulers_with_two_versions_of_the_rules_double_and_miss_nothing(seed: int) -> None:
    assert await two_versions(seed) == []


@pytest.mark.mutants
@pytest.mark.parametrize(
    "bug",
    [
        Statement("sqlite.planning", "newer_rules", "version > ?1", "false"),
        Statement("sqlite.planning", "plan_take_others", "where j.status = 0", "where false"),
    ],
    ids=["older rules go on planning", "cursors are never computed anew"],
)
async def test_it_would_be_seen(bug: Statement, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)

    assert await two_versions(9_000) != []
