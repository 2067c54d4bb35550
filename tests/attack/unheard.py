"""For cases in which nobody hears what the server says: runs that make it talk, and one that needs it alive."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from tests.attack.stage import Stage

from oncue import Tasks

tasks = Tasks()


@tasks.task("stubborn")
async def stubborn(ctx: Any) -> None:
    """The worker logs that it does not stop."""
    while True:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)


@tasks.task("sleep")
async def sleep(ctx: Any) -> None:
    await asyncio.sleep(60)


def make_it_talk(stage: Stage) -> None:
    for _ in range(2):
        talked_of = stage.settled(stage.many(2, "stubborn", timeout="100ms", max_retries=0))
        assert {run["error_type"] for run in talked_of.values()} == {"Timeout"}
    [timely] = stage.settled(stage.many(1, "sleep", timeout="200ms", max_retries=0)).values()
    assert timely["error_type"] == "Timeout"
