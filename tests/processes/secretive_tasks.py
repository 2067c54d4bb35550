"""Tasks that handle a secret, and let it out in every way they can."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextvars import Context
from typing import Any

from oncue import Tasks

tasks = Tasks()


@tasks.task("leaks")
async def leaks(ctx: Any, secret: str) -> None:
    print(f"printed {secret}")
    ctx.log.warning("logged %s", secret)
    raise ValueError(f"raised\n{secret}")


@tasks.task("leaks_in_a_thread")
def leaks_in_a_thread(ctx: Any, secret: str) -> None:
    print(f"printed {secret}")
    sys.stderr.write(f"written {secret}\n")
    raise ValueError(secret) from KeyError(secret)


@tasks.task("leaks_in_a_process", isolation="process")
def leaks_in_a_process(ctx: Any, secret: str) -> None:
    print(f"printed {secret}", flush=True)
    os.write(2, f"written {secret}\n".encode())
    raise ValueError(secret) from KeyError(secret)


@tasks.task("waits_once")
async def waits_once(ctx: Any, secret: str) -> str:
    """Until its worker is killed."""
    ctx.log.warning("logged %s", secret)
    await ctx.save_checkpoint(secret)
    if ctx.attempt == 1:
        await asyncio.Event().wait()
    return secret


@tasks.task("leaves_an_error")
async def leaves_an_error(ctx: Any, secret: str) -> str:
    """A task of its own fails, and nobody asks for its error: asyncio reports it outside of any run."""

    async def fails() -> None:
        raise KeyError(secret)

    left = [asyncio.create_task(fails())]
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_soon(left.clear, context=Context())
    await asyncio.sleep(0)
    return secret


@tasks.task("kills_its_worker")
async def kills_its_worker(ctx: Any, secret: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)
