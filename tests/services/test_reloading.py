"""Files that change restart the worker, once for each time that somebody saves."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oncue.domain.instants import SECOND, Duration
from oncue.executors.task_files import TaskFiles
from oncue.services.reloading import INTERVAL, MOMENT, Reloading, woken_by_changes
from oncue.services.taken_queues import TakenQueues
from oncue.testing.clock import FakeClock


class Supervisor:
    def __init__(self) -> None:
        self.reloads = 0
        self.acts: list[Callable[[], None]] = []
        self.tasks = ("one", "two")
        self.queues = TakenQueues(("default", "mail"))

    def reload(self) -> None:
        self.reloads += 1

    def then(self, act: Callable[[], None]) -> None:
        self.acts.append(act)


async def test_a_reload_waits_until_nothing_more_is_written(tmp_path: Path, logged: list[Any]) -> None:
    file, supervisor, clock = tmp_path / "tasks.py", Supervisor(), FakeClock()
    file.write_text("")
    reloading = Reloading(TaskFiles([str(file)]), supervisor, clock)  # type: ignore[arg-type]
    assert await reloading.run_once() == INTERVAL

    for text in ("1", "12"):
        file.write_text(text)
        assert await reloading.run_once() == MOMENT
    assert supervisor.reloads == 0
    assert await reloading.run_once() == INTERVAL
    assert await reloading.run_once() == INTERVAL
    assert supervisor.reloads == 1

    await clock.advance(Duration(2 * SECOND))
    for _ in range(2):  # the second one replaced a worker that crashed
        supervisor.acts[0]()
    assert [line["kind"] for line in logged] == ["reload", "reloaded"]
    assert logged[0]["files"] == ["tasks.py"]
    assert (logged[1]["seconds"], logged[1]["tasks"]) == (2, 2)


async def test_what_the_new_code_declares_is_applied_once_after_each_reload(tmp_path: Path) -> None:
    file, supervisor, applied = tmp_path / "tasks.py", Supervisor(), list[int]()
    file.write_text("")

    async def apply() -> None:
        applied.append(supervisor.reloads)

    reloading = Reloading(TaskFiles([str(file)]), supervisor, FakeClock(), apply)  # type: ignore[arg-type]
    supervisor.acts[0]()  # the first worker: `up` applies what that declares
    for text in ("1", "12"):
        file.write_text(text)
        for _ in range(3):
            await reloading.run_once()
        supervisor.acts[0]()
        for _ in range(2):
            await reloading.run_once()

    assert applied == [1, 2]


async def test_with_watchfiles_a_change_is_noticed_at_once(tmp_path: Path) -> None:
    pytest.importorskip("watchfiles")
    woken = asyncio.Event()
    async with woken_by_changes([tmp_path, tmp_path / "missing"], woken.set), asyncio.timeout(60):
        number = 0
        while not woken.is_set():  # it may not watch yet
            number += 1
            (tmp_path / f"{number}.py").write_text("")
            await asyncio.sleep(0.1)
