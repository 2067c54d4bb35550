"""Tasks that write down by themselves when they start and end: oncue's own tables are not believed."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

from oncue import Tasks

tasks = Tasks()


def note(kind: str, ctx: Any, **more: object) -> None:
    """One line, in one write to the end of the file: whole also when several processes write at once."""
    said = {
        "kind": kind,
        "at": time.time(),
        "run": str(ctx.run_id),
        "job": str(ctx.job_id),
        "attempt": ctx.attempt,
        "due": ctx.scheduled_for.timestamp(),
        "pids": [os.getpid(), *ancestors(3)],
        **more,
    }
    end = os.open(os.environ["WITNESS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(end, json.dumps(said).encode() + b"\n")
    finally:
        os.close(end)


def ancestors(generations: int) -> list[int]:
    """A run in a process of its own has the worker for its third: between them are a copy's original and a warden."""
    found = [os.getppid()]
    while len(found) < generations and found[-1]:
        found.append(parent_of(found[-1]))
    return found


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])


@tasks.task("mark")
async def mark(ctx: Any) -> str:
    note("start", ctx)
    note("end", ctx)
    return "done"


@tasks.task("slow")
async def slow(ctx: Any, seconds: float) -> str:
    note("start", ctx)
    await asyncio.sleep(seconds)
    note("end", ctx)
    return "done"


@tasks.task("relay")
async def relay(ctx: Any, lengths: list[float], gate: str = "/") -> dict[str, int]:
    """How long it takes depends on the attempt, and after the first on a gate; the result tells whose it is."""
    note("start", ctx)
    await asyncio.sleep(lengths[min(ctx.attempt, len(lengths)) - 1])
    while ctx.attempt > 1 and not os.path.exists(gate):  # noqa: PTH110, ASYNC240 -- a look at a file in memory
        await asyncio.sleep(0.05)
    note("end", ctx)
    return {"pid": os.getpid(), "attempt": ctx.attempt}


@tasks.task("step_by_step")
async def step_by_step(ctx: Any, seconds: float) -> str:
    """Goes on where its checkpoint says."""
    note("start", ctx, checkpoint=ctx.checkpoint())
    for step in range(ctx.checkpoint() or 0, round(seconds / 0.1)):
        await asyncio.sleep(0.1)
        await ctx.save_checkpoint(step + 1)
        note("saved", ctx, checkpoint=step + 1)
    note("end", ctx)
    return "done"


@tasks.task("step_by_step_apart", isolation="process")
def step_by_step_apart(ctx: Any, seconds: float) -> str:
    """The same, in a process; it looks whether it is to stop, where it would be killed a second later."""
    note("start", ctx, checkpoint=ctx.checkpoint())
    for step in range(ctx.checkpoint() or 0, round(seconds / 0.1)):
        if ctx.cancelled:
            return "stopped"
        time.sleep(0.1)
        ctx.save_checkpoint(step + 1)
        note("saved", ctx, checkpoint=step + 1)
    note("end", ctx)
    return "done"


@tasks.task("fail")
async def fail(ctx: Any) -> None:
    note("start", ctx)
    raise ValueError("as it was told")


@tasks.task("in_thread")
def in_thread(ctx: Any, seconds: float) -> str:
    note("start", ctx)
    time.sleep(seconds)
    note("end", ctx)
    return "done"


@tasks.task("in_process", isolation="process")
def in_process(ctx: Any, seconds: float) -> str:
    note("start", ctx)
    time.sleep(seconds)
    note("end", ctx)
    return "done"


@tasks.task("gated")
async def gated(ctx: Any, gate: str) -> str:
    """Lasts until the file is there: the test says how long it takes, not the machine."""
    note("start", ctx)
    while not os.path.exists(gate):  # noqa: PTH110, ASYNC240 -- a look at a file in memory
        await asyncio.sleep(0.05)
    note("end", ctx)
    return "done"


@tasks.task("gated_in_thread")
def gated_in_thread(ctx: Any, gate: str) -> str:
    """Nothing can stop it, so it keeps saying that it is still there."""
    note("start", ctx)
    while not Path(gate).exists():
        time.sleep(0.05)
        note("still there", ctx)
    note("end", ctx)
    return "done"


@tasks.task("tidy_up")
def tidy_up(ctx: Any, lane: str, seconds: float = 2.5) -> str:
    """Looks every tenth of a second whether it is to stop, and then needs half a second."""
    note("start", ctx, lane=lane)
    until = time.monotonic() + seconds
    while not ctx.cancelled and time.monotonic() < until:
        time.sleep(0.1)
    time.sleep(0.5)
    note("end", ctx, lane=lane)
    return "done"


@tasks.task("gated_in_process", isolation="process")
def gated_in_process(ctx: Any, gate: str) -> str:
    note("start", ctx)
    while not Path(gate).exists():
        time.sleep(0.05)
    note("end", ctx)
    return "done"


@tasks.task("poison")
async def poison(ctx: Any) -> None:
    note("start", ctx)
    os._exit(9)


@tasks.task("block_the_loop")
async def block_the_loop(ctx: Any, seconds: float) -> str:
    note("start", ctx)
    time.sleep(seconds)  # noqa: ASYNC251 -- this is the fault
    note("end", ctx)
    return "done"


@tasks.task("hold_the_gil")
def hold_the_gil(ctx: Any, seconds: int) -> str:
    note("start", ctx)
    ctypes.PyDLL(None).sleep(seconds)  # unlike CDLL, it keeps the lock while C code runs
    note("end", ctx)
    return "done"


@tasks.task("never_end")
def never_end(ctx: Any) -> None:
    note("start", ctx)
    while True:
        time.sleep(1)


@tasks.task("print_for_ever")
def print_for_ever(ctx: Any) -> None:
    """Ends when told to: it is the output that is endless here, not the thread."""
    note("start", ctx)
    while not ctx.cancelled:
        print("and so on, " * 100)


@tasks.task("print_for_ever_apart", isolation="process")
def print_for_ever_apart(ctx: Any) -> None:
    note("start", ctx)
    while True:
        print("and so on, " * 100)


@tasks.task("take_all_memory", isolation="process")
def take_all_memory(ctx: Any) -> None:
    note("start", ctx)
    taken = []
    try:
        while True:
            taken.append(bytearray(8 * 1024 * 1024))
    except MemoryError:
        megabytes = 8 * len(taken)
        taken.clear()
        note("full", ctx, megabytes=megabytes)
        raise


@tasks.task("leave_a_sleeper")
def leave_a_sleeper(ctx: Any, session: bool = True) -> None:
    """From a thread, in a session of its own or not; and the worker is somewhere else afterwards."""
    subprocess.Popen(["/bin/sleep", "3600"], start_new_session=session)
    os.chdir("/")
    note("end", ctx)


@tasks.task("fork_and_return")
def fork_and_return(ctx: Any) -> int:
    us = os.getpid()
    os.fork()
    note("end", ctx, copy=os.getpid() != us)
    return os.getpid()


@tasks.task("start_a_grandchild", isolation="process")
def start_a_grandchild(ctx: Any) -> None:
    """In a session of its own, where no signal to our group reaches it, and left by its parent."""
    subprocess.run(["/bin/sh", "-c", "setsid sleep 3600 &"], check=True)
    note("start", ctx)
    time.sleep(3600)
