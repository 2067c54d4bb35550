"""Tasks for tests of processes: well-behaved, and every kind of harm."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from typing import Any

from oncue import Context, NoRetry, RetryAfter, Tasks

tasks = Tasks()
SLEEPER = "import sys, time; time.sleep(600)"
runs = 0


@tasks.task("add", isolation="process")
def add(ctx: Context, a: int, b: int) -> int:
    return a + b


@tasks.task("add_async", isolation="process")
async def add_async(ctx: Context, a: int, b: int) -> int:
    await asyncio.sleep(0)
    await ctx.save_checkpoint({"a": a})
    return a + b


@tasks.task("who", isolation="process")
def who(ctx: Context) -> dict[str, int]:
    """Which process, and how many runs it has had."""
    global runs
    runs += 1
    return {"pid": os.getpid(), "warden": os.getppid(), "runs": runs}


@tasks.task("imported", isolation="process")
def imported(ctx: Context) -> list[str]:
    return sorted(sys.modules)


@tasks.task("talk", isolation="process")
def talk(ctx: Context) -> Any:
    print("printed")
    subprocess.run(["echo", "by a subprocess"], check=True)
    os.write(2, b"raw\n")
    ctx.log.info("logged")
    return ctx.checkpoint()


@tasks.task("report", isolation="process")
def report(ctx: Context, times: int) -> None:
    for done in range(times):
        ctx.progress(done + 1, times)
    ctx.save_checkpoint({"at": times})


@tasks.task("fail", isolation="process")
def fail(ctx: Context, how: str) -> None:
    raise {
        "plain": ValueError("no such thing"),
        "no_retry": NoRetry("never again"),
        "retry_after": RetryAfter("30s"),
        "exit": SystemExit(5),
    }[how]


@tasks.task("end", isolation="process")
def end(ctx: Context, how: str) -> None:
    match how:
        case "exit":
            os._exit(3)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "close":
            os.closerange(3, 1_000)
            time.sleep(600)


@tasks.task("fork", isolation="process")
def fork(ctx: Context) -> int:
    os.fork()
    return os.getpid()


@tasks.task("hog", isolation="process")
def hog(ctx: Context) -> None:
    pieces = []
    while True:
        pieces.append(bytearray(1 << 20))


@tasks.task("flood", isolation="process")
def flood(ctx: Context) -> None:
    while True:
        os.write(1, b"x" * 65_536)


@tasks.task("stubborn", isolation="process")
def stubborn(ctx: Context) -> None:
    """Ignores TERM; so does a grandchild in a session of its own, which keeps no descriptor."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen(
        [sys.executable, "-S", "-c", SLEEPER],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN),
    )
    print("ready", flush=True)
    time.sleep(600)


@tasks.task("polite", isolation="process")
def polite(ctx: Context) -> None:
    print("ready", flush=True)
    while not ctx.cancelled:
        time.sleep(0.005)
    ctx.save_checkpoint("half")
    print("told to stop", flush=True)


@tasks.task("polite_async", isolation="process")
async def polite_async(ctx: Context) -> None:
    print("ready", flush=True)
    try:
        await asyncio.sleep(600)
    except asyncio.CancelledError:
        print(f"told to stop: {ctx.cancelled}", flush=True)
        raise


@tasks.task("babble", isolation="process")
def babble(ctx: Context, words: str) -> None:
    """Finds the line to the worker, and says something of its own there."""
    os.write(int(sys.argv[1]), words.encode() + b"\n")
    while not ctx.cancelled:
        time.sleep(0.005)
