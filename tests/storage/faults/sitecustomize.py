"""Kills this process once, at the step in the life of an object that FAULT_STEP names.

Python imports this by its name, from PYTHONPATH: the code under test knows nothing of it.
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any


def die() -> None:
    """Once: whoever is started in this one's place lives."""
    try:
        os.close(os.open(os.environ["FAULT_DIED"], os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def plant(owner: Any, name: str, when: str) -> None:
    real: Callable[..., Awaitable[Any]] = getattr(owner, name)

    async def planted(*given: Any, **named: Any) -> Any:
        if when == "before":
            die()
        if when == "during":
            going = asyncio.ensure_future(real(*given, **named))
            await asyncio.sleep(0.001)
            die()
            return await going
        answer = await real(*given, **named)
        die()
        return answer

    setattr(owner, name, planted)


def plant_step(step: str) -> None:
    from oncue.engines.postgres.jobs import PostgresJobs
    from oncue.engines.postgres.objects import PostgresObjects
    from oncue.engines.postgres.running import PostgresRunning
    from oncue.engines.sqlite.jobs import SqliteJobs
    from oncue.engines.sqlite.objects import SqliteObjects
    from oncue.engines.sqlite.running import SqliteRunning
    from oncue.storage.objects import ObjectStorage

    when, what = step.split(" ")
    owners: dict[str, list[tuple[Any, str]]] = {
        "row": [(SqliteObjects, "add"), (PostgresObjects, "add")],
        "put": [(ObjectStorage, "put")],
        "create": [(SqliteJobs, "create"), (PostgresJobs, "create")],
        "settle": [(SqliteRunning, "settle"), (PostgresRunning, "settle")],
    }
    for owner, name in owners[what]:
        plant(owner, name, when)


if step := os.environ.get("FAULT_STEP"):
    plant_step(step)
