"""A member whose one job has as many runs as they are let have: there was no bound to that, and with hundreds of
thousands nobody could pause, change or end the job any more, not even an administrator.
"""

from __future__ import annotations

import time
from typing import Any

from tests.attack.stage import Stage
from tests.processes.fleet import Json, rfc3339, until

from oncue import Tasks

BUSY = True
tasks = Tasks()
MOST = 20_000
OPTIONS = ("--quota-runs", str(MOST))
AT_ONCE = 5_000
PATIENCE = 5.0  # seconds, for an answer on a machine that has much else to do


@tasks.task("dawdle")
def dawdle(ctx: Any, n: int) -> None:
    time.sleep(0.2)


def attack(stage: Stage) -> None:
    job = stage.attacker.create("dawdle", schedule={"cron": "* * * * * *"}, overlap="allow", payload={"n": 1})
    refused = _backfill(stage, job)
    assert (refused["status"], refused["errors"][0]["code"]) == (422, "quota_exceeded"), refused
    assert "quota_runs" in refused["detail"]

    _asked(stage, "PATCH", f"/v1/jobs/{job}", {"payload": {"n": 2}})
    _asked(stage, "POST", f"/v1/jobs/{job}/pause")
    started = _started(stage)
    until(lambda: _going(stage) == 0, "what ran when it was paused has ended")
    assert _started(stage) <= started + 32, "runs start though the job is paused"
    _asked(stage, "POST", f"/v1/jobs/{job}/resume")
    _asked(stage, "DELETE", f"/v1/jobs/{job}")
    until(lambda: _going(stage) == 0, "nothing of it runs")


def _backfill(stage: Stage, job: str) -> Json:
    """Stretch by stretch, until it is refused."""
    now = time.time()
    for stretch in range(1, 3 * MOST // AT_ONCE):
        window = {"from": rfc3339(now - stretch * AT_ONCE), "to": rfc3339(now - (stretch - 1) * AT_ONCE)}
        status, answer, _ = stage.attacker.raw("POST", f"/v1/jobs/{job}/backfill", window)
        if status != 202:
            return answer
    raise AssertionError(f"more than {MOST} runs wait")


def _asked(stage: Stage, method: str, path: str, body: Json | None = None) -> None:
    began = time.monotonic()
    status, answer, _ = stage.attacker.raw(method, path, body)
    took = time.monotonic() - began
    assert status == 200, (method, path, status, answer)
    assert took < PATIENCE, (method, path, took)


def _started(stage: Stage) -> int:
    sums: int = stage.attacker.call("GET", "/stats")["runs"]["succeeded"]
    return sums


def _going(stage: Stage) -> int:
    return len(stage.attacker.call("GET", "/runs?status=running&limit=50")["runs"])
