"""Follow a stream of events and resume it after an interruption. Shared by both clients, without the network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from oncue.client.asking import PASSING, Asker, Exchange, RetryPolicy
from oncue.client.call import Answer, Call, get, nothing, path
from oncue.client.errors import NotOncue, ServerUnreachable
from oncue.client.naming import JobRef, RunRef, job_id_of, run_id_of
from oncue.shapes.events import ChangedJob
from oncue.shapes.runs import Run

T = TypeVar("T")


def events(
    asker: Asker, job: JobRef | None, run: RunRef | None, types: Sequence[str] | None, *, pulse: bool
) -> Exchange[Call[None]]:
    """Build the call of a stream: of everything, or of one job or run; only of these types of events."""
    narrowed = {
        "job_id": None if job is None else (yield from job_id_of(asker, job)),
        "run_id": None if run is None else (yield from run_id_of(asker, run)),
        "types": None if types is None else ",".join(types),
    }
    return get(path("events"), nothing, **narrowed, pulse="true" if pulse else None)


MEDIA_TYPE = "text/event-stream"
LONGEST_SILENCE = 60.0  # seconds; servers send a keep-alive more often than this


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something changed. `kind` says what about: `run`, `job`, `dead`, `worker`, `queue`, `pulse` or `resync`.

    Later servers may send others: ignore those that you do not know. `data` is the JSON that came with it.
    """

    kind: str
    id: str | None = None
    data: Any = None

    @property
    def run(self) -> Run | None:
        """The run that it is about, as a list shows it, but without its result and attempts; None: about none."""
        if self.kind == "dead" and isinstance(self.data, dict):
            return _read({**self.data, "status": "dead"}, Run)
        return _read(self.data, Run) if self.kind == "run" else None

    @property
    def job(self) -> ChangedJob | None:
        """The job that was created or changed; None: it is about something else."""
        return _read(self.data, ChangedJob) if self.kind == "job" else None

    @property
    def resync(self) -> bool:
        """Changes may have been missed before this one: read anew whatever you keep a copy of."""
        return self.kind == "resync"


class Following:
    """The position in a stream, and what to do when it breaks."""

    def __init__(self, call: Call[None], last_event_id: str | None, retry_policy: RetryPolicy) -> None:
        self._call = call
        self._last = last_event_id
        self._retry_policy = retry_policy
        self._failures = 0  # in a row, of connecting
        self._fruitless = 0  # connections in a row without an event
        self._began = False

    def headers(self) -> dict[str, str]:
        return {} if self._last is None else {"Last-Event-ID": self._last}

    def connected(self, media_type: str) -> tuple[Event, ...]:
        """Note a new connection. Returns a `resync` if the position is unknown, so that events may be missing.

        NotOncue: the answer is not a stream of events, but for instance the page of a proxy.
        """
        if media_type.partition(";")[0].strip().lower() != MEDIA_TYPE:
            raise NotOncue(f"GET {self._call.path} returned {media_type or 'no content type'} instead of events.")
        self._failures = 0
        unsure = self._began and self._last is None
        self._began = True
        return (Event(kind="resync"),) if unsure else ()

    def heard(self, kind: str, data: str, event_id: str) -> tuple[Event, ...]:
        """Note one message. A message without data is not an event; it only carries the position."""
        if event_id:
            self._last = event_id
        if not data:
            return ()
        self._fruitless = 0
        return (Event(kind=kind, id=event_id or None, data=_decoded(data)),)

    def refused(self, answer: Answer) -> float:
        """Return the seconds to pause; raises the error of the answer if a retry does not help."""
        if answer.status not in PASSING:
            self._call.read(answer)
        return self.broken(f"status {answer.status}", answer.retry_after)

    def broken(self, why: str, at_least: float | None = None) -> float:
        """Return the seconds to pause before the next retry. ServerUnreachable: it failed too often in a row."""
        self._failures += 1
        self._fruitless += 1
        if self._failures > self._retry_policy.retries:
            raise ServerUnreachable(self._retry_policy.url, why, sent=False)
        return self._retry_policy.gap(self._fruitless, at_least)


def _read(data: Any, kind: type[T]) -> T | None:
    """Read the data of an event. None: a server of another version tells it otherwise; `data` has it as it came."""
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError:
        return None


def _decoded(data: str) -> Any:
    """Decode JSON; other data stays text."""
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        return data
