"""Decide about an occurrence that is due while its job's lane is occupied. Decided at the due instant.

It is blocked by the active run of the same job; or, while no worker claims (no worker, a paused queue, no free slot),
by the run that the lane has admitted and that has not started. The latter blocks only from GRACE after its instant on:
until then it may not have started because a scheduler was late, not because a worker is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

import msgspec

from oncue.domain.ids import JobId, RunId
from oncue.domain.instants import Instant
from oncue.domain.ledger import Entry, Outcome
from oncue.domain.planning import is_late
from oncue.domain.policy import Overlap
from oncue.domain.run import Trigger


class Unbegun(msgspec.Struct, frozen=True):
    """The run of a job that its lane has admitted and no worker has claimed yet."""

    run_id: RunId
    wanted: Instant
    nominal: Instant | None
    trigger: Trigger


class HeldRun(msgspec.Struct, frozen=True):
    """A run that is due and held by its lane, with the run of its job that blocks it."""

    run_id: RunId
    job_id: JobId
    wanted: Instant
    nominal: Instant | None
    trigger: Trigger
    overlap: Overlap
    busy: RunId | None  # the active run of the same job (running, returned to the queue, or between two attempts)
    first: Unbegun | None = None  # without an active run: the run that starts before it


class Withdrawal(msgspec.Struct, frozen=True):
    """A held run that will not run, and the ledger entry of its occurrence.

    `let_in`: the run is not held but the first of its lane; it is withdrawn unless a worker has claimed it.
    """

    run_id: RunId
    entry: Entry
    let_in: bool = False


class Displacement(msgspec.Struct, frozen=True):
    """The active run has to be cancelled so that the held run can start."""

    going: RunId


def decide(held: Iterable[HeldRun], now: Instant) -> Iterator[Withdrawal | Displacement]:
    """Decide about held runs in order of `wanted`. A run that is not mentioned in the result waits for its turn."""
    kept: dict[JobId, HeldRun | Unbegun] = {}  # of each job, the occurrence that waits
    for run in held:
        unbegun = run.first if run.first is not None and is_late(run.first.wanted, now) else None
        in_the_way = run.busy if unbegun is None else unbegun.run_id
        if run.trigger is not Trigger.SCHEDULE or in_the_way is None:
            continue  # run-now, backfill and catch-up queue without a cap; a run behind another job of its group waits
        if unbegun is not None and unbegun.trigger is Trigger.SCHEDULE:  # a run started by hand replaces no occurrence
            kept.setdefault(run.job_id, unbegun)
        waits = kept.get(run.job_id)
        match run.overlap:
            case Overlap.SKIP:
                yield Withdrawal(run.run_id, _entry(run, run, Outcome.SKIPPED, "overlap", in_the_way))
            case Overlap.QUEUE:
                if waits is not None:
                    yield Withdrawal(run.run_id, _entry(run, run, Outcome.COALESCED, "overlap", waits.run_id))
                kept.setdefault(run.job_id, run)
            case Overlap.REPLACE:
                if waits is not None:  # not started yet: the newer occurrence replaces it, too
                    entry = _entry(run, waits, Outcome.SKIPPED, "replaced", run.run_id)
                    yield Withdrawal(waits.run_id, entry, let_in=waits is unbegun)
                elif run.busy is not None:
                    yield Displacement(run.busy)
                kept[run.job_id] = run
            case Overlap.ALLOW:
                continue
            case _:
                assert_never(run.overlap)


def _entry(run: HeldRun, gone: HeldRun | Unbegun, outcome: Outcome, reason: str, other: RunId) -> Entry:
    nominal = gone.wanted if gone.nominal is None else gone.nominal
    return Entry(run.job_id, nominal, nominal, 1, outcome, reason, other)
