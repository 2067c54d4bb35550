"""What the self-audit reads and records: bounded reads by key, never a scan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from oncue.domain.instants import Instant
from oncue.engines.audited import Finding
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
