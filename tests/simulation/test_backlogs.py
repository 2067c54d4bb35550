"""How one worker shares out its few places when far more is asked of it: for many minutes, on the real engine."""

from __future__ import annotations

import pytest
from tests.simulation import backlogs


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
async def test_nobody_is_overtaken_by_what_came_later_than_its_head_start_allows(seed: int) -> None:
    assert await backlogs.priorities(seed) == []


@pytest.mark.long
@pytest.mark.parametrize("what", backlogs.BIG_AND_SMALL)
async def test_a_big_run_starts_in_time_though_small_ones_keep_coming(what: str) -> None:
    assert await backlogs.sizes(what) == []


@pytest.mark.long
async def test_who_asks_for_little_is_not_behind_all_that_another_asks_for() -> None:
    assert await backlogs.users() == []


@pytest.mark.long
async def test_what_comes_free_is_for_others_while_one_has_most() -> None:
    assert await backlogs.users_with_long_runs() == []


@pytest.mark.long
async def test_what_gives_way_has_its_time_and_ends_at_last() -> None:
    assert await backlogs.giving_way() == []
