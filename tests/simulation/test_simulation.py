"""Whatever goes wrong in whatever order, nothing is lost, doubled, early, or left undone.

`ONCUE_SIMULATION_SEED=123` tells one story again; `ONCUE_SIMULATION_SEEDS=5000` looks for new ones.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest
from tests.simulation.story import tell

SEEDS = int(os.environ.get("ONCUE_SIMULATION_SEEDS", "200"))
EVERY_DAY = 10  # the first ones; the rest have the mark `long`
ONLY = os.environ.get("ONCUE_SIMULATION_SEED")
CHUNK = 5  # seeds in one test: few enough to be shared out, many enough to be worth it


def chunks() -> list[Any]:
    if ONLY is not None:
        return [pytest.param([int(ONLY)], id=ONLY)]
    found = []
    for first in range(0, SEEDS, CHUNK):
        seeds = range(first, min(first + CHUNK, SEEDS))
        marks = [pytest.mark.long] if first >= EVERY_DAY else []
        found.append(pytest.param(seeds, id=f"{seeds[0]}-{seeds[-1]}", marks=marks))
    return found


@pytest.mark.parametrize("seeds", chunks())
async def test_a_world_comes_to_rest_with_every_promise_kept(seeds: Sequence[int]) -> None:
    told = set()
    for seed in seeds:
        story = await tell(seed)
        if story.problems:
            pytest.fail(str(story), pytrace=False)
        told.add("\n".join(story.lines))
    assert len(told) == len(seeds)  # seeds are different stories


@pytest.mark.parametrize("seed", [pytest.param(3, id="stormy"), pytest.param(10, id="calm", marks=pytest.mark.long)])
async def test_a_seed_is_always_the_same_story(seed: int) -> None:
    assert (await tell(seed)).lines == (await tell(seed)).lines
