"""What happened: one run at a time, and in lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from oncue.domain.explain import RunDiagnosis
from oncue.domain.ids import JobId, RunId, UserNumber
from oncue.domain.instants import Instant
from oncue.domain.ledger import Entry
from oncue.domain.quota import Quota
from oncue.domain.run import NewRun, RunView
from oncue.engines.values import (
    Counter,
    JobQuery,
    JobRow,
    LastAndNext,
    Page,
    RunQuery,
)


class History(Protocol):
    """One run and what happened to it; what becomes of it once it is dead."""

    async def run(self, uid: UserNumber | None, run_id: RunId) -> RunView | None:
        """One run, in whatever state, with its definition and payload."""
        ...

    async def standing(self, uid: UserNumber | None, run_id: RunId) -> RunDiagnosis | None:
        """A run and what is in its way, from one moment. Places are counted up to 10,000. None: no such run."""
        ...

    async def requeue(self, runs: Sequence[NewRun], now: Instant, quota: Quota | None = None) -> frozenset[RunId]:
        """Take each run's `parent` off the dead letters and add the run: one for each parent that is still there.

        QuotaExceeded: their owner's `quota` has no room for all of them. Nothing was written.
        """
        ...

    async def discard(self, uid: UserNumber | None, run_ids: Sequence[RunId]) -> frozenset[RunId]:
        """Take runs off the dead letters. Their history stays."""
        ...

    async def append_log(self, run_id: RunId, number: int, text: bytes, now: Instant) -> None:
        """Part `number` of a run's log. A repeat of the same part changes nothing. What exceeds the cap is dropped."""
        ...

    async def read_log(self, run_id: RunId) -> bytes: ...

    async def counters(self, uid: UserNumber | None = None) -> list[Counter]:
        """Sums kept as things happen; never by counting tables."""
        ...


class Lists(Protocol):
    """Pages and sets of what there is, for people to look at: reads that move nothing."""

    async def jobs(self, query: JobQuery) -> Page[JobRow]:
        """Reads a bounded number of rows whatever the filter. A job that ends meanwhile may be listed twice."""
        ...

    async def runs(self, query: RunQuery) -> Page[RunView]:
        """Live runs first, then ended ones, newest end first. Bounded like `jobs`; without payloads."""
        ...

    async def recent(self, uid: UserNumber | None, since: Instant, limit: int) -> list[RunView]:
        """What runs; what ended at or after `since`, newest end first; what waits again since then, because an attempt
        failed or was lost. Up to `limit` of each. Without payloads.

        A run that moves meanwhile may come twice, the second time as it was later.
        """
        ...

    async def last_and_next(self, job_ids: Sequence[JobId]) -> dict[JobId, LastAndNext]:
        """For each of these jobs its last run and its next: for a page of them at once. Without payloads.

        The last is, of those that run or are between two attempts, the one wanted last; else the one that ended last.
        """
        ...

    async def ledger(
        self, uid: UserNumber | None, job_id: JobId, limit: int = 100, after: str | None = None
    ) -> Page[Entry]:
        """What did not become a run, newest first."""
        ...

    async def dead_letters(self, uid: UserNumber | None, limit: int = 100, after: str | None = None) -> Page[RunView]:
        """Dead runs nobody has dealt with, newest first, with payload and every attempt."""
        ...
