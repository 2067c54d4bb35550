"""A task that writes down its starts by itself, with the run and the attempt: oncue's own tables are not believed."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

from oncue import Context, Tasks
from oncue.clock import SystemClock
from oncue.domain.instants import SECOND, instant
from oncue_bench.notes import ENVIRONMENT

tasks = Tasks()
_clock = SystemClock()


@tasks.task("witness")
async def witness(ctx: Context, seconds: float = 0.0) -> None:
    due, start = instant(ctx.scheduled_for) / SECOND, _clock.now() / SECOND
    _write({"run": str(ctx.run_id), "job": str(ctx.job_id), "attempt": ctx.attempt, "due": due, "start": start})
    await asyncio.sleep(seconds)


def _write(line: dict[str, object]) -> None:
    """One write to the end of the file: whole also when several processes write at once."""
    path = Path(os.environ[ENVIRONMENT]) / "witness.jsonl"
    end = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(end, json.dumps(line).encode() + b"\n")
    finally:
        os.close(end)
