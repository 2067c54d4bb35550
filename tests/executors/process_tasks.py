"""Tasks for tests of processes: well-behaved, and every kind of harm."""

import asyncio
import io
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
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


@tasks.task(isolation="process")
def double(a: int) -> int:
    return 2 * a


@tasks.task(isolation="process")
async def double_async(a: int) -> int:
    await asyncio.sleep(0)
    return 2 * a


@tasks.task(isolation="process", no_retry_on=(LookupError,))
def look_up(key: str) -> int:
    return {"known": 1}[key]


@tasks.task(isolation="process")
def pass_on(a: int) -> str:
    return str(double.sync.enqueue(a).run_id)


@tasks.task(isolation="process")
async def pass_on_async(a: int) -> list[str]:
    first = await double.using(queue="later").enqueue_in("10m", a)
    return [first.status, *map(str, await tasks.enqueue_many([double.bind(a), double.bind(a + 1)]))]


@tasks.task("who", isolation="process")
def who(ctx: Context) -> dict[str, int]:
    """Which process, which one it is a copy of, and how many runs it has had."""
    global runs
    runs += 1
    return {"pid": os.getpid(), "template": os.getppid(), "runs": runs}


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
        "retry_after_timedelta": RetryAfter(timedelta(seconds=40)),
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
def fork(ctx: Context) -> bool:
    us = os.getpid()
    os.fork()
    return os.getpid() == us


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


def open_sockets() -> list[int]:
    found = []
    for file in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # what was open to look here
            if str(file.readlink()).startswith("socket:"):
                found.append(int(file.name))
    return found


@tasks.task("leave", isolation="process")
def leave(ctx: Context, mark: str) -> int:
    """Leaves a thread and a grandchild behind, which go on a little later. Which one."""

    def go_on() -> None:
        time.sleep(0.1)
        while True:
            with suppress(Exception):
                print(f"of {mark}", flush=True)
                ctx.progress(666)
                ctx.save_checkpoint(mark)

    threading.Thread(target=go_on, daemon=False).start()
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.write(writing, str(os.getpid()).encode())
            go_on()
        os._exit(0)
    return int(os.read(reading, 10))


@tasks.task("twist", isolation="process")
def twist(ctx: Context, mark: str) -> None:
    """Leaves the process askew."""
    os.close(1)
    os.open(os.devnull, os.O_WRONLY)
    sys.stdout = io.StringIO()
    os.environ["LEFT"] = mark
    os.chdir("/")
    os.umask(0o77)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_NOFILE, (50, 50))
    sys.setrecursionlimit(300)
    time.sleep = lambda seconds: None


@tasks.task("leave_async", isolation="process")
async def leave_async(ctx: Context, mark: str) -> None:
    async def go_on() -> None:
        while True:
            print(f"of {mark}", flush=True)
            await ctx.save_checkpoint(mark)
            await asyncio.sleep(0)

    ctx.__class__.left = asyncio.create_task(go_on())  # type: ignore[attr-defined]
    await asyncio.sleep(0.01)


@tasks.task("look", isolation="process")
def look(ctx: Context, seconds: float = 0) -> dict[str, Any]:
    """How the process is that a run finds."""
    time.sleep(seconds)
    print("of the second", flush=True)
    mask = os.umask(0)
    return {
        "threads": threading.active_count(),
        "environ": os.environ.get("LEFT"),
        "folder": str(Path.cwd()),
        "mask": mask,
        "term": signal.getsignal(signal.SIGTERM) == signal.SIG_IGN,
        "usr1": signal.getsignal(signal.SIGUSR1) == signal.SIG_IGN,
        "files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "recursion": sys.getrecursionlimit(),
        "sockets": len(open_sockets()),
    }


@tasks.task("polite_for_a_while", isolation="process")
async def polite_for_a_while(ctx: Context) -> None:
    for _ in range(10):
        await asyncio.sleep(0.01)
    print("of the second", flush=True)


@tasks.task("environment", isolation="process")
def environment(ctx: Context) -> dict[str, str]:
    said = [Path(f"/proc/{pid}/environ").read_text() for pid in (os.getpid(), os.getppid())]
    return {**os.environ, "proc": "".join(said)}


@tasks.task("against_warden", isolation="process")
def against_warden(ctx: Context, number: int, again: bool = False, stay: bool = True) -> None:
    """Sends its warden a signal, leaving a child behind that has run away."""
    subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    warden = os.getppid()
    while b"warden.py" not in Path(f"/proc/{warden}/cmdline").read_bytes():
        warden = int(Path(f"/proc/{warden}/stat").read_text().rpartition(")")[2].split()[1])
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("ready", flush=True)
    os.kill(warden, number)
    while again:
        os.kill(warden, number)
    if stay:
        time.sleep(600)


@tasks.task("babble", isolation="process")
def babble(ctx: Context, words: str) -> None:
    """Finds the line to the worker, and says something of its own there."""
    os.write(open_sockets()[0], words.encode() + b"\n")
    while not ctx.cancelled:
        time.sleep(0.005)


@tasks.task("end_copies", isolation="process")
def end_copies(ctx: Context) -> list[int | None]:
    """How a copy and a program end that are told to: -15 and -2, unless something of ours swallows it."""
    copy = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
    copy.start()
    copy.terminate()
    copy.join(30)
    with subprocess.Popen(["sleep", "60"]) as program:
        program.send_signal(signal.SIGINT)
        return [copy.exitcode, program.wait(30)]
