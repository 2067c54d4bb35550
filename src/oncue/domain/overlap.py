"""Overlap: what becomes of an occurrence that is due while its job's lane is held. Decided at the due instant.

In its way is the run of the same job that is going; or, while nobody claims (no worker, a paused queue, all places
taken), the one that was let in and has not begun. That one counts from GRACE after its instant on: until then a planner
that was late, and not a worker that is missing, may be why it has not begun.
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
    """The run of a job that its lane has let in and that nobody has claimed yet."""

    run_id: RunId
    wanted: Instant
    nominal: Instant | None
    trigger: Trigger


class HeldRun(msgspec.Struct, frozen=True):
    """A run that is due and held by its lane, with whoever of its job is in the way."""

    run_id: RunId
    job_id: JobId
    wanted: Instant
    nominal: Instant | None
    trigger: Trigger
    overlap: Overlap
    busy: RunId | None  # the run of the same job that is still going (running, handed back, or between two attempts)
    first: Unbegun | None = None  # if none is: the one that is to begin before it


class Withdrawal(msgspec.Struct, frozen=True):
    """A held run that will not run after all, and what the ledger says of its occurrence.

    `let_in`: it is not held but the first of its lane, and is withdrawn as long as nobody has claimed it.
    """

    run_id: RunId
    entry: Entry
    let_in: bool = False


class Displacement(msgspec.Struct, frozen=True):
    """The going run is to be cancelled so that the held one may follow."""

    going: RunId


def decide(held: Iterable[HeldRun], now: Instant) -> Iterator[Withdrawal | Displacement]:
    """For held runs in order of `wanted`. What is neither withdrawn nor displaces anything simply waits its turn."""
    kept: dict[JobId, HeldRun | Unbegun] = {}  # of each job, the occurrence that waits
    for run in held:
        unbegun = run.first if run.first is not None and is_late(run.first.wanted, now) else None
        in_the_way = run.busy if unbegun is None else unbegun.run_id
        if run.trigger is not Trigger.SCHEDULE or in_the_way is None:
            continue  # run-now, backfill and catch-up queue without a cap; behind a stranger of its group it waits
        if unbegun is not None and unbegun.trigger is Trigger.SCHEDULE:  # what somebody asked for takes nobody's place
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
                if waits is not None:  # it never started: the newer one replaces it too
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
