"""A real `oncue up` applies what its code declares when it starts, and a worker only if it is told to."""

import os
import signal
from pathlib import Path

import pytest
from tests.processes.fleet import Fleet, until

pytestmark = pytest.mark.kills

CODE = """
import oncue
tasks = oncue.Tasks("shop")

@tasks.task(schedule=oncue.cron("0 9 * * 1-5", "Europe/Berlin"), payload={"to": "ops"})
def digest(to: str) -> None: ...
"""
SECOND = """
digest.using(key="digest-eu").declare("every 1h", to="eu")
"""


def write(file: Path, text: str, at: int) -> Path:
    file.write_text(text)
    os.utime(file, (at, at))
    return file


def jobs(fleet: Fleet) -> dict[str, tuple[str, str | None]]:
    return {job["key"]: (job["status"], job["schedule"].get("cron")) for job in fleet.call("GET", "/jobs")["jobs"]}


def test_a_start_applies_what_the_code_declares(fleet: Fleet) -> None:
    file = write(fleet.folder / "declaring.py", CODE + SECOND, 1_000)
    up = fleet.start("up", tasks=file)
    fleet.ready(workers=1)
    assert {key: status for key, (status, _) in jobs(fleet).items()} == {"digest": "active", "digest-eu": "active"}
    fleet.call("POST", f"/jobs/{fleet.call('GET', '/jobs/by-key/digest')['job_id']}/pause")

    newer = write(file, CODE.replace("0 9", "30 8"), 2_000)
    quiet, applying = fleet.start("worker", tasks=newer), fleet.start("worker", "--apply", tasks=newer)
    fleet.ready(workers=3)
    until(lambda: "cancelled" in str(jobs(fleet)), "the schedule that is gone is pruned", fleet.tell)

    assert jobs(fleet)["digest"] == ("paused", "30 8 * * 1-5")
    assert "schedule_applied" not in quiet.said
    assert "digest: at 08:30, Monday to Friday" in applying.said
    for member in (up, quiet, applying):
        member.send(signal.SIGTERM)
    assert [member.ended() for member in (up, quiet, applying)] == [0, 0, 0]
