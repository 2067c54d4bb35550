"""The ledger (occurrence history): every nominal instant that did *not* become a run, and why. Runs record the rest."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from oncue.domain.ids import JobId, RunId
from oncue.domain.instants import Instant


class Outcome(StrEnum):
    SKIPPED = "skipped"
    COALESCED = "coalesced"
    MISSED = "missed"


class Entry(msgspec.Struct, frozen=True):
    """Consecutive occurrences with one outcome: a paused every-1s job writes one row, not thirty million a year."""

    job_id: JobId
    first: Instant
    last: Instant
    count: int
    outcome: Outcome
    reason: str
    run_id: RunId | None = None  # the run they were coalesced into, or that blocked them
