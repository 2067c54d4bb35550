"""Tasks that write down by themselves when they start, that they are still there, and when they end.

The time is that of the machine's monotonic clock, which all processes share whatever their wall clocks say; the harness
says when it began.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import time
from typing import Any

from oncue import Tasks

tasks = Tasks()

STEP = 0.05  # seconds between two signs of life


class ToldToFail(Exception):
    """What a job asked for."""


class Witness:
    """Of one execution. Each line is one write to the end of the file: whole also when several processes write."""

    def __init__(self, ctx: Any) -> None:
        self._said = {
            "call": secrets.token_hex(4),
            "run": str(ctx.run_id),
            "job": str(ctx.job_id),
            "attempt": ctx.attempt,
            "pid": os.getpid(),
        }
        self.note("start", due=ctx.scheduled_for.timestamp(), wall=time.time())

    def note(self, kind: str, **more: object) -> None:
        at = round(time.monotonic() + float(os.environ["HARNESS_EPOCH"]), 4)
        line = json.dumps({"kind": kind, "at": at, **self._said, **more}).encode() + b"\n"
        end = os.open(os.environ["WITNESS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(end, line)
        finally:
            os.close(end)


@tasks.task("work")
async def work(ctx: Any, seconds: float = 0.0, fails: int = 0, tidy: float = 0.0) -> int:
    witness = Witness(ctx)
    try:
        for _ in range(round(seconds / STEP)):
            await asyncio.sleep(STEP)
            witness.note("alive")
    except asyncio.CancelledError:
        for _ in range(round(tidy / STEP)):
            await asyncio.sleep(STEP)
            witness.note("alive")
        witness.note("end", how="stopped")
        raise
    return ended(ctx, witness, fails)


@tasks.task("work_in_thread")
def work_in_thread(ctx: Any, seconds: float = 0.0, fails: int = 0, tidy: float = 0.0) -> int:
    return plainly(ctx, seconds, fails, tidy)


@tasks.task("work_apart", isolation="process")
def work_apart(ctx: Any, seconds: float = 0.0, fails: int = 0, tidy: float = 0.0) -> int:
    return plainly(ctx, seconds, fails, tidy)


def plainly(ctx: Any, seconds: float, fails: int, tidy: float) -> int:
    witness = Witness(ctx)
    for _ in range(round(seconds / STEP)):
        time.sleep(STEP)
        witness.note("alive")
        if ctx.cancelled:
            for _ in range(round(tidy / STEP)):
                time.sleep(STEP)
                witness.note("alive")
            witness.note("end", how="stopped")
            return int(ctx.attempt)
    return ended(ctx, witness, fails)


def ended(ctx: Any, witness: Witness, fails: int) -> int:
    if ctx.attempt <= fails:
        witness.note("end", how="failed")
        raise ToldToFail
    witness.note("end", how="returned")
    return int(ctx.attempt)
