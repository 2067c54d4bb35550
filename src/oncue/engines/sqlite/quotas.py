"""Quotas: a bound per user, and counting. There is one writer: no other transaction adds meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oncue.domain.ids import JobId, UserNumber
from oncue.domain.quota import exceeded
from oncue.engines.admitting import UNKNOWN, Admission, StableKey, admit, bound_after, quotas_of
from oncue.engines.port import Creation, NewJob, Quota, Usage
from oncue.engines.sql import statements
from oncue.engines.sqlite.store import Connection, fetch, first

_SQL = statements("oncue.engines.sqlite")

Bounds = dict[UserNumber, Usage]


def admit_counted(
    db: Connection, new: Sequence[NewJob], answers: Sequence[Creation], holders: Mapping[StableKey, JobId]
) -> tuple[Admission, Bounds]:
    """Admit like `admit`, but refuse no user by a bound alone; also return the bounds as they are after that."""
    quotas = quotas_of(new)
    bounds = {uid: read_bound(db, uid) for uid in quotas}
    admission = admit(new, answers, holders, bounds)
    counted = {uid: count(db, uid, quotas[uid], bounds[uid]) for uid in sorted(admission.over_quota)}
    if counted:
        admission = admit(new, answers, holders, bounds | counted)
    lowered = bounds | {uid: bound_after(bounds[uid], found, quotas[uid]) for uid, found in counted.items()}
    after = {uid: bound.plus(admission.added.get(uid, Usage())) for uid, bound in lowered.items()}
    return admission, {uid: bound for uid, bound in after.items() if bound != bounds[uid]}


def put_bounds(db: Connection, bounds: Bounds) -> None:
    db.executemany(_SQL["put_quota"], [(uid, bound.jobs, bound.payload, bound.runs) for uid, bound in bounds.items()])


def grow(db: Connection, uid: UserNumber, more: Usage, quota: Quota | None) -> None:
    """Raise the bound. QuotaExceeded: no capacity for the larger payload, or for more runs."""
    if quota is None or more == Usage():
        return
    bound = read_bound(db, uid)
    if quota.refuses(bound, more):
        counted = count(db, uid, quota, bound)
        if quota.refuses(counted, more):
            raise exceeded(quota, counted, more)
        bound = bound_after(bound, counted, quota)
    put_bounds(db, {uid: bound.plus(more)})


def read_bound(db: Connection, uid: UserNumber) -> Usage:
    row = first(db, "select jobs, payload, runs from quotas where uid = ?", (uid,))
    return UNKNOWN if row is None else Usage(*row)


def count(db: Connection, uid: UserNumber, quota: Quota, bound: Usage) -> Usage:
    jobs, payload, runs = bound.jobs, bound.payload, bound.runs
    if quota.jobs:
        [(jobs,)] = fetch(db, _SQL["count_open_jobs"], (uid, quota.jobs + 1))
    if quota.payload:
        [(payload,)] = fetch(db, _SQL["sum_open_payloads"], (uid,))
    if quota.runs:
        [(runs,)] = fetch(db, _SQL["count_by_hand"], (uid, quota.runs + 1))
    return Usage(jobs, payload, runs)
