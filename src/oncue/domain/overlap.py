"""Overlap: what becomes of an occurrence that is due while its job's lane is held. Decided at the due instant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

import msgspec

from oncue.domain.ids import JobId, RunId
from oncue.domain.instants import Instant
from oncue.domain.ledger import Entry, Outcome
from oncue.domain.policy import Overlap
from oncue.domain.run import Trigger


class HeldRun(msgspec.Struct, frozen=True):
    """A run that is due and held by its lane, with whoever of its job is in the way."""

    run_id: RunId
    job_id: JobId
    wanted: Instant
    nominal: Instant | None
    trigger: Trigger
    overlap: Overlap
    busy: RunId | None  # the run of the same job that is still going (running, or between two attempts)


class Withdrawal(msgspec.Struct, frozen=True):
    """A held run that will not run after all, and what the ledger says of its occurrence."""

    run_id: RunId
    entry: Entry


class Displacement(msgspec.Struct, frozen=True):
    """The going run is to be cancelled so that the held one may follow."""

    going: RunId


def decide(held: Iterable[HeldRun]) -> Iterator[Withdrawal | Displacement]:
    """For held runs in order of `wanted`. What is neither withdrawn nor displaces anything simply waits its turn."""
    kept: dict[JobId, HeldRun] = {}
    for run in held:
        if run.trigger is not Trigger.SCHEDULE or run.busy is None:
            continue  # run-now, backfill and catch-up queue without a cap; behind a stranger of its group it waits
        match run.overlap:
            case Overlap.SKIP:
                yield Withdrawal(run.run_id, _entry(run, Outcome.SKIPPED, "overlap", run.busy))
            case Overlap.QUEUE:
                if first := kept.get(run.job_id):
                    yield Withdrawal(run.run_id, _entry(run, Outcome.COALESCED, "overlap", first.run_id))
                kept.setdefault(run.job_id, run)
            case Overlap.REPLACE:
                if older := kept.get(run.job_id):  # it never started: the newer one replaces it too
                    yield Withdrawal(older.run_id, _entry(older, Outcome.SKIPPED, "replaced", run.run_id))
                else:
                    yield Displacement(run.busy)
                kept[run.job_id] = run
            case Overlap.ALLOW:
                continue
            case _:
                assert_never(run.overlap)


def _entry(run: HeldRun, outcome: Outcome, reason: str, other: RunId) -> Entry:
    nominal = run.wanted if run.nominal is None else run.nominal
    return Entry(run.job_id, nominal, nominal, 1, outcome, reason, other)
