"""Runs: their states, the table of moves between them, and the values that travel with a run from claim to settled."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum, StrEnum
from uuid import UUID

import msgspec

from oncue.domain.ids import SCHEDULE, ClassId, JobId, LaneKey, RunId, UserNumber, WorkerId
from oncue.domain.instants import Instant
from oncue.domain.lane import FREE, Held, Lanes


class State(IntEnum):
    """Stored. The first two change; the others are final for ever."""

    __hash__ = int.__hash__  # an enum's own is in Python, and these are keys for every run

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
    """What users see: the stored state, told apart by what it means to them."""

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
    """`tries` are the attempts that ended without success, failed or lost."""
    if state is State.WAITING:
        if tries:
            return Status.RETRYING
        return Status.SCHEDULED if due > now else Status.QUEUED
    if state is State.RUNNING:
        return Status.CANCELLING if cancelling else Status.RUNNING
    return Status[state.name]


class Trigger(IntEnum):
    """Who asked for the run."""

    SCHEDULE = 0
    RUN_NOW = 1
    BACKFILL = 2
    REQUEUE = 3
    CATCH_UP = 4


OUTCOMES = ("failed", "timed_out", "lost", "cancelled", "preempted", "succeeded")


class Attempt(msgspec.Struct, frozen=True, omit_defaults=True):
    """One try that ended without success: kept with the run, shown under `attempts`."""

    number: int
    worker_id: WorkerId | None
    started_at: Instant | None
    ended_at: Instant
    outcome: str  # one of OUTCOMES, or a word of a newer oncue's
    error_type: str | None = None
    error: str | None = None


class NewRun(msgspec.Struct, frozen=True, gc=False):
    """A run to be. A one-shot's carries its definition; a recurring job's refers to (job_id, job_version)."""

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
    expires_at: Instant | None = None  # not started by then, it never will be
    parent: RunId | None = None  # the dead letter it was requeued from
    updated_at: Instant | None = None  # of a one-shot that was edited


class Peeked(msgspec.Struct, frozen=True, gc=False):
    """What a worker keeps in its heap. Not a reservation: by the instant it may be gone."""

    run_id: RunId
    due: Instant
    class_id: ClassId
    uid: UserNumber


def next_number(recorded: Sequence[Attempt], tries: int) -> int:
    """What the next attempt is called, counting from 1. `tries` are failures and losses.

    One that gave way has a number of its own, too, though it is neither.
    """
    return max(tries, recorded[-1].number if recorded else 0) + 1


class Claimed(msgspec.Struct, frozen=True, gc=False):
    """A run held by one worker. `token` is the fence: whoever carries an older one has lost it."""

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
    claimed_at: Instant = Instant(0)  # its start, for whoever looks while it runs and for history

    @property
    def attempt(self) -> int:
        """The number of this attempt as users count: 1, 2, …"""
        tries = self.failures + self.losses
        return tries + 1 if self.attempts is None else next_number(read_attempts(self.attempts), tries)


class Settlement(msgspec.Struct, frozen=True, gc=False):
    """What an attempt came to. State WAITING means: try again from `due` on; any other is final."""

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


class Settled(msgspec.Struct, frozen=True):
    """The exceptions among a batch of settlements: the rest was written as asked."""

    lost: frozenset[RunId] = frozenset()  # no longer held with that token: nothing was written
    cancelled: frozenset[RunId] = frozenset()  # a cancel had been asked for: written as cancelled


class RunView(msgspec.Struct, frozen=True):
    """A run as read back, whatever its state."""

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
    """The stored attempts, as they are, and one more; only the newest are kept, so that a row stays small."""
    before = () if stored is None else _as_stored.decode(stored)
    return _encode.encode((*before, attempt)[-keep:])
