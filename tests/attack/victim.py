"""A user whose jobs come steadily, whatever others do; and what went wrong with them."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from math import log10
from threading import Event, Thread

from tests.processes.fleet import Fleet, Json, moment, rfc3339, until

EVERY = 0.1  # seconds between two jobs
AHEAD = 1.0  # seconds from a job's creation to its instant
ON_TIME = 10.0  # seconds; what is to be seen here takes a lease or more, and the machine may be busy
# A process is started for some of them only: two cores have much to do with them.
TASKS = ("victim_loop", "victim_thread", "victim_loop", "victim_thread", "victim_process")


class Victim:
    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.token = secrets.token_hex(8)  # in every secret of theirs
        self.problems: list[str] = []
        self._secrets: dict[str, str] = {}  # by run
        self._enough = Event()
        self._thread = Thread(target=self._live, name="the victim", daemon=True)

    def begin(self) -> None:
        """Returns when runs have begun to succeed."""
        self._thread.start()
        until(self._has_begun, "the victim's first runs have succeeded", self.fleet.tell)

    def end(self) -> list[str]:
        """What was wrong with the runs, once the last has had its time."""
        self._enough.set()
        self._thread.join(60)
        last = time.monotonic() + AHEAD + ON_TIME
        for run_id, secret in self._secrets.items():
            self._judge(self._at_rest(run_id, last), secret)
        return [f"{count} × {problem}" for problem, count in Counter(self.problems).most_common()]

    def _live(self) -> None:
        number = 0
        while not self._enough.wait(EVERY):
            began = time.monotonic()
            try:
                self._create(TASKS[number % len(TASKS)])
            except Exception as error:
                self.problems.append(f"a job could not be created: {type(error).__name__}: {error}"[:500])
            if (took := time.monotonic() - began) > ON_TIME:
                self.problems.append(f"to create a job took {took:.0f} s")
            number += 1

    def _create(self, task: str) -> None:
        secret = f"{self.token}-{secrets.token_hex(4)}"
        job = {"task": task, "payload": {"secret": secret}, "schedule": {"at": rfc3339(time.time() + AHEAD)}}
        status, answer, _ = self.fleet.raw("POST", "/v1/jobs", {**job, "on_lost": "dead"}, timeout=20)
        if status != 201:
            raise RuntimeError(f"{status} {answer}")
        self._secrets[answer["job_id"]] = secret

    def _has_begun(self) -> bool:
        """One of each kind has run: what is started with the first is there."""
        seen = [self.fleet.run(run_id)["status"] for run_id in list(self._secrets)[: len(TASKS)]]
        return len(seen) == len(TASKS) and set(seen) == {"succeeded"}

    def _at_rest(self, run_id: str, last: float) -> Json:
        while (run := self.fleet.run(run_id))["status"] != "succeeded" and time.monotonic() < last:
            time.sleep(0.05)
        return run

    def _judge(self, run: Json, secret: str) -> None:
        kind = run["task"]
        if run["status"] != "succeeded":
            self.problems.append(f"a run of {kind} is {run['status']}: {run['error_type']} {run['error_message']}")
            return
        if (late := moment(run["start_time"]) - moment(run["scheduled_for"])) > ON_TIME:
            self.problems.append(f"a run of {kind} was more than {10 ** int(log10(late))} s late")
        if len(run["attempts"]) != 1:
            self.problems.append(f"a run of {kind} was started {len(run['attempts'])} times")
        if run["result"] != secret:
            self.problems.append(f"a run of {kind} has another's result")
        if (said := self.fleet.text(f"/runs/{run['run_id']}/logs")) != secret + "\n":
            self.problems.append(f"a run of {kind} has another's log: {said[:200]!r}")
