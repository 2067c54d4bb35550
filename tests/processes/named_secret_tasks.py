"""Tasks that get secrets by name, and let them out in every way they can."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from oncue import Secret, Tasks

tasks = Tasks()


def leak(ctx: Any, token: Secret) -> None:
    value = token.reveal()
    print(f"printed {value}")
    print(f"printed {value}", file=sys.stderr)
    ctx.log.warning("logged %s", value)
    ctx.progress(1, 2)
    raise ValueError(f"raised\n{value}")


@tasks.task("loop")
async def loop(ctx: Any, token: Secret) -> None:
    leak(ctx, token)


@tasks.task("thread")
def thread(ctx: Any, token: Secret) -> None:
    leak(ctx, token)


@tasks.task("process", isolation="process")
def process(ctx: Any, token: Secret) -> None:
    leak(ctx, token)


@tasks.task("kills_its_worker")
async def kills_its_worker(ctx: Any, token: Secret) -> str:
    print(f"printed {token.reveal()}")
    if ctx.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return token.reveal()


@tasks.task("environment")
def environment(ctx: Any, token: Secret) -> dict[str, Any]:
    value = token.reveal()
    return {"value": value, "length": len(value), "in": [name for name, held in os.environ.items() if value in held]}
