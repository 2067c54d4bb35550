"""`oncue dev`: saving a file restarts the worker, and nothing that ran is lost or counted."""

from __future__ import annotations

import pytest
from tests.processes.fleet import Fleet, until

pytestmark = pytest.mark.kills

TASKS = """
import asyncio
import oncue

tasks = oncue.Tasks()


@tasks.task
async def version() -> int:
    return 1


@tasks.task(max_retries=0)
async def waits() -> int:
    await asyncio.sleep({length})
    return 1
"""


def test_a_save_restarts_the_worker_and_its_run_goes_on_with_the_new_code(fleet: Fleet) -> None:
    file = fleet.folder / "code" / "tasks.py"
    file.parent.mkdir()
    text = TASKS.format(length=600)
    file.write_text(text)
    member = fleet.start("dev", "--tasks", str(file), "--port", str(fleet.port))
    fleet.ready(workers=1)
    waiting = fleet.create("waits")
    until(lambda: fleet.run(waiting)["status"] == "running", "it runs", fleet.tell)

    file.write_text(text + "def x(:\n")
    until(lambda: "line 17: def x(:" in member.said, "the line is named", fleet.tell)
    assert fleet.run(waiting)["status"] == "queued", "the API answers without a worker"
    file.write_text(TASKS.format(length=0).replace("return 1", "return 2"))
    new = fleet.create("version")
    ended = fleet.at_rest([waiting, new])

    assert [(run["status"], run["result"]) for run in ended.values()] == [("succeeded", 2)] * 2
    assert len(ended[waiting]["attempts"]) == 1, "what the reload stopped is no attempt"
    said = member.said
    for words in ("reload: tasks.py changed", "0 finished, 1 returned to the queue", "waits (", "succeeded in"):
        assert words in said
