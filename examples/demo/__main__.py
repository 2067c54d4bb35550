"""A demo: `make demo` creates a private store with the last hours of a believable company, and serves its dashboard."""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path

from examples.demo.fleet import USERS
from examples.demo.past import create_jobs, create_keys, play
from examples.demo.world import World

from oncue.clock import SystemClock
from oncue.domain.instants import HOUR, SECOND, Instant
from oncue.engines.open import open_engine
from oncue.engines.port import Engine
from oncue.settings import Settings
from oncue.testing.clock import FakeClock
from oncue_conformance.store import Store

TICK = 0.1  # seconds between two looks of the workers
TELL = 10 * SECOND


def main() -> None:
    parser = argparse.ArgumentParser(prog="make demo ARGS=…", description=__doc__)
    parser.add_argument("--port", type=int, default=8480)
    parser.add_argument("--hours", type=float, default=4.0, help="of history")
    parser.add_argument("--keys", type=Path, help="write the keys to this file, as JSON")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt), tempfile.TemporaryDirectory(prefix="oncue-demo-") as folder:
        asyncio.run(demo(Path(folder), asked))


async def demo(folder: Path, asked: argparse.Namespace) -> None:
    settings = Settings(engine=f"sqlite:///{folder}/demo.db")

    async def opened() -> Engine:
        return await open_engine(settings)

    now = SystemClock().now()
    clock = FakeClock(Instant(now - int(asked.hours * HOUR)))
    store = Store(await opened(), opened, clock, random.Random(7))
    world = World(store, now)
    try:
        print(f"Playing the last {asked.hours:g} hours ...", flush=True)
        users = {name: await store.accounts.user(name, store.now) for name in USERS}
        keys = await create_keys(store)
        await world.hire()
        await create_jobs(store, users)
        await play(world, users)
        await world.live_until(SystemClock().now())  # what came due meanwhile
        with ExitStack() as processes:
            _serve(processes, settings.engine, folder, asked.port)
            _show(asked, keys)
            await _go_on(world)
    finally:
        await store.close()


def _serve(processes: ExitStack, engine: str, folder: Path, port: int) -> None:
    command = [sys.executable, "-m", "oncue"]
    shared = ["--engine", engine, "--data-dir", str(folder), "--log-level", "warning"]
    for role in (["scheduler"], ["api", "--port", str(port)]):
        process = subprocess.Popen([*command, *role, *shared], stdout=subprocess.DEVNULL)
        processes.callback(process.wait)
        processes.callback(process.terminate)


def _show(asked: argparse.Namespace, keys: dict[str, str]) -> None:
    if asked.keys:
        asked.keys.write_text(json.dumps({"url": f"http://127.0.0.1:{asked.port}", "keys": keys}))
    print(f"\nThe dashboard: http://127.0.0.1:{asked.port}/   Sign in with one of these keys; Ctrl-C ends it.\n")
    for name, key in keys.items():
        print(f"  {name:18} {key}", flush=True)


async def _go_on(world: World) -> None:
    """Let the workers work on, by the real clock. A real scheduler plans."""
    clock, tell_at = SystemClock(), 0
    await world.beat()
    while True:
        world.store.advance(clock.now() - world.store.now)
        await world.step()
        if world.store.now >= tell_at:
            await world.tell()
            tell_at = world.store.now + TELL
        await asyncio.sleep(TICK)


if __name__ == "__main__":
    main()
