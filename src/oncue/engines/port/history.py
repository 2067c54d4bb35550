"""What happened to runs: one at a time, and in lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from oncue.domain.explain import RunDiagnosis
from oncue.domain.ids import ClassId, JobId, RunId, UserNumber, WorkerId
from oncue.domain.instants import Duration, Instant
from oncue.domain.ledger import Entry
from oncue.domain.quota import Quota
from oncue.domain.run import NewRun, RunView
from oncue.engines.gauges import DUE_COUNTED, MOST_CLASSES, Backlog, Gauges, Pulse
from oncue.engines.listed import Counts, EndedRun, JobName, JobQuery, JobRow, JobVersion, LastAndNext, RunQuery
from oncue.engines.values import Count, Counter, DeadRuns, LogPart, Measure, OpenLetters, Page, Point

LOG_INLINE = 256 * 1024  # bytes of a run's log in the database; the rest is in object storage


class History(Protocol):
    """One run and what happened to it; what users do with dead letters."""

    async def run(self, uid: UserNumber | None, run_id: RunId) -> RunView | None:
        """Return one run in any state, with its definition and payload."""
        ...

    async def standing(self, uid: UserNumber | None, run_id: RunId) -> RunDiagnosis | None:
        """Return a run and what blocks it, read at one moment. Counts positions up to 10,000. None: no such run."""
        ...

    async def requeue(self, runs: Sequence[NewRun], now: Instant, quota: Quota | None = None) -> frozenset[RunId]:
        """Remove each run's `parent` from the dead letters and add the run, if the parent is still there; return those.

        QuotaExceeded: the owner's `quota` has no capacity for all of them. Nothing was written.
        """
        ...

    async def rerun(self, runs: Sequence[NewRun], now: Instant, quota: Quota | None = None) -> frozenset[RunId]:
        """Add each run unless one with its id exists, in any state; return those that were added.

        For runs that follow an ended run which is no dead letter. A repeat adds nothing, also at the same moment and
        also after the first one's run has ended. QuotaExceeded as in `requeue`.
        """
        ...

    async def discard(self, uid: UserNumber | None, run_ids: Sequence[RunId]) -> frozenset[RunId]:
        """Remove runs from the dead letters. Their history stays."""
        ...

    async def append_log(self, run_id: RunId, number: int, text: bytes, now: Instant) -> bool:
        """Store part `number` of a run's log. A repeat of a part changes nothing.

        False: nothing was stored, because the parts of a run have at most `LOG_INLINE` bytes together. References and
        notes (`domain.run_log`), which begin like references or are empty, do not count, and are always stored.
        """
        ...

    async def read_log(self, run_id: RunId, after: int = -1) -> list[LogPart]:
        """Return the parts of a run's log with higher numbers than `after`, in order."""
        ...

    async def counters(self, uid: UserNumber | None = None) -> list[Counter]:
        """Return the sums that are kept as things happen, of one user or of EVERYBODY; this never counts tables.

        The cost of the latter does not grow with the number of users.
        """
        ...

    async def open_letters(self, least: int) -> OpenLetters:
        """Return how old the oldest open dead letter is, and which users have at least so many, by the counters."""
        ...

    async def series(
        self,
        what: Count | Measure,
        since: Instant,
        until: Instant,
        step: Duration,
        *,
        classes: Sequence[ClassId] | None = None,
        uid: UserNumber | None = None,
    ) -> list[Point]:
        """Return what was counted or measured in [since, until), in steps; points without anything are left out.

        Of all runs, or of these classes together, in steps of minutes; or counts of one user, in steps of hours. A
        point is at a multiple of `step`. What is older than `engines.series` says is told by the hour, then not at all.
        Complete once `Maintenance.roll_up` has come by. ValueError: another step, more than 1,500 points, or a measure
        of one user.
        """
        ...

    async def series_by(
        self,
        what: Count | Measure,
        since: Instant,
        until: Instant,
        step: Duration,
        groups: Sequence[Sequence[ClassId]],
    ) -> list[list[Point]]:
        """Return a series for each group of classes, in this order: what `series` returns for each, by one read."""
        ...

    async def backlog(
        self, uid: UserNumber | None, classes: Sequence[ClassId], now: Instant, limit: int = DUE_COUNTED
    ) -> dict[ClassId, Backlog]:
        """Return how many runs of these classes are due and held by nothing, since when, and how many run.

        Of one user, or of all; classes without any are left out. It looks at `limit` waiting runs of all these classes
        together, those due longest first, and at `limit` running ones. Where that was not enough, `more` says so.
        """
        ...

    async def pulse(self, uid: UserNumber | None, now: Instant, limit: int = DUE_COUNTED) -> Pulse:
        """Return what changes every second, of one user or of all: sums, runs that run, and runs that are due.

        Looks at no more runs than `backlog`. The cost of the sums grows with the number of classes.
        """
        ...

    async def gauges(self, now: Instant, most: int = MOST_CLASSES, most_due: int = DUE_COUNTED) -> Gauges:
        """Return the state of the whole cluster in numbers, read at one moment.

        It looks at the `most` classes with the most open runs, and counts up to `most_due` due runs, beginning with the
        queue whose first run has been due longest. The cost grows with the numbers of classes, workers and members; it
        does not grow with the numbers of jobs and runs.
        """
        ...

    async def sizes(self) -> dict[str, int]:
        """Return the bytes that the database takes, by table where it can tell. It may take a while: ask rarely."""
        ...


