"""Letting the runs of a job follow its status, in bites: held when it is paused, released, or ended by a cancel.

Whoever changes the status takes the first bite in the same transaction. If more is left the job is noted as unfinished,
and each further bite is a transaction of its own, under the same lock: whoever comes after a crash goes on there.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from oncue.domain.ids import JobId, RunId, WorkerId
from oncue.domain.instants import NEVER, Duration, Instant
from oncue.domain.job import JobStatus
from oncue.domain.lane import Held
from oncue.domain.run import State
from oncue.engines.postgres import lanes, rows
from oncue.engines.postgres.running import end_waiting
from oncue.engines.postgres.store import Connection
from oncue.engines.sql import statements

_SQL = statements("oncue.engines.postgres")

BITE = 1_000  # runs in one transaction: some dozen milliseconds
JUST_NOW = Duration(20_000)  # what was asked for together with others is wanted that much later, in their order
FROM_THE_FIRST = Instant(-(2**62))


class Bite(msgspec.Struct, frozen=True):
    """What one transaction did. `reached`: where the next one begins."""

    stopped: tuple[RunId, ...] = ()
    told: tuple[tuple[RunId, WorkerId], ...] = ()
    reached: Instant = FROM_THE_FIRST
    done: bool = True


async def lock_one_shot(connection: Connection, job_id: JobId) -> None:
    """It has no row of its own: whoever cancels it and whoever adds a run to it take turns by its id."""
    await connection.execute("select pg_advisory_xact_lock($1)", job_id.int & 2**63 - 1)


async def is_unfinished(connection: Connection, job_id: JobId) -> bool:
    return bool(await connection.fetchval("select exists (select from unfinished where job_id = $1)", job_id))


async def note(connection: Connection, job_id: JobId, now: Instant, *, done: bool) -> None:
    """Whether runs of it are left that have not followed."""
    if done:
        await connection.execute("delete from unfinished where job_id = $1", job_id)
    else:
        await connection.execute(
            "insert into unfinished (job_id, since) values ($1, $2) on conflict do nothing", job_id, now + JUST_NOW
        )


async def next_bite(connection: Connection, job_id: JobId, after: Instant, now: Instant) -> Bite:
    """Of a job that is unfinished: as its status is now. A one-shot's runs follow nothing but its cancel."""
    row = await connection.fetchrow(_SQL["lock_job"], job_id)
    if row is None:
        await lock_one_shot(connection, job_id)
    since = await connection.fetchval("select since from unfinished where job_id = $1", job_id)
    if since is None:
        return Bite()
    status = JobStatus.CANCELLED if row is None else rows.STATUSES[row["status"]]
    if status is JobStatus.CANCELLED:
        bite = await cancel_some(connection, job_id, now)
    else:
        bite = await _hold_or_release(connection, job_id, status is JobStatus.PAUSED, after, since)
    await note(connection, job_id, now, done=bite.done)
    return bite


async def cancel_some(connection: Connection, job_id: JobId, now: Instant) -> Bite:
    """What one look finds is told or ended; done, if a second one finds nothing that is not."""
    found = await connection.fetch(_SQL["live_of_job"], job_id, BITE)
    told = await connection.fetch(_SQL["cancel_running"], [row["run_id"] for row in found if row["running"]], now)
    touched = lanes.Touched()
    waiting = [row for row in found if not row["running"]]
    for row in waiting:
        touched.free(row["lane"], row["gate"])
    ended = await end_waiting(connection, [row["run_id"] for row in waiting], touched, State.CANCELLED, now)
    return Bite(
        ended,
        tuple((row["run_id"], row["worker_id"]) for row in told),
        done=not await connection.fetchval(_SQL["has_unstopped_runs"], job_id),
    )


async def to_follow(
    connection: Connection, job_id: JobId, *, pause: bool, after: Instant = FROM_THE_FIRST, since: Instant = NEVER
) -> list[tuple[RunId, Instant]]:
    """Waiting runs that are to be held or released, up to a bite, with the instants they are wanted at."""
    found = await connection.fetch(_SQL["following"], job_id, after, BITE, since, not pause)
    return [(row["run_id"], row["wanted"]) for row in found]


async def _hold_or_release(connection: Connection, job_id: JobId, pause: bool, after: Instant, since: Instant) -> Bite:
    found = await to_follow(connection, job_id, pause=pause, after=after, since=since)
    run_ids, touched = [run_id for run_id, _ in found], lanes.Touched()
    await lock_lanes(connection, run_ids, touched)
    await hold_or_release(connection, run_ids, touched, pause=pause)
    await lanes.tend(connection, touched)
    return Bite(reached=found[-1][1] if found else after, done=len(found) < BITE)


async def lock_lanes(connection: Connection, members: Sequence[RunId], touched: lanes.Touched) -> None:
    if members:
        for row in await connection.fetch("select lane, gate from waiting where run_id = any($1::uuid[])", members):
            touched.free(row["lane"], row["gate"])
        await lanes.lock(connection, touched, leaving=len(members))


async def hold_or_release(
    connection: Connection, run_ids: Sequence[RunId], touched: lanes.Touched, *, pause: bool
) -> set[RunId]:
    """Those that still waited. Their lanes are locked, and tended by the caller."""
    if not run_ids:
        return set()
    found = await connection.fetch(_SQL["hold" if pause else "release"], sorted(run_ids), Held.PAUSED)
    for row in found:
        touched.wait_for_rate(row["meter"], row["held"], row["due"])
    return {row["run_id"] for row in found}
