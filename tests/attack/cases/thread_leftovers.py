"""Tasks in threads and in the loop that fork and let their copy return, and go to another folder. The copy of a worker
waited for ever, and one of its loop read and wrote on the worker's own connections.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

from tests.attack.stage import Stage
from tests.processes.fleet import until

from oncue import Tasks

tasks = Tasks()


@tasks.task("fork_a_thread")
def fork_a_thread(ctx: Any) -> int:
    os.chdir("/")
    os.fork()
    return os.getpid()


@tasks.task("fork_the_loop")
async def fork_the_loop(ctx: Any) -> int:
    os.fork()
    await asyncio.sleep(0.2)
    return os.getpid()


def attack(stage: Stage) -> None:
    inner = stage.server.inner
    forked = stage.settled(stage.many(5, "fork_a_thread", max_retries=0))
    assert {run["result"] for run in forked.values()} == {inner}
    refused = stage.settled(stage.many(5, "fork_the_loop", max_retries=0))
    assert {run["error_type"] for run in refused.values()} == {"RuntimeError"}
    assert stage.server.inner == inner
    until(lambda: len(stage.fleet.running("oncue.app worker")) == 1, "no copy is left", stage.fleet.tell)
