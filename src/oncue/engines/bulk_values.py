"""An action on many objects, as it is stored: what was asked for, and how far it is."""

from __future__ import annotations

from enum import StrEnum
from typing import Any
from uuid import UUID

import msgspec

from oncue.domain.ids import JobId, KeyId, UserNumber
from oncue.domain.instants import Instant
from oncue.domain.policy import CatchUp
from oncue.domain.quota import Quota
from oncue.domain.run import Status
from oncue.engines.account_values import Role
from oncue.engines.listed import JobQuery, RunQuery

MOST_OPEN = 10  # of a user
MOST_REASONS = 20  # kept of what was refused


class Action(StrEnum):
    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"
    RUN = "run"
    RETRY = "retry"
    REQUEUE = "requeue"
    DISCARD = "discard"


class Kind(StrEnum):
    """What the objects are."""

    JOBS = "jobs"
    RUNS = "runs"
    LETTERS = "dead_letters"


class BulkState(StrEnum):
    RUNNING = "running"
    FINISHED = "finished"
    STOPPED = "stopped"
    FAILED = "failed"


class PatchRules(msgspec.Struct, frozen=True):
    """The settings by which the API that took the bulk checks payloads."""

    max_payload_bytes: int
    plain_secrets: str
    secret_roles: tuple[str, ...]
    http_allow: tuple[str, ...]


class PayloadPatch(msgspec.Struct, frozen=True):
    """What changes in the payload of each letter that is requeued (RFC 7396)."""

    patch: dict[str, Any]
    rules: PatchRules


class LetterQuery(msgspec.Struct, frozen=True):
    """Which dead letters. The window is on `wanted`: [wanted_from, wanted_until). `uid`: those of this user only.

    `patch` is not about which. It is here because a scheduler of before it was known refuses an unknown field of a
    query, and would ignore one of the order: it would requeue the letters unchanged.
    """

    job_id: JobId | None = None
    task: str | None = None
    queue: str | None = None
    wanted_from: Instant | None = None
    wanted_until: Instant | None = None
    fingerprint: int | None = None
    uid: UserNumber | None = None
    patch: PayloadPatch | None = None


class Order(msgspec.Struct, frozen=True):
    """What was asked for; it never changes. Which objects: those with these ids, or those that a query finds."""

    action: Action
    of: Kind
    ids: tuple[UUID, ...] | None = None
    jobs: JobQuery | None = None
    runs: RunQuery | None = None
    statuses: frozenset[Status] | None = None  # of runs, as users see them
    letters: LetterQuery | None = None
    missed: CatchUp = CatchUp.SKIP  # of a resume
    quota: Quota | None = None  # of runs by hand
    asked: dict[str, Any] = {}  # the filter as it was sent


class Reason(msgspec.Struct, frozen=True):
    """Why nothing was done with one object."""

    id: UUID
    reason: str


class Progress(msgspec.Struct, frozen=True):
    """How far it is. `pending` were found and are acted on, all of them again if nobody knows how far that went."""

    part: int = 0  # a walk may have parts
    after: str | None = None  # where the walk continues; of ids: how many were taken
    more: bool = True
    pending: tuple[UUID, ...] = ()
    done: int = 0
    refused: int = 0
    reasons: tuple[Reason, ...] = ()


class Bulk(msgspec.Struct, frozen=True):
    """An action on many objects with the rights of the key that asked for it. `turn` is the fence of whoever works."""

    bulk_id: UUID
    uid: UserNumber
    key_id: KeyId
    role: Role
    created_at: Instant
    order: Order
    total: int | None = None
    state: BulkState = BulkState.RUNNING
    progress: Progress = Progress()
    turn: int = 0
    ended_at: Instant | None = None
    why: str | None = None  # it failed

    @property
    def sees(self) -> UserNumber | None:
        """The user whose objects it may act on. None: of all users."""
        return None if self.role is Role.ADMIN else self.uid


class TakenBulk(msgspec.Struct, frozen=True):
    bulk: Bulk
    allowed: bool  # the key that asked for it is valid


encode = msgspec.json.Encoder().encode
_order = msgspec.json.Decoder(Order).decode
_fields = msgspec.json.Decoder(dict[str, Any]).decode
read_progress = msgspec.json.Decoder(Progress).decode
_QUERIES: dict[str, type[msgspec.Struct]] = {"jobs": JobQuery, "runs": RunQuery, "letters": LetterQuery}


def read_order(stored: bytes) -> Order:
    """ValidationError: a newer oncue wrote a filter or an action that this one does not know, and must not ignore."""
    raw = _fields(stored)
    for name, query in _QUERIES.items():
        if unknown := (raw.get(name) or {}).keys() - set(query.__struct_fields__):
            raise msgspec.ValidationError(f"unknown filters: {', '.join(sorted(unknown))}")
    return _order(stored)
