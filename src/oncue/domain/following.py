"""What becomes of a job's waiting runs when it was changed while too many of them waited for one change: in bites."""

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
    """What becomes of some runs of a job that were taken back because too many waited when it was changed."""

    add: tuple[NewRun, ...] = ()
    ledger: tuple[Entry, ...] = ()
    uncounted: int = 0  # so many fewer are planned


def is_outdated(job: Job, run: WaitingRun, drop_before: Instant | None) -> bool:
    """Whether it is to be taken back, for `followed` to decide on."""
    return run.scheduled and (run.version < job.version or _is_dropped(run, drop_before))


def is_meant(job: Job, run: WaitingRun, since: Instant) -> bool:
    """Whether a pause holds it or a resume releases it. What was asked for by hand after the act is not meant."""
    if job.status is JobStatus.PAUSED:
        return Held.PAUSED not in run.held and not (run.by_hand and run.wanted > since)
    return Held.PAUSED in run.held


def followed(
    job: Job, class_id: ClassId, taken: Sequence[WaitingRun], drop_before: Instant | None, now: Instant
) -> Followed:
    """Those due when the job was edited come back under its version. Of those to come, what its schedule has: an edit
    counts these anew.
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