class Lists(Protocol):
    """Pages and sets for users to look at: these reads change no state."""

    async def jobs(self, query: JobQuery) -> Page[JobRow]:
        """Return a page; reads a bounded number of rows for any filter. May list a job twice that ends meanwhile."""
        ...

    async def runs(self, query: RunQuery) -> Page[RunView]:
        """Return live runs first, then ended ones, newest end first. Bounded like `jobs`; without payloads."""
        ...

    async def recent(self, uid: UserNumber | None, since: Instant, limit: int) -> list[RunView]:
        """Return running runs; those that ended at or after `since`, newest end first; and those that wait again since
        then because an attempt failed or was lost. Up to `limit` of each. Without payloads.

        A run that changes state meanwhile may come twice, the second time in its later state.
        """
        ...

    async def recent_of_job(self, uid: UserNumber, job_id: JobId, since: Instant, limit: int) -> list[RunView]:
        """Return the same as `recent`, of one job. `uid` is its owner."""
        ...

    async def held(
        self, worker_id: WorkerId, uid: UserNumber | None, limit: int = 100, after: str | None = None
    ) -> Page[RunView]:
        """Return the runs that a worker holds now, in the order of their ids; of one user, or of all. Without payloads.

        Bounded like `jobs`: it looks at 10,000 running runs at most.
        """
        ...

    async def counts(self, uid: UserNumber | None, most: int, now: Instant) -> Counts:
        """Count up to `most` of each, reading no more than a few times `most` rows. See `Counts`."""
        ...

    async def last_ended(self, job_ids: Sequence[JobId], limit: int) -> dict[JobId, list[EndedRun]]:
        """Return how the last `limit` runs of each of these jobs ended, newest end first: one call for a page of jobs.

        A job without an ended run is left out.
        """
        ...

    async def job_names(self, runs: Sequence[RunView]) -> dict[RunId, JobName]:
        """Return what the jobs of these runs are called: one call for a page of runs. A job that is gone has none."""
        ...

    async def last_and_next(self, job_ids: Sequence[JobId]) -> dict[JobId, LastAndNext]:
        """Return the last and the next run of each of these jobs: one call for a page of jobs. Without payloads.

        The last run is the one wanted last of those that run or are between two attempts; else the one that ended last.
        """
        ...

    async def versions(self, uid: UserNumber | None, job_id: JobId, below: int, limit: int = 100) -> list[JobVersion]:
        """Return past definitions of a recurring job with versions below this one, newest first, as long as they are
        kept: for a while after they were superseded, and while a run that started with one lives.
        """
        ...

    async def ledger(
        self, uid: UserNumber | None, job_id: JobId, limit: int = 100, after: str | None = None
    ) -> Page[Entry]:
        """Return the occurrences that became no run, newest first."""
        ...

    async def dead_letters(
        self, uid: UserNumber | None, limit: int = 100, after: str | None = None, *, fingerprint: int | None = None
    ) -> Page[RunView]:
        """Return dead runs that no user has requeued or discarded, newest first, with payload and every attempt.

        With a `fingerprint`, only those of that group of errors; this reads no others.
        """
        ...

    async def dead_by_job(self, uid: UserNumber | None, most: int) -> list[DeadRuns]:
        """Return the jobs with several runs that the newest `most` open dead letters belong to, the newest first."""
        ...
