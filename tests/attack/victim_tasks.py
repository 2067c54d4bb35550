"""The victim's tasks: each says its secret in every way a task can speak, and returns it."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from oncue import Tasks

tasks = Tasks()

LASTS = 0.02  # seconds


def say(ctx: Any, secret: str) -> str:
    print(secret)
    ctx.progress(len(secret), len(secret))
    return secret


@tasks.task("victim_loop")
async def victim_loop(ctx: Any, secret: str) -> str:
    said = say(ctx, secret)
    await asyncio.sleep(LASTS)
    await ctx.save_checkpoint(secret)
    return said


@tasks.task("victim_thread")
def victim_thread(ctx: Any, secret: str) -> str:
    said = say(ctx, secret)
    time.sleep(LASTS)
    ctx.save_checkpoint(secret)
    return said


@tasks.task("victim_process", isolation="process")
def victim_process(ctx: Any, secret: str) -> str:
    said = say(ctx, secret)
    time.sleep(LASTS)
    ctx.save_checkpoint(secret)
    return said
