"""Nine runs that never return, with a short timeout: the worker had to start afresh, and while it let another's long
run finish nobody's work was started, for as long as its grace time.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from tests.attack.stage import Stage

from oncue import Tasks

tasks = Tasks()


@tasks.task("never_return")
def never_return(ctx: Any) -> None:
    while True:
        time.sleep(1)


@tasks.task("long")
async def long(ctx: Any) -> None:
    await asyncio.sleep(12)


def attack(stage: Stage) -> None:
    innocent = stage.fleet.create("long", max_retries=0)
    runs = stage.many(9, "never_return", timeout="100ms", max_retries=0)
    ended = stage.settled(runs)
    assert {run["status"] for run in ended.values()} == {"dead"}
    assert stage.fleet.at_rest([innocent])[innocent]["status"] == "succeeded"
