"""What the self-audit reads and records: bounded reads by key, never a scan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from oncue.domain.ids import JobId, RunId
from oncue.domain.instants import Instant
from oncue.domain.ledger import Entry
from oncue.engines.audited import (
    MOST_SUMMED,
    AuditedCursor,
    Finding,
    LongHeld,
    LongRunning,
    Orphan,
    Sums,
    Unexpired,
)
from oncue.engines.values import Page


class Auditing(Protocol):
    """Compare what should be stored with what is, and remember what is not as it must be."""

    async def record_findings(self, findings: Sequence[Finding], now: Instant) -> list[Finding]:
        """Store findings as seen `now`, and return those that were not open before: the ones to report.

        There is one finding for each check and object. An open one gets the new words; one that was cleared is open
        again, first seen now. Of all findings the newest `MOST_FINDINGS` stay, open ones before cleared ones. A repeat
        with the same `now` returns the same.
        """
        ...

    async def clear_findings(self, check: str, object_ids: Sequence[str], now: Instant) -> list[Finding]:
        """Mark findings of this check as cleared, because it holds for these objects; return those that were open."""
        ...

    async def findings(self, limit: int = 100, after: str | None = None) -> Page[Finding]:
        """Return a page of findings: open ones first, then cleared ones; each newest first, by `first_seen`."""
        ...

    async def cursors(self, after: JobId | None, limit: int) -> list[AuditedCursor]:
        """Return active and paused recurring jobs with their cursors as of the same moment, in the order of their ids.

        Jobs that have ended may be among them, with a cursor at NEVER. Fewer than `limit`: there are no more.
        """
        ...

    async def existing_runs(self, run_ids: Sequence[RunId], since: Instant) -> frozenset[RunId]:
        """Return which of these runs exist: waiting, running, as a dead letter, or ended at or after `since`.

        Runs that ended before `since` may be left out: without that bound each partition of history would be searched.
        """
        ...

    async def stretches(self, job_id: JobId, first: Instant, last: Instant, limit: int = 1_000) -> list[Entry]:
        """Return the job's entries in the ledger that overlap [first, last], by their last instant, up to `limit`."""
        ...

    async def longest_held(self, now: Instant, limit: int = 100) -> list[LongHeld]:
        """Return runs that were wanted by `now` and that a lane or gate holds, longest first, without paused runs."""
        ...

    async def orphans(self, before: Instant, limit: int = 100) -> list[Orphan]:
        """Return runs that were claimed before this instant and whose worker is not registered (any more)."""
        ...

    async def long_running(self, after: RunId | None, before: Instant, limit: int) -> list[LongRunning]:
        """Return runs of registered workers that were claimed before this instant, in the order of their ids.

        Fewer than `limit`: there are no more.
        """
        ...

    async def unexpired(self, before: Instant) -> Unexpired | None:
        """Return the first waiting run that should have expired before this instant and that no worker ever claimed."""
        ...

    async def sums(self, most: int = MOST_SUMMED) -> Sums | None:
        """Compare the counters with the rows of open runs, read at one moment. None: there are more than `most` rows.

        Only where `Capabilities.exact_counters` says so must both be equal.
        """
        ...
