"""A server that may open nothing more, and a worker that dies just then: another is started as soon as it can be."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path

import pytest
from tests.processes.fleet import Fleet, alive, until

pytestmark = pytest.mark.kills


def test_a_worker_that_cannot_be_replaced_now_is_replaced_later(fleet: Fleet) -> None:
    up = fleet.up()
    inner = up.inner
    assert inner
    before = resource.prlimit(up.pid, resource.RLIMIT_NOFILE)
    assert before[0] == before[1]  # as many as the system allows
    taken = len(list(Path(f"/proc/{up.pid}/fd").iterdir()))
    resource.prlimit(up.pid, resource.RLIMIT_NOFILE, (taken - 2, before[1]))  # the dead worker's channel is closed

    os.kill(inner, signal.SIGKILL)
    until(lambda: "worker_not_started" in up.said, "the keeper has tried", fleet.tell)
    assert not alive(inner)
    resource.prlimit(up.pid, resource.RLIMIT_NOFILE, before)

    run = fleet.create("mark")
    assert fleet.at_rest([run])[run]["status"] == "succeeded"
    assert up.said.count("worker_not_started") == 1
