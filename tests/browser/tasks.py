"""What the server of the browser tests runs."""

from __future__ import annotations

import time
from pathlib import Path

from oncue import Context, Tasks

tasks = Tasks()


@tasks.task("ok")
async def ok(ctx: Context, text: str = "fine") -> str:
    ctx.log.info("it is %s", text)
    return text


@tasks.task("slow")
def slow(ctx: Context, until: str, parts: int = 10, lines: int = 0) -> str:
    """Runs until this file exists, with a line of log and some progress every now and then; `lines` come first."""
    for line in range(lines):
        ctx.log.info("line %d of %d", line + 1, lines)
    done = 0
    while not Path(until).exists() and not ctx.cancelled:
        done = min(done + 1, parts - 1)
        ctx.progress(done, parts)
        ctx.log.info("part %d of %d", done, parts)
        time.sleep(0.1)
    ctx.progress(parts, parts)
    return "done"


@tasks.task("failing")
async def failing(ctx: Context, message: str = "the disk is full", good: bool = False) -> str:
    """Fails unless its payload says `good`."""
    ctx.log.info("about to work")
    if not good:
        raise RuntimeError(message)
    return "mended"
