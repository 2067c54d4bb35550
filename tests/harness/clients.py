"""Clients that do what the plan says, over HTTP, with the Python client and on the command line.

Each keeps asking until it has an answer, with the same idempotency key where the call takes one, and remembers when it
first asked and when it was answered: in between, anything may be the case.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.harness.plan import CLIENTS, SPLAY, Act, Json, Wish
from tests.harness.stage import Stage
from tests.processes.fleet import COMMAND, rfc3339

from oncue.client import Client, ClientError, OncueApiError

ANSWER_WITHIN = 8.0
GIVEN_UP_AFTER = 120.0
PAUSE = 0.25
UNANSWERED = (OSError, http.client.HTTPException, TimeoutError)
FINAL = frozenset({"succeeded", "dead", "cancelled", "expired"})


@dataclass(frozen=True)
class Call:
    """One act as its client saw it. Status 0: there never was an answer."""

    act: Act
    sent: float
    answered: float
    status: int
    answer: Json
    tries: int

    def __str__(self) -> str:
        told = {name: self.answer.get(name) for name in ("job_id", "run_id", "status", "detail") if name in self.answer}
        return f"{self.act.verb}: sent {self.sent:.3f}, answered {self.answered:.3f} ({self.status}) {told}"


@dataclass(frozen=True)
class Seen:
    """What an API said of a run."""

    asked: float
    answered: float
    status: str
    attempt: int


@dataclass
class Known:
    """What clients know: the model that the judge compares with."""

    wishes: Sequence[Wish]
    began: float = 0.0
    ends: float = 0.0  # of schedules
    job_ids: dict[int, str] = field(default_factory=dict)  # by the number of the wish
    calls: dict[int, list[Call]] = field(default_factory=dict)
    seen: dict[str, list[Seen]] = field(default_factory=dict)

    def wish_of(self, job_id: str) -> int | None:
        return next((number for number, one in self.job_ids.items() if one == job_id), None)


class Clients:
    """A thread for each client, and one for each API that looks at all runs again and again."""

    def __init__(self, stage: Stage, hooks: str) -> None:
        self.known = Known(stage.plan.wishes)
        self._stage = stage
        self._hooks = hooks
        self._key = stage.fleet.key
        self._ports = [place.fleet.port for place in stage.doors]
        self._enough = threading.Event()
        self._turns = itertools.count()

    def begin(self) -> None:
        """Create the recurring jobs, which begin a second later, all at once."""
        self.known.began = float(int(self._stage.now()) + 2)
        self.known.ends = self.known.began + round(self._stage.plan.seconds) + 0.6
        for number, wish in enumerate(self._stage.plan.wishes):
            if wish.schedule is not None:
                self._do(Act(0.0, 0, "create", number))

    @contextmanager
    def going(self) -> Iterator[None]:
        threads = [threading.Thread(target=self._client, args=(number,)) for number in range(CLIENTS)]
        watchers = [threading.Thread(target=self._watch, args=(port,)) for port in self._ports]
        for thread in (*threads, *watchers):
            thread.start()
        try:
            yield
            for thread in threads:
                thread.join()
        finally:
            self._enough.set()
            for thread in (*threads, *watchers):
                thread.join()

    def _client(self, number: int) -> None:
        for act in self._stage.plan.acts:
            if act.client == number and not self._enough.is_set():
                time.sleep(max(0.0, self.known.began + act.at - self._stage.now()))
                self._do(act)

    # ------------------------------------------------------------------------------------------------------- one act

    def _do(self, act: Act) -> None:
        if act.verb != "create" and act.wish not in self.known.job_ids:
            return  # it was refused
        sent = self._stage.now()
        status, answer, tries = 0, Json(), 0
        while not status and self._stage.now() - sent < GIVEN_UP_AFTER:
            tries += 1
            status, answer = self._once(act)
            if not status and self._enough.wait(PAUSE):
                break
        call = Call(act, sent, self._stage.now(), status, answer, tries)
        self.known.calls.setdefault(act.wish, []).append(call)
        if act.verb == "create" and 200 <= status < 300:
            self.known.job_ids[act.wish] = answer["job_id"]

    def _once(self, act: Act) -> tuple[int, Json]:
        """An answer, or status 0: nothing is known then."""
        port = self._ports[next(self._turns) % len(self._ports)]
        if act.wish % 3 == 1 and act.verb in ("create", "cancel", "run now"):
            return self._with_client(port, act)
        if act.wish % 7 == 0 and act.verb == "cancel":
            return self._typed(port, act)
        method, path, body = self._request(act)
        return self._asked(port, method, path, body, f"{act.verb} {act.wish} {act.at}")

    def _request(self, act: Act) -> tuple[str, str, Json | None]:
        if act.verb == "create":
            return "POST", "/v1/jobs", self._body(act)
        job_id = self.known.job_ids[act.wish]
        match act.verb:
            case "cancel":
                return "DELETE", f"/v1/jobs/{job_id}", None
            case "cancel run":
                return "POST", f"/v1/runs/{job_id}/cancel", None
            case "pause":
                return "POST", f"/v1/jobs/{job_id}/pause", None
            case "resume":
                return "POST", f"/v1/jobs/{job_id}/resume", act.values
            case "run now":
                return "POST", f"/v1/jobs/{job_id}/runNow", None
            case "edit":
                return "PATCH", f"/v1/jobs/{job_id}", act.values
        raise AssertionError(act.verb)

    def _body(self, act: Act) -> Json:
        wish = self._stage.plan.wishes[act.wish]
        body = {"task": wish.task, "payload": wish.payload, "name": f"job {act.wish}: {wish.kind}", **wish.fields}
        if wish.schedule is not None:
            span = {"start_at": rfc3339(self.known.began + SPLAY), "end_at": rfc3339(self.known.ends)}
            body["schedule"] = {**wish.schedule, **span}
        elif wish.after is not None:
            body["schedule"] = f"in {round(wish.after * 1_000)}ms"
        elif wish.delay is not None:
            body["schedule"] = rfc3339(wanted(self.known, act, wish))
        if wish.notify is not None:
            event, target = wish.notify
            body["notify"] = [{"on": [event], "webhook": f"{self._hooks}/{target}"}]
        return body

    def _asked(self, port: int, method: str, path: str, body: Json | None, key: str = "") -> tuple[int, Json]:
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        if key:
            headers["Idempotency-Key"] = key
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_WITHIN)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            said = json.loads(answer.read() or b"null")
        except UNANSWERED:
            return 0, {}
        finally:
            connection.close()
        return (0, {}) if answer.status in (429, 502, 503, 504) else (answer.status, said)

    def _with_client(self, port: int, act: Act) -> tuple[int, Json]:
        try:
            with Client(f"http://127.0.0.1:{port}", self._key, ANSWER_WITHIN, retry_for=5) as client:
                match act.verb:
                    case "create":
                        made = client.jobs.create(idempotency_key=f"create {act.wish}", **self._body(act))
                        return 201, {"job_id": str(made.job_id), "status": made.status}
                    case "run now":
                        job = self.known.job_ids[act.wish]
                        run = client.jobs.run_now(job, idempotency_key=f"run {act.wish} {act.at}")
                        return 202, {"run_id": str(run.run_id)}
                    case _:
                        gone = client.jobs.cancel(self.known.job_ids[act.wish])
                        return 200, {"job_id": str(gone.job_id), "status": gone.status}
        except OncueApiError as refused:
            return (0, {}) if refused.status in (429, 502, 503, 504) else (refused.status, {"detail": refused.detail})
        except ClientError:
            return 0, {}

    def _typed(self, port: int, act: Act) -> tuple[int, Json]:
        words = [*COMMAND, "jobs", "cancel", self.known.job_ids[act.wish], "--yes", "--json"]
        environment = {**os.environ, "ONCUE_API_KEY": self._key, "ONCUE_URL": f"http://127.0.0.1:{port}"}
        where = self._stage.fleet.folder
        done = subprocess.run(words, capture_output=True, text=True, cwd=where, env=environment)
        return (200, json.loads(done.stdout)) if done.returncode == 0 else (0, {})

    # ------------------------------------------------------------------------------------------------------- watching

    def _watch(self, port: int) -> None:
        """One page of all runs after the other, so that what is seen later was asked for later."""
        while not self._enough.wait(0.4):
            asked = self._stage.now()
            status, page = self._asked(port, "GET", "/v1/runs?limit=1000", None)
            answered = self._stage.now()
            for run in page["runs"] if status == 200 else ():
                seen = Seen(asked, answered, run["status"], run["attempt_number"])
                before = self.known.seen.setdefault(run["run_id"], [])
                if not before or before[-1].status != seen.status or seen.status not in FINAL:
                    before.append(seen)


def wanted(known: Known, act: Act, wish: Wish) -> float:
    """The instant that a one-shot is asked for."""
    return round(known.began + act.at + (wish.delay or 0.0), 3)
