"""Tasks in processes of their own, whose set has a lifespan."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from oncue import Context, Tasks


@asynccontextmanager
async def resources() -> AsyncIterator[dict[str, int]]:
    print("begins")
    yield {"pid": os.getpid(), "loop": id(asyncio.get_running_loop())}
    print("ends")


tasks = Tasks(lifespan=resources)


@tasks.task(isolation="process")
def plain(ctx: Context[dict[str, int]]) -> bool:
    print("runs")
    return ctx.state["pid"] == os.getpid()


@tasks.task(isolation="process")
async def in_loop(ctx: Context[dict[str, int]]) -> bool:
    print("runs")
    return ctx.state == {"pid": os.getpid(), "loop": id(asyncio.get_running_loop())}
