"""Where an attack takes place: a real server, a victim with a steady load, and an attacker who is a member."""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType

from tests.attack.victim import Victim
from tests.processes.fleet import DEADLINE, Fleet, Json, Member, until

ROOT = Path(__file__).parents[2]
VICTIM_TASKS = Path(__file__).with_name("victim_tasks.py")
OPTIONS = ("--processes", "4")


class Stage:
    """What a case's `attack` gets."""

    def __init__(self, fleet: Fleet, case: ModuleType) -> None:
        self.fleet = fleet  # an admin's view
        self.fleet.code = ROOT  # a case with hostile tasks imports from here, too
        self.server = self._start(case)
        self.attacker = fleet.as_user("mallory")
        self.victim = Victim(fleet.as_user("victim"))

    def _start(self, case: ModuleType) -> Member:
        tasks = ["--tasks", str(case.__file__)] if hasattr(case, "tasks") else []
        said = case.stderr() if hasattr(case, "stderr") else None
        options = (*OPTIONS, *tasks, *getattr(case, "OPTIONS", ()))
        server = self.fleet.start(
            "up", *options, tasks=VICTIM_TASKS, stderr=said, env=getattr(case, "ENVIRONMENT", None)
        )
        self.fleet.ready(workers=1)
        return server

    def during(self, seconds: float) -> Iterator[float]:
        """Keep at it: yields the seconds that are left, until none is."""
        over = time.monotonic() + seconds
        while (left := over - time.monotonic()) > 0:
            yield left

    def many(self, count: int, task: str, payload: Json | None = None, **job: object) -> list[str]:
        """So many jobs of the attacker's; their ids."""
        jobs = [{"task": task, "payload": payload or {}, **job} for _ in range(count)]
        made: list[str] = self.attacker.call("POST", "/jobs/batch", {"jobs": jobs})["job_ids"]
        return made

    def connect(self) -> socket.socket:
        """A socket to the API, without a word."""
        return socket.create_connection(("127.0.0.1", self.fleet.port), timeout=10)

    # ----------------------------------------------------------------------------------------------- what must be true

    def problems(self) -> list[str]:
        """What is wrong after the attack: with the victim's runs, with what the attacker can see, with the server."""
        found = self.victim.end()
        if self.victim.token in self._seen_by_the_attacker():
            found.append("the attacker has seen what is the victim's")
        if self.server.process.poll() is not None:
            found.append(f"the server has ended with exit code {self.server.process.returncode}")
        elif self.fleet.raw("GET", "/readyz")[0] != 200:
            found.append("the server is not ready")
        return found

    def _seen_by_the_attacker(self) -> str:
        with suppress(OSError, http.client.HTTPException):
            jobs = self.attacker.text("/jobs?limit=100")
            runs = self.attacker.call("GET", "/runs?limit=100")
            logs = [self.attacker.text(f"/runs/{run['run_id']}/logs") for run in runs["runs"]]
            return "\n".join([jobs, str(runs), *logs])
        return ""

    def settled(self, run_ids: list[str], within: float = DEADLINE) -> dict[str, Json]:
        """The attacker's runs, once all have ended: also theirs must not hang."""
        return self.attacker.at_rest(run_ids, within)

    def ends(self, *pids: int) -> None:
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), f"{pids} have ended")
