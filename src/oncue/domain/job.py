"""Jobs: what a user defined. Only users write the definition (`Spec`), only schedulers the `Cursor`."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from enum import StrEnum
from functools import cache
from typing import Any

import msgspec

from oncue.domain.ids import ClassId, JobId, RunId, UserNumber, lane_key
from oncue.domain.instants import HOUR, Duration, Instant
from oncue.domain.lane import Concurrency, Held, Lanes, RateBucket, lanes_of
from oncue.domain.notify import Entry
from oncue.domain.placement import ClassKey, Priority, Resources
from oncue.domain.policy import CatchUp, OnLeftBehind, OnLost, Overlap, Retry
from oncue.domain.reference import read_reference
from oncue.domain.schedule import Schedule
from oncue.domain.secret_refs import SecretAccess
from oncue.domain.trace import Trace
from oncue.shapes.jobs import PlainFields


class JobStatus(StrEnum):
    ACTIVE = "active"
    PAUSED = "paused"
    FINISHED = "finished"
    CANCELLED = "cancelled"


class Rate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """At most `limit` starts in any window of `per`, over all of a user's jobs with this key (default: the task)."""

    limit: int
    per: Duration
    key: str | None = None


class Spec(PlainFields, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A checked definition, without its payload. Stored as JSON; default values are not written.

    Here are the fields whose stored form differs from the one that is sent; their types say how.
    """

    task: str
    schedule: Schedule = Schedule()
    priority: Priority = Priority.NORMAL
    retry: Retry = Retry()
    timeout: Duration = HOUR
    overlap: Overlap = Overlap.QUEUE
    catch_up: CatchUp = CatchUp.LAST
    catch_up_window: Duration = HOUR
    start_within: Duration | None = None
    on_lost: OnLost = OnLost.RERUN
    on_left_behind: OnLeftBehind = OnLeftBehind.HOLD
    concurrency: Concurrency | None = None
    rate: Rate | None = None
    resources: Resources = Resources()
    notify: tuple[Entry, ...] | None = None  # None: the user's default
    trace: Trace | None = None  # of the request that created or last changed the job; no part of what users define
    secrets: SecretAccess | None = None  # whose secrets its runs may use, if its payload names any; as trace
    # fields of a newer oncue that this one cannot read, by name, as stored; encoded back under their own names
    unknown: tuple[tuple[str, bytes], ...] = msgspec.field(default=(), name="")

    @property
    def not_understood(self) -> tuple[str, ...]:
        """Return the known fields whose values are unknown here: their attributes hold defaults instead."""
        return tuple(name for name, _ in self.unknown if name in _READERS)

    @property
    def class_key(self) -> ClassKey:
        return ClassKey(
            self.task, self.queue, self.priority, tuple(sorted(set(self.labels))), self.resources.size_class()
        )

    @property
    def holds(self) -> bool:
        """Whether no other run may start beside a function that does not stop when told to."""
        exclusive = self.group is not None or self.concurrency is not None
        return exclusive and self.on_left_behind is OnLeftBehind.HOLD

    def lanes(self, uid: UserNumber, job_id: JobId) -> Lanes:
        return lanes_of(
            uid,
            job_id,
            recurring=self.schedule.recurring,
            overlap=self.overlap,
            group=self.group,
            concurrency=self.concurrency,
            meter=self._meter(uid),
        )

    def _meter(self, uid: UserNumber) -> RateBucket | None:
        if self.rate is None:
            return None
        return RateBucket(lane_key("rate", uid, self.rate.key or self.task), self.rate.limit, self.rate.per)


_encode = msgspec.json.Encoder().encode
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_READERS = {field.name: msgspec.json.Decoder(field.type) for field in msgspec.structs.fields(Spec) if field.encode_name}

# For code that acts on a definition. ValidationError: a newer oncue wrote it and has to act; other errors: damage.
understand_spec = msgspec.json.Decoder(Spec).decode


def decode_spec(stored: bytes) -> Spec:
    """Decode a definition to show it or pass it on; fields that this version cannot read are kept as stored."""
    try:
        return understand_spec(stored)
    except msgspec.ValidationError:
        return _as_far_as_understood(stored)


def _as_far_as_understood(stored: bytes) -> Spec:
    known: dict[str, Any] = {}
    unknown: list[tuple[str, bytes]] = []
    for name, raw in _fields(stored).items():
        try:
            known[name] = _READERS[name].decode(raw)
        except (KeyError, msgspec.ValidationError):
            unknown.append((name, bytes(raw)))
    if "task" not in known:
        raise msgspec.ValidationError("the definition has no task")
    return Spec(**known, unknown=tuple(unknown))


def encode_spec(spec: Spec) -> bytes:
    if not spec.unknown:
        return _encode(spec)
    known = _fields(_encode(msgspec.structs.replace(spec, unknown=())))
    return _encode(known | {name: msgspec.Raw(raw) for name, raw in spec.unknown})


def definition_of(spec: Spec, payload: bytes | None) -> bytes:
    """Return a digest of a definition. Payloads with equal values give equal digests, however they are written.

    Whatever trace a definition was sent in, and whoever is told of it, it is the same one. Two references are equal if
    the bytes of their objects are.
    """
    reference = read_reference(payload)
    written = payload or b"null" if reference is None else reference.sha256.encode()
    with suppress(msgspec.DecodeError):
        # a missing payload equals one without arguments
        written = msgspec.json.encode(msgspec.json.decode(written) or None, order="sorted")
    said = msgspec.json.encode(_said(spec), order="sorted")
    return hashlib.blake2b(said + b"\n" + written, digest_size=16).digest()


@cache
def _fields_of(kind: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """Return the stored fields. msgspec evaluates the annotations of the class each time, which takes milliseconds."""
    return tuple(field for field in msgspec.structs.fields(kind) if field.encode_name)


def _said(found: Any) -> Any:
    """Drop values that equal their defaults. Encoding drops only values that are identical to the default."""
    if not isinstance(found, msgspec.Struct):
        return found
    values = ((field, getattr(found, field.name)) for field in _fields_of(type(found)))
    said = {field.name: _said(value) for field, value in values if value != field.default}
    if isinstance(found, Spec):
        said.pop("trace", None)
        said.pop("notify", None)
        said |= {name: msgspec.json.decode(raw) for name, raw in found.unknown}  # as a version that knows them would
    return said


class Job(msgspec.Struct, frozen=True):
    """A definition with its state. `version` is the ETag: raised by edits, never by planning."""

    job_id: JobId
    uid: UserNumber
    spec: Spec
    payload: bytes | None
    created_at: Instant
    updated_at: Instant
    version: int = 1
    status: JobStatus = JobStatus.ACTIVE

    @property
    def lanes(self) -> Lanes:
        return self.spec.lanes(self.uid, self.job_id)


class Cursor(msgspec.Struct, frozen=True):
    """How far a recurring job has been planned.

    Nominal instants up to `floor` are decided for ever, and `floor` only rises: that is what makes planning exact.
    `next_at` is the first instant after it (NEVER while paused or at the end); `planned` counts towards max_runs.
    `rules` is the version of the time-zone rules that `next_at` follows from; None: it follows from none.
    """

    next_at: Instant
    floor: Instant
    planned: int = 0
    rules: str | None = None


class WaitingRun(msgspec.Struct, frozen=True):
    """The part of a waiting run that decisions about its job need."""

    run_id: RunId
    wanted: Instant
    nominal: Instant | None
    scheduled: bool  # by its schedule, and never claimed (a one-shot: never tried): an edit may withdraw it
    held: Held = Held.NO
    by_hand: bool = False  # created by a user's request, not by its schedule
    version: int = 0  # of the definition it was planned with, where the query reads it


MOST_READ = 1_000  # waiting runs in a snapshot: if there are more, changes follow in batches


class Snapshot(msgspec.Struct, frozen=True):
    """A job as read for a decision. The resulting change is guarded by these values."""

    job: Job
    class_id: ClassId
    cursor: Cursor | None  # None: a one-shot, whose definition sits in its run
    waiting: tuple[WaitingRun, ...] = ()
    going: tuple[RunId, ...] = ()  # active: running, or between two attempts
    started: bool = False  # a one-shot whose only run has had an attempt
    crowded: bool = False  # more runs wait than a snapshot holds: `waiting` has the first
