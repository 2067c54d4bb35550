"""Tasks that get a secret and tell it in every way."""

from __future__ import annotations

import os
import sys
from typing import Any

from oncue import Context, Secret, Tasks

tasks = Tasks()


def leak(ctx: Context, token: Secret, how: str) -> Any:
    value = token.reveal()
    match how:
        case "print":
            print(f"it is {value}, {token}")
            sys.stdout.write(value[:9])
            sys.stdout.write(value[9:] + "\n")
        case "log":
            ctx.log.warning("it is %s", value)
        case "raise":
            raise ValueError(f"{'x' * 3_990}{value}")
        case "raise long":
            raise ValueError(f"{value}{'x' * 2_985}")
        case "raise short":
            raise ValueError(f"wrong {value}")
        case "checkpoint":
            ctx.save_checkpoint({"token": value})
        case "progress":
            ctx.progress(1, 2)
        case "environment":
            return sorted(name for name, held in os.environ.items() if value in held)
        case "half":
            sys.stdout.write(f"half of it: {value[:12]}")
    return {"token": value, "length": len(value)}


@tasks.task("loop")
async def loop(ctx: Context, token: Secret, how: str = "") -> Any:
    return leak(ctx, token, how)


@tasks.task("thread")
def thread(ctx: Context, token: Secret, how: str = "") -> Any:
    return leak(ctx, token, how)


@tasks.task("process", isolation="process")
def process(ctx: Context, token: Secret, how: str = "") -> Any:
    return leak(ctx, token, how)


@tasks.task("async process", isolation="process")
async def async_process(ctx: Context, token: Secret, how: str = "") -> Any:
    return leak(ctx, token, how)
