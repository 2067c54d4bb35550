"""Kills this process once, at the step in the life of an object or of the archive that FAULT_STEP names.

"after put" is after the first put, "after put 3" after the third. With FAULT_QUICK the archive does not wait for turns.

Python imports this by its name, from PYTHONPATH: the code under test knows nothing of it.
"""

import asyncio
import itertools
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


def plant(owner: Any, name: str, when: str, number: int) -> None:
    real: Callable[..., Awaitable[Any]] = getattr(owner, name)
    calls = itertools.count(1)

    async def planted(*given: Any, **named: Any) -> Any:
        of_another = name == "finish_turn" and given[1] != "archive"
        if of_another or next(calls) != number:
            return await real(*given, **named)
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
    from oncue.engines.postgres.archiving import PostgresArchiving
    from oncue.engines.postgres.forgetting import PostgresForgetting
    from oncue.engines.postgres.jobs import PostgresJobs
    from oncue.engines.postgres.maintenance import PostgresMaintenance
    from oncue.engines.postgres.objects import PostgresObjects
    from oncue.engines.postgres.running import PostgresRunning
    from oncue.engines.sqlite.archiving import SqliteArchiving
    from oncue.engines.sqlite.forgetting import SqliteForgetting
    from oncue.engines.sqlite.jobs import SqliteJobs
    from oncue.engines.sqlite.maintenance import SqliteMaintenance
    from oncue.engines.sqlite.objects import SqliteObjects
    from oncue.engines.sqlite.running import SqliteRunning
    from oncue.storage.objects import ObjectStorage

    when, what, *number = step.split(" ")
    owners: dict[str, list[tuple[Any, str]]] = {
        "row": [(SqliteObjects, "add"), (PostgresObjects, "add")],
        "put": [(ObjectStorage, "put")],
        "create": [(SqliteJobs, "create"), (PostgresJobs, "create")],
        "settle": [(SqliteRunning, "settle"), (PostgresRunning, "settle")],
        "get": [(ObjectStorage, "get")],
        "delete": [(ObjectStorage, "delete")],
        "rows": [(SqliteArchiving, "rows"), (PostgresArchiving, "rows")],
        "mark": [(SqliteArchiving, "mark"), (PostgresArchiving, "mark")],
        "position": [(SqliteMaintenance, "finish_turn"), (PostgresMaintenance, "finish_turn")],
        "drop": [(SqliteMaintenance, "_drop"), (PostgresMaintenance, "_drop")],
        "purge": [(SqliteJobs, "purge"), (PostgresJobs, "purge")],
        "erase": [(SqliteForgetting, "erase"), (PostgresForgetting, "erase")],
        "redact": [(SqliteForgetting, "redact"), (PostgresForgetting, "redact")],
        "finish": [(SqliteForgetting, "finish"), (PostgresForgetting, "finish")],
    }
    for owner, name in owners[what]:
        plant(owner, name, when, int(number[0]) if number else 1)


def hurry() -> None:
    """Let turns be due soon: who is killed at one delays the next process by as long as that."""
    from oncue.domain.instants import SECOND, Duration
    from oncue.services import archiving, retention, storage_cleaning

    archiving.EVERY = storage_cleaning.EVERY = Duration(SECOND)
    archiving.LOOK_INTERVAL = storage_cleaning.LOOK_INTERVAL = Duration(SECOND // 5)
    retention.MAINTAIN_INTERVAL = Duration(SECOND)
    from oncue.services import forgetting  # after the others: it takes what it needs from them

    forgetting.STILL_TRUSTED = forgetting.POLL_INTERVAL = Duration(SECOND // 5)


if os.environ.get("FAULT_QUICK"):
    hurry()
if step := os.environ.get("FAULT_STEP"):
    plant_step(step)
