"""Process-isolated runs that stop or kill the processes which watch over them, again and again, and leave a child. The
run held its place for ten seconds more than it had, and the child lived on.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.attack.stage import Stage
from tests.processes.fleet import until

from oncue import Tasks

tasks = Tasks()


@tasks.task("against_wardens", isolation="process")
def against_wardens(ctx: Any, number: int) -> None:
    subprocess.Popen(["/bin/sleep", "4321"], start_new_session=True)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    warden = os.getppid()
    while b"warden.py" not in Path(f"/proc/{warden}/cmdline").read_bytes():
        warden = int(Path(f"/proc/{warden}/stat").read_text().rpartition(")")[2].split()[1])
    while True:
        os.kill(warden, number)
        time.sleep(0.001)


def attack(stage: Stage) -> None:
    for number in (signal.SIGSTOP, signal.SIGKILL):
        runs = stage.many(2, "against_wardens", {"number": int(number)}, timeout="500ms", max_retries=0)
        assert {run["status"] for run in stage.settled(runs, 15).values()} == {"dead"}
    until(lambda: not stage.fleet.running("sleep 4321"), "no child lives on", stage.fleet.tell)
