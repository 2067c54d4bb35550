"""Process-isolated runs that leave threads, asyncio tasks and children behind, and their process askew. A warm process
served many runs, of anybody: what was left wrote into the victim's log and checkpoint, or took its output away.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sys
import threading
import time
from contextlib import suppress
from typing import Any

from tests.attack.stage import Stage

from oncue import Tasks

tasks = Tasks()
ATTACK = 5.0  # seconds


def haunt(ctx: Any) -> None:
    while True:
        time.sleep(0.05)
        with suppress(Exception):
            ctx.save_checkpoint("haunted")
            os.write(1, b"haunted\n")


@tasks.task("leave_a_thread", isolation="process")
def leave_a_thread(ctx: Any) -> None:
    threading.Thread(target=haunt, args=(ctx,)).start()


@tasks.task("leave_a_child", isolation="process")
def leave_a_child(ctx: Any) -> None:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            haunt(ctx)
        os._exit(0)


@tasks.task("leave_a_task", isolation="process")
async def leave_a_task(ctx: Any) -> None:
    async def haunting() -> None:
        while True:
            await asyncio.sleep(0.05)
            os.write(1, b"haunted\n")

    asyncio.get_running_loop().haunted = asyncio.create_task(haunting())  # type: ignore[attr-defined]


@tasks.task("leave_it_askew", isolation="process")
def leave_it_askew(ctx: Any) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))
    sys.setrecursionlimit(60)
    os.chdir("/")
    os.environ.clear()
    os.close(1)
    os.open(os.devnull, os.O_WRONLY)


def attack(stage: Stage) -> None:
    runs: list[str] = []
    for _ in stage.during(ATTACK):
        for name in ("leave_a_thread", "leave_a_child", "leave_a_task", "leave_it_askew"):
            runs += stage.many(1, name, max_retries=0)
        time.sleep(0.2)
    assert {run["status"] for run in stage.settled(runs).values()} == {"succeeded"}
