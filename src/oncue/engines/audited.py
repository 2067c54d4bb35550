"""What the self-audit reads and records: see `port/auditing.py`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from oncue.domain.ids import JobId, RunId, WorkerId
from oncue.domain.instants import Instant
from oncue.domain.self_audit import AuditedCursor as AuditedCursor
from oncue.domain.self_audit import LongRunning as LongRunning
from oncue.engines.marks import page, unmark
from oncue.engines.values import Page

MOST_FINDINGS = 1_000  # then the oldest are forgotten, first of all those that were cleared

MOST_SUMMED = 200_000  # open runs that one read counts


class LongHeld(msgspec.Struct, frozen=True):
    """A run that its lane or gate has not admitted though its instant has come."""

    run_id: RunId
    job_id: JobId
    wanted: Instant
    by_lane: bool  # else by its gate
    admitted: bool  # whether that lane or gate has admitted any run


class Orphan(msgspec.Struct, frozen=True):
    """A running run without a registered worker."""

    run_id: RunId
    worker_id: WorkerId
    claimed_at: Instant


class Unexpired(msgspec.Struct, frozen=True):
    """A run that waits though it should have expired."""

    run_id: RunId
    expires_at: Instant


class Sums(msgspec.Struct, frozen=True):
    """The open runs as the counters have them, and as rows."""

    counted: int
    stored: int


class Finding(msgspec.Struct, frozen=True):
    """Something stored that is not as it must be."""

    check: str  # which check found it
    object_id: str  # of what; "" if it is about the whole store
    words: str
    first_seen: Instant
    seen_at: Instant
    cleared_at: Instant | None = None  # when the check held again; None: it is open

    @property
    def key(self) -> tuple[str, str]:
        return self.check, self.object_id


def one_of_each(findings: Sequence[Finding]) -> list[Finding]:
    """Return findings sorted by key, the last of each key: one statement writes each row once, in this order."""
    return sorted({finding.key: finding for finding in findings}.values(), key=lambda finding: finding.key)


def page_of(findings: Iterable[Finding], limit: int, after: str | None) -> Page[Finding]:
    """Return a page of findings, open ones first, then newest first. There are few enough to sort them all."""
    place = unmark(after, tuple[bool, int, str, str]) if after else None
    found = [finding for finding in sorted(findings, key=_place) if place is None or _place(finding) > place]
    return page(found[: limit + 1], limit, lambda finding: finding, _place)


def _place(finding: Finding) -> tuple[bool, int, str, str]:
    return finding.cleared_at is not None, -finding.first_seen, *finding.key
