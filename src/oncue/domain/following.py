"""Update a job's waiting runs in batches after a change, when too many wait for one transaction."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from oncue.domain.change import runs_at, skipped
from oncue.domain.ids import ClassId
from oncue.domain.instants import Instant
from oncue.domain.job import Job, JobStatus, WaitingRun
from oncue.domain.lane import Held
from oncue.domain.ledger import Entry
from oncue.domain.run import NewRun
from oncue.domain.schedule import next_occurrence


class Followed(msgspec.Struct, frozen=True):
    """The decision about one batch of withdrawn runs."""

    add: tuple[NewRun, ...] = ()
    ledger: tuple[Entry, ...] = ()
    uncounted: int = 0  # the number by which the cursor's `planned` falls


def is_outdated(job: Job, run: WaitingRun, drop_before: Instant | None) -> bool:
    """Whether a run has to be withdrawn, for `followed` to decide about."""
    return run.scheduled and (run.version < job.version or _is_dropped(run, drop_before))


def is_meant(job: Job, run: WaitingRun, since: Instant) -> bool:
    """Whether a pause holds the run or a resume releases it. Runs started by hand after the pause are exempt."""
    if job.status is JobStatus.PAUSED:
        return Held.PAUSED not in run.held and not (run.by_hand and run.wanted > since)
    return Held.PAUSED in run.held


def followed(
    job: Job, class_id: ClassId, taken: Sequence[WaitingRun], drop_before: Instant | None, now: Instant
) -> Followed:
    """Decide about withdrawn runs. Those due when the job was edited return under its new version. Of the later ones
    those return that the new schedule has, and the cursor counts them again.
    """
    dropped = [run for run in taken if _is_dropped(run, drop_before)]
    others = [run.nominal for run in taken if run.nominal is not None and not _is_dropped(run, drop_before)]
    to_come = [at for at in others if at > job.updated_at]
    schedule = job.spec.schedule
    gone = {at for at in to_come if next_occurrence(schedule, Instant(at - 1)) != at}
    ledger = [skipped(job, [run.nominal], "paused") for run in dropped if run.nominal is not None]
    return Followed(
        runs_at(job, class_id, [at for at in others if at not in gone], now),
        (*ledger, *(skipped(job, [at], "edited") for at in sorted(gone))),
        len(dropped) + len(to_come),
    )


def _is_dropped(run: WaitingRun, drop_before: Instant | None) -> bool:
    return drop_before is not None and run.nominal is not None and run.nominal < drop_before
