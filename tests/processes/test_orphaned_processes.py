"""A role that is process 1, as in a container, or was told to: what killed workers leave behind does not pile up."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess

import pytest
from tests.processes.fleet import Fleet, children_of, read_proc, until

pytestmark = pytest.mark.kills

AS_PROCESS_1 = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")


def worker_of(oncue: int) -> int | None:
    return next((pid for pid in children_of(oncue) if b"oncue.app\0worker" in read_proc(pid, "cmdline")), None)


def zombies_of(oncue: int) -> list[int]:
    return [pid for pid in children_of(oncue) if read_proc(pid, "stat").rpartition(b")")[2].split()[:1] == [b"Z"]]


@pytest.mark.parametrize(
    ("under", "options"), [(AS_PROCESS_1, ()), ((), ("--reap",))], ids=["as process 1", "when told to"]
)
def test_killed_workers_leave_no_zombies(fleet: Fleet, under: tuple[str, ...], options: tuple[str, ...]) -> None:
    if under and (shutil.which("unshare") is None or subprocess.run([*under, "true"], check=False).returncode):
        pytest.skip("this user may not make a PID namespace")
    member = fleet.start("up", *options, under=under)
    fleet.ready(workers=1)
    oncue = children_of(member.pid)[0] if under else member.pid
    for _ in range(2):
        fleet.started(fleet.create("in_process", {"seconds": 60}))
        killed = worker_of(oncue)
        assert killed is not None
        os.kill(killed, signal.SIGKILL)
        until(lambda dead=killed: worker_of(oncue) not in (None, dead), "another worker is there", fleet.tell)

    until(lambda: not zombies_of(oncue), "no zombie is left", lambda: str(zombies_of(oncue)))
    assert fleet.raw("GET", "/readyz")[0] == 200
