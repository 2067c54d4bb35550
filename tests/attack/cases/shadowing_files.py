"""A task drops files named like modules of Python's own into the worker's folder, and has processes started anew. They
stood before the standard library in every process of a worker: it crashed in a loop, or somebody's code ran in it.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from tests.attack.stage import Stage
from tests.processes.fleet import until

from oncue import Tasks

tasks = Tasks()

NAMES = ("queue", "json", "random", "logging", "selectors", "msgspec", "starlette")


@tasks.task("drop_files")
def drop_files(ctx: Any) -> None:
    for name in NAMES:
        Path(f"{name}.py").write_text("raise SystemExit(9)")


@tasks.task("end_the_template", isolation="process")
def end_the_template(ctx: Any) -> None:
    os.kill(os.getppid(), signal.SIGKILL)


def attack(stage: Stage) -> None:
    assert {run["status"] for run in stage.settled(stage.many(1, "drop_files")).values()} == {"succeeded"}
    assert (stage.fleet.folder / "queue.py").exists()
    stage.settled(stage.many(12, "end_the_template", max_retries=0))
    worker = stage.fleet.start("worker", "--worker-name", "another", "--queues", "nothing")
    until(lambda: len(stage.fleet.workers()) >= 2, "another worker can be started there", stage.fleet.tell)
    worker.send(signal.SIGTERM)
    assert worker.ended() == 0
