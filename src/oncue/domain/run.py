"""Runs: their states, the table of moves between them, and the values that a run carries from claim to settlement."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum, StrEnum
from typing import Any
from uuid import UUID

import msgspec

from oncue.domain.fingerprint import Fault
from oncue.domain.ids import SCHEDULE, ClassId, JobId, LaneKey, RunId, UserNumber, WorkerId
from oncue.domain.instants import Duration, Instant
from oncue.domain.lane import FREE, Held, Lanes


class State(IntEnum):
    """The stored state. The first two change; the others are final."""

    __hash__ = int.__hash__  # an enum's own is slow Python code, and these are keys for every run

    WAITING = 0
    RUNNING = 1
    SUCCEEDED = 2
    DEAD = 3
    CANCELLED = 4
    EXPIRED = 5

    @property
    def final(self) -> bool:
        return self > State.RUNNING


class Move(StrEnum):
    """The arrows of docs/states.md, each made by one guarded write."""

    CLAIM = "claim"
    SUCCEED = "succeed"
    RETRY = "retry"
    GIVE_UP = "give up"
    HAND_BACK = "hand back"
    LOSE = "lose"
    CANCEL = "cancel"
    EXPIRE = "expire"


MOVES: dict[tuple[State, Move], State] = {
    (State.WAITING, Move.CLAIM): State.RUNNING,
    (State.WAITING, Move.CANCEL): State.CANCELLED,
    (State.WAITING, Move.EXPIRE): State.EXPIRED,
    (State.RUNNING, Move.SUCCEED): State.SUCCEEDED,
    (State.RUNNING, Move.RETRY): State.WAITING,
    (State.RUNNING, Move.GIVE_UP): State.DEAD,
    (State.RUNNING, Move.HAND_BACK): State.WAITING,
    (State.RUNNING, Move.LOSE): State.WAITING,
    (State.RUNNING, Move.CANCEL): State.CANCELLED,
}


class Status(StrEnum):
    """What users see: the stored state, split by its meaning for them."""

    SCHEDULED = "scheduled"
    QUEUED = "queued"
    RETRYING = "retrying"
    RUNNING = "running"
    CANCELLING = "cancelling"
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


def shown(state: State, *, due: Instant, tries: int, cancelling: bool, now: Instant) -> Status:
    """Return the status that users see. `tries` counts the attempts that failed or were lost."""
    if state is State.WAITING:
        if tries:
            return Status.RETRYING
        return Status.SCHEDULED if due > now else Status.QUEUED
    if state is State.RUNNING:
        return Status.CANCELLING if cancelling else Status.RUNNING
    return ENDED[state]


ENDED = {state: Status[state.name] for state in State if state.final}


class Trigger(IntEnum):
    """What created the run."""

    SCHEDULE = 0
    RUN_NOW = 1
    BACKFILL = 2
    REQUEUE = 3
    CATCH_UP = 4


TRACEBACKS_KEPT = 3  # of the newest attempts of a run
OUTCOMES = ("failed", "timed_out", "lost", "cancelled", "preempted", "succeeded")


class Attempt(msgspec.Struct, frozen=True, omit_defaults=True):
    """One attempt that did not succeed: stored with the run, shown under `attempts`."""

    number: int
    worker_id: WorkerId | None
    started_at: Instant | None
    ended_at: Instant
    outcome: str  # one of OUTCOMES, or a value of a newer oncue
    error_type: str | None = None
    error: str | None = None
    error_class: str | None = None  # the dotted path of the exception's class
    traceback: str | None = None  # the end of it


class NewRun(msgspec.Struct, frozen=True, gc=False):
    """A run to insert. A one-shot's carries its definition; a recurring job's refers to (job_id, job_version)."""

    run_id: RunId
    job_id: JobId
    uid: UserNumber
    class_id: ClassId
    wanted: Instant
    nominal: Instant | None
    job_version: int = 1
    origin: UUID = SCHEDULE
    trigger: Trigger = Trigger.SCHEDULE
    lanes: Lanes = FREE
    spec: bytes | None = None
    payload: bytes | None = None
    held: Held = Held.NO  # beyond what its lanes hold: PAUSED
    expires_at: Instant | None = None  # if not started by then, it never starts
    parent: RunId | None = None  # the dead letter it was requeued from
    updated_at: Instant | None = None  # of a one-shot that was edited


class Peeked(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A run in a worker's heap. Not a reservation: at the due instant another worker may have it.

    Hints carry it as an array, which is short: new fields need a default.
    """

    run_id: RunId
    due: Instant
    class_id: ClassId
    uid: UserNumber


def next_number(recorded: Sequence[Attempt], tries: int) -> int:
    """Return the number of the next attempt, from 1. `tries` counts failures and losses.

    A preempted attempt has its own number, too, although it is neither.
    """
    return max(tries, recorded[-1].number if recorded else 0) + 1


