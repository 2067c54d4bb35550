"""Quotas: a bound per user, in a row whose lock a transaction holds while it raises the bound, and counting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oncue.domain.ids import JobId, UserNumber
from oncue.domain.quota import exceeded
from oncue.engines.admitting import Admission, StableKey, admit, bound_after
from oncue.engines.port import Creation, NewJob, Quota, Usage
from oncue.engines.postgres.store import Connection
from oncue.engines.sql import statements

_SQL = statements("oncue.engines.postgres")

Bounds = dict[UserNumber, Usage]


async def lock_bounds(connection: Connection, quotas: Mapping[UserNumber, Quota]) -> Bounds:
    """Lock these users, in order: until the transaction ends, no other one adds anything for them."""
    if not quotas:
        return {}
    await connection.execute(_SQL["add_quotas"], list(quotas))
    found = await connection.fetch(_SQL["lock_quotas"], list(quotas))
    return {row["uid"]: Usage(row["jobs"], row["payload"], row["runs"]) for row in found}


async def admit_counted(
    connection: Connection,
    new: Sequence[NewJob],
    answers: Sequence[Creation],
    holders: Mapping[StableKey, JobId],
    quotas: Mapping[UserNumber, Quota],
    bounds: Bounds,
) -> Admission:
    """Admit like `admit`, but refuse no user by a bound alone. Raises bounds, or lowers them to what was counted."""
    admission = admit(new, answers, holders, bounds)
    counted = {uid: await count(connection, uid, quotas[uid], bounds[uid]) for uid in sorted(admission.over_quota)}
    if counted:
        admission = admit(new, answers, holders, bounds | counted)
    lowered = bounds | {uid: bound_after(bounds[uid], found, quotas[uid]) for uid, found in counted.items()}
    after = {uid: bound.plus(admission.added.get(uid, Usage())) for uid, bound in lowered.items()}
    await _put(connection, {uid: bound for uid, bound in after.items() if bound != bounds[uid]})
    return admission


async def grow(connection: Connection, uid: UserNumber, more: Usage, quota: Quota | None) -> None:
    """Raise the bound. QuotaExceeded: no capacity for the larger payload, or for more runs."""
    if quota is None or more == Usage():
        return
    bound = (await lock_bounds(connection, {uid: quota}))[uid]
    lowered = bound
    if quota.refuses(bound, more):
        counted = await count(connection, uid, quota, bound)
        if quota.refuses(counted, more):
            raise exceeded(quota, counted, more)
        lowered = bound_after(bound, counted, quota)
    await _put(connection, {uid: lowered.plus(more)})


async def count(connection: Connection, uid: UserNumber, quota: Quota, bound: Usage) -> Usage:
    """Count by a separate statement after the lock: it sees everything stored under earlier locks."""
    jobs, payload, runs = bound.jobs, bound.payload, bound.runs
    if quota.jobs:
        jobs = await connection.fetchval(_SQL["count_open_jobs"], uid, quota.jobs + 1)
    if quota.payload:
        payload = await connection.fetchval(_SQL["sum_open_payloads"], uid)
    if quota.runs:
        runs = await connection.fetchval(_SQL["count_by_hand"], uid, quota.runs + 1)
    return Usage(jobs, payload, runs)


async def _put(connection: Connection, bounds: Bounds) -> None:
    if bounds:
        await connection.executemany(
            _SQL["put_quota"], [(uid, one.jobs, one.payload, one.runs) for uid, one in bounds.items()]
        )
