"""Tasks that look for the address of the store and for keys in their environment, in `/proc` and on command lines of
the processes they run in. Process-isolated functions found `ONCUE_ENGINE`, with the password in it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tests.attack.stage import Stage

from oncue import Tasks

tasks = Tasks()

ENVIRONMENT = {"ONCUE_ENGINE": "postgresql://oncue:peeked@db/oncue", "ONCUE_API_KEY": "peeked"}


def peek() -> str:
    places = [Path(f"/proc/self/{name}").read_text(errors="replace") for name in ("environ", "cmdline")]
    return "\n".join([str(dict(os.environ)), *places])


@tasks.task("peek_from_the_loop")
async def peek_from_the_loop(ctx: Any) -> str:
    return peek()


@tasks.task("peek_from_a_thread")
def peek_from_a_thread(ctx: Any) -> str:
    return peek()


@tasks.task("peek_from_a_process", isolation="process")
def peek_from_a_process(ctx: Any) -> str:
    return peek() + Path(f"/proc/{os.getppid()}/cmdline").read_text()


def attack(stage: Stage) -> None:
    for name in ("peek_from_the_loop", "peek_from_a_thread", "peek_from_a_process"):
        (run,) = stage.settled(stage.many(1, name)).values()
        assert run["status"] == "succeeded"
        assert "peeked" not in run["result"], name
        assert stage.fleet.engine not in run["result"], name
