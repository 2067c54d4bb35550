"""What it costs to run each process-isolated function in a process of its own: `python bench/isolation.py [RUNS]`.

How long one run takes from the call to the function's first line and to its result: the very first, which has to start
Python; then one right after the other, and with a pause before each. Runs a second with two at a time, back to back;
and the processor time of one run, in all processes, which depends less on who else is at work.
"""

from __future__ import annotations

import asyncio
import resource
import sys
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles
from uuid import UUID

import uvloop

from oncue.context import RunInfo
from oncue.domain.instants import MINUTE, Instant
from oncue.executors.loading import load_tasks
from oncue.executors.port import Work
from oncue.executors.processes import ProcessExecutor
from oncue.settings import Settings

TASKS = """
import time
from oncue import Tasks
tasks = Tasks()
@tasks.task("now", isolation="process")
def now(ctx):
    return time.monotonic()
"""
SIDE_BY_SIDE = 2
PAUSE = 0.03  # seconds


class Nowhere:
    """Reports that nobody keeps."""

    cancelled = False

    def write(self, text: str) -> None: ...

    def progress(self, stored: bytes) -> None: ...

    async def save(self, stored: bytes) -> None: ...


async def main(runs: int, file: str) -> None:
    settings = Settings(tasks=(file,))
    task = load_tasks(settings.tasks).get("now")
    assert task is not None
    work = Work(RunInfo(UUID(int=1), UUID(int=2), "now", 1, Instant(0)), task, None, Nowhere(), MINUTE)
    executor = ProcessExecutor(settings, SIDE_BY_SIDE)

    async def timed(pause: float = 0) -> tuple[float, float]:
        await asyncio.sleep(pause)
        asked = time.monotonic()
        began = float(await executor.run(work) or b"0")
        return began - asked, time.monotonic() - asked

    async def many(count: int) -> None:
        for _ in range(count):
            await executor.run(work)

    before = processor_time()
    _, first = await timed()
    await asyncio.gather(*(many(5) for _ in range(SIDE_BY_SIDE)))
    at_once = [await timed() for _ in range(runs)]
    paused = [await timed(PAUSE) for _ in range(runs // 4)]
    asked = time.monotonic()
    await asyncio.gather(*(many(runs) for _ in range(SIDE_BY_SIDE)))
    rate = SIDE_BY_SIDE * runs / (time.monotonic() - asked)
    await executor.close()
    print(f"first run, with its result       {first * 1_000:8.1f} ms")
    for name, times in (("one after the other", at_once), ("with a pause before it", paused)):
        for until, which in (("start", 0), ("result", 1)):
            took = [each[which] * 1_000 for each in times]
            print(f"{name}: {until:<{31 - len(name)}}{median(took):8.2f} ms, p99 {quantiles(took, n=100)[98]:.2f} ms")
    print(f"{SIDE_BY_SIDE} at a time                      {rate:8.0f} runs/s")
    each = (processor_time() - before) / (runs // 4 + (1 + SIDE_BY_SIDE) * runs)
    print(f"processor time of one run        {each * 1_000:8.2f} ms")


def processor_time() -> float:
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        tasks_file = Path(folder, "isolation_tasks.py")
        tasks_file.write_text(TASKS)
        uvloop.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000, str(tasks_file)))
