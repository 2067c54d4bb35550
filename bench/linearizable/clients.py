"""Clients that call one key at once, over HTTP, and write down what they asked and what they were answered."""

from __future__ import annotations

import http.client
import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from random import Random
from threading import Lock, Thread
from typing import Any

from bench.linearizable.choosing import SCHEDULES, Told, choose
from bench.linearizable.model import Call, Job, Kind

ANSWERED_WITHIN = 15.0  # seconds
PAUSE = 0.05  # seconds after a call without an answer
KNOWN = (200, 201, 202, 404, 409, 412)
UNAVAILABLE = 503
GAVE_UP = "kept changing"  # a refusal that says nothing of the job: others were faster each time
Headers = dict[str, str]


class NotSent(Exception):
    """Nobody listens: the call did not happen."""


class Unexpected(Exception):
    """An answer that no call here has."""


class Door:
    """A server as one client reaches it, on a connection of its own."""

    def __init__(self, port: int, key: str) -> None:
        self._key = key
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWERED_WITHIN)

    def ask(self, method: str, path: str, body: Any, headers: Headers) -> tuple[int, Any, str | None]:
        """Return status, answer and ETag. OSError, HTTPException: whether it had an effect is unknown."""
        sent = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json", **headers}
        try:
            if self._connection.sock is None:
                try:
                    self._connection.connect()
                except ConnectionRefusedError:
                    raise NotSent from None
            self._connection.request(method, path, None if body is None else json.dumps(body), sent)
            answer = self._connection.getresponse()
            return answer.status, json.loads(answer.read() or b"null"), answer.headers["ETag"]
        except BaseException:
            self._connection.close()
            raise

    def close(self) -> None:
        self._connection.close()


class CalledKey:
    """A key, the calls on it, and how many there were of each outcome."""

    def __init__(self, name: str, calls: int) -> None:
        self._path = f"/v1/jobs/by-key/{name}"
        self._left = iter(range(calls))
        self._numbers = count()
        self._lock = Lock()
        self._told = Told()
        self._failed: list[Exception] = []
        self.calls: list[Call] = []
        self.counts: Counter[str] = Counter()

    def call(self, doors: Sequence[Callable[[], Door]], clients: int, seed: str) -> None:
        """Let so many clients call these servers at once."""
        threads = [
            Thread(target=self._client, args=(number, doors, Random(f"{seed} {number}"))) for number in range(clients)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._failed:
            raise self._failed[0]

    def _client(self, number: int, doors: Sequence[Callable[[], Door]], chance: Random) -> None:
        """Call one server, and the other while nobody listens there."""
        opened = [door() for door in doors]
        try:
            turn = number % len(opened)
            while True:
                with self._lock:
                    if next(self._left, None) is None:
                        return
                    call = choose(chance, self._told, next(self._numbers))
                while not self._make(call, opened[turn]):
                    turn = (turn + 1) % len(opened)
                    time.sleep(PAUSE)
        except Exception as error:
            self._failed.append(error)
        finally:
            for door in opened:
                door.close()

    def read_all(self, door: Door) -> None:
        """Read what was acknowledged to the last, so that nothing is lost unseen."""
        for job_id in (None, *self._told.jobs):
            kind = Kind.READ_KEY if job_id is None else Kind.READ
            while not self._made(Call(next(self._numbers), kind, 0, job_id=job_id), door).known:
                time.sleep(PAUSE)
        door.close()

    def _make(self, call: Call, door: Door) -> bool:
        """Make a call; False: nobody listens."""
        try:
            made = self._made(call, door)
        except NotSent:
            self.counts["not sent"] += 1
            return False
        if not made.known:
            time.sleep(PAUSE)
        return True

    def _made(self, call: Call, door: Door) -> Call:
        request = _request(call, self._path)
        call = call._replace(invoked=time.monotonic_ns())
        status, answer, etag = 0, dict[str, Any](), None
        with suppress(OSError, http.client.HTTPException):
            status, answer, etag = door.ask(*request)
        if status in KNOWN:
            call = _answered(call, time.monotonic_ns(), status, answer, etag)
        elif status not in (0, UNAVAILABLE):
            raise Unexpected(f"{status} {answer} to {call}")
        with self._lock:
            self.counts["ok" if 0 < call.status < 400 else "refused" if call.known else "unknown"] += 1
            if call.status == 409 and GAVE_UP in answer["detail"]:
                self.counts["gave up"] += 1
                return call
            self.calls.append(call)
            self._told.learn(call)
        return call


def _request(call: Call, by_key: str) -> tuple[str, str, Any, Headers]:
    path, headers = f"/v1/jobs/{call.job_id}", dict[str, str]()
    if call.match is not None:
        of = "" if call.match.job_id is None else f"-{call.match.job_id[-8:]}"
        headers["If-Match"] = f'"{call.match.version}{of}"'
    if call.must_be_new:
        headers["If-None-Match"] = "*"
    body: dict[str, Any] = {"payload": {"p": call.payload}}
    if call.schedule is not None:
        body["schedule"] = call.schedule
    match call.kind:
        case Kind.PUT:
            return "PUT", by_key, {"task": "mark", **body}, headers
        case Kind.PATCH:
            return "PATCH", path, body, headers
        case Kind.RUN:
            return "POST", f"{path}/runNow", None, {"Idempotency-Key": call.idempotency_key}
        case Kind.PAUSE | Kind.RESUME:
            return "POST", f"{path}/{call.kind}", None, {}
        case Kind.DELETE:
            return "DELETE", path, None, {}
        case Kind.READ:
            return "GET", path, None, {}
        case Kind.READ_KEY:
            return "GET", by_key, None, {}


def _answered(call: Call, now: int, status: int, answer: Any, etag: str | None) -> Call:
    call = call._replace(returned=now, status=status)
    if status == 202:
        return call._replace(run_id=answer["run_id"])
    if status >= 400:
        return call
    if etag != f'"{answer["version"]}-{answer["job_id"][-8:]}"':
        raise Unexpected(f"the ETag {etag} of {answer}")
    schedule = SCHEDULES[0] if "every" in answer["schedule"] else SCHEDULES[1]
    shown = Job(answer["job_id"], answer["version"], answer["status"], answer["payload"]["p"], schedule)
    return call._replace(shown=shown)