class Claimed(msgspec.Struct, frozen=True, gc=False):
    """A run held by one worker. `token` is the fence: a worker with an older token no longer owns the run."""

    run_id: RunId
    token: int
    job_id: JobId
    uid: UserNumber
    class_id: ClassId
    due: Instant
    wanted: Instant
    nominal: Instant | None
    origin: UUID
    trigger: Trigger
    job_version: int
    failures: int  # visible failures so far
    losses: int  # workers lost so far
    lane: LaneKey | None
    gate: LaneKey | None
    attempts: bytes | None  # JSON of the Attempts so far
    checkpoint: bytes | None
    spec: bytes
    payload: bytes | None
    inline: bool  # the definition sits in the run and goes with it into history
    parent: RunId | None = None
    updated_at: Instant | None = None
    claimed_at: Instant = Instant(0)  # shown as its start, while it runs and in the history
    free_at: Instant | None = None  # when it was let in, handed back, or its job or queue resumed last; None: never

    @property
    def attempt(self) -> int:
        """Return the number of this attempt: 1, 2, …"""
        tries = self.failures + self.losses
        return tries + 1 if self.attempts is None else next_number(read_attempts(self.attempts), tries)

    @property
    def eligible(self) -> Instant:
        """Return from when it could start: due, let in, and neither its job nor its queue paused."""
        free_at = self.free_at
        return self.due if free_at is None or free_at < self.due else free_at

    @property
    def lag(self) -> Duration:
        """Return how long after it could start it was claimed."""
        return Duration(max(0, self.claimed_at - self.eligible))


class Holding(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """That a worker holds a run: what is compared with what the worker knows."""

    run_id: RunId
    token: int
    claimed_at: Instant


class Step(IntEnum):
    """What the end of an attempt does to the streak of failures of its job."""

    FAILED = 0  # an attempt failed: it begins, unless it has
    ENDED = 1  # a run ended without success: it also counts one run more
    OVER = 2  # a run succeeded: it ends


class Streak(msgspec.Struct, frozen=True):
    """Failures of a recurring job without a success in between. `runs` counts those that ended dead or expired."""

    since: Instant
    runs: int = 0


NO_STREAK = -1  # as a number of runs


class Notice(msgspec.Struct, frozen=True):
    """A run of the task `notify`, to be inserted if its job's streak had so many runs before: NO_STREAK, 0, 1, …"""

    run: NewRun
    least: int = NO_STREAK
    most: int = 1 << 31


class Notices(msgspec.Struct, frozen=True):
    """What is to be told of the end of an attempt. `step` None: whatever was before, as for a one-shot."""

    step: Step | None = None
    notices: tuple[Notice, ...] = ()


class Settlement(msgspec.Struct, frozen=True, gc=False):
    """The outcome of an attempt. State WAITING means: retry from `due` on; any other state is final."""

    run: Claimed
    state: State
    ended_at: Instant
    started_at: Instant | None = None
    due: Instant | None = None
    failures: int = 0
    losses: int = 0
    error_type: str | None = None
    error: str | None = None
    result: bytes | None = None
    attempts: bytes | None = None
    notices: Notices | None = None  # None: nobody asked to be told
    fault: Fault | None = None  # of an attempt that failed or was lost: what it is counted with


class Gathered(msgspec.Struct, frozen=True):
    """What a run that takes others along becomes, and how these end. Its checkpoint keeps it from being taken along."""

    payload: bytes
    checkpoint: bytes
    others: tuple[Settlement, ...]


class Settled(msgspec.Struct, frozen=True):
    """The exceptions in a batch of settlements; the rest was written as requested."""

    lost: frozenset[RunId] = frozenset()  # no longer held with that token: nothing was written
    cancelled: frozenset[RunId] = frozenset()  # a cancel was requested before: written as cancelled
    notices: int = 0  # that were inserted
    dropped: int = 0  # notices that were not, because too many wait for their users


class RunView(msgspec.Struct, frozen=True):
    """A run as read from the store, in any state."""

    run_id: RunId
    job_id: JobId
    uid: UserNumber
    class_id: ClassId
    state: State
    due: Instant
    wanted: Instant
    nominal: Instant | None
    trigger: Trigger
    token: int
    failures: int
    losses: int
    job_version: int
    held: Held = Held.NO
    started_at: Instant | None = None
    ended_at: Instant | None = None
    cancel_at: Instant | None = None
    worker_id: WorkerId | None = None
    error_type: str | None = None
    error: str | None = None
    result: bytes | None = None
    attempts: bytes | None = None
    payload: bytes | None = None
    spec: bytes | None = None
    progress: bytes | None = None
    parent: RunId | None = None


_attempts = msgspec.json.Decoder(tuple[Attempt, ...])
_as_stored = msgspec.json.Decoder(tuple[msgspec.Raw, ...])
_encode = msgspec.json.Encoder()


def read_attempts(stored: bytes | None) -> tuple[Attempt, ...]:
    return () if stored is None else _attempts.decode(stored)


def with_attempt(stored: bytes | None, attempt: Attempt, keep: int = 50) -> bytes:
    """Append an attempt to the stored ones; only the newest `keep` stay, to bound the size of the row.

    For the same reason only the newest few keep their tracebacks.
    """
    before = list[Any](() if stored is None else _as_stored.decode(stored))
    if len(before) >= TRACEBACKS_KEPT:
        before[-TRACEBACKS_KEPT] = _without_traceback(before[-TRACEBACKS_KEPT])
    return _encode.encode((*before, attempt)[-keep:])


def _without_traceback(stored: msgspec.Raw) -> Any:
    if b'"traceback"' not in bytes(stored):
        return stored
    return {name: value for name, value in msgspec.json.decode(stored).items() if name != "traceback"}
