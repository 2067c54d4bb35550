"""Makes the runs of a job follow its current state, in bites: held by a pause, released, planned again after an edit,
or ended by a cancel.

The transaction that changes the job takes the first bite. If runs are left, the job is noted as unfinished, which
every claim checks, and each further bite is a transaction of its own, under the same lock.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Sequence
from uuid import UUID

import msgspec

from oncue.domain.change import JobChange, given_up
from oncue.domain.following import followed, is_meant, is_outdated
from oncue.domain.ids import JobId, RunId, UserNumber
from oncue.domain.instants import NEVER, Duration, Instant
from oncue.domain.job import Cursor, JobStatus, WaitingRun
from oncue.domain.lane import Held
from oncue.domain.run import State
from oncue.engines.finishing import Bite
from oncue.engines.port import Count
from oncue.engines.postgres import lanes, rows
from oncue.engines.postgres.counting import count
from oncue.engines.postgres.inserting import insert_runs, write_ledger
from oncue.engines.postgres.running import end_waiting
from oncue.engines.postgres.store import Connection
from oncue.engines.sql import statements
from oncue.engines.stored import STATUSES

_SQL = statements("oncue.engines.postgres")

BITE = 1_000  # runs in one transaction: some dozen milliseconds
BATCH_SPREAD = Duration(20_000)  # runs requested in one batch are wanted up to this much later, in their order


class Place(msgspec.Struct, frozen=True):
    """A position in a walk through the runs of a job."""

    wanted: Instant = Instant(-(2**62))
    run_id: RunId = RunId(UUID(int=0))


START = Place()


class Note(msgspec.Struct, frozen=True):
    """A job with runs that have not followed a change at `since`. `reached`: runs up to here have followed."""

    since: Instant
    drop_before: Instant | None = None
    purge: bool = False
    reached: Place = START


async def lock_one_shot(connection: Connection, job_id: JobId) -> None:
    """Lock a one-shot by its id, since it has no row of its own: a cancel and a verb that adds a run take turns."""
    await connection.execute("select pg_advisory_xact_lock($1)", job_id.int & 2**63 - 1)


async def noted(connection: Connection, job_id: JobId) -> Note | None:
    row = await connection.fetchrow(_SQL["noted"], job_id)
    if row is None:
        return None
    since, drop_before, purge, *reached = row
    return Note(since, drop_before, purge, START if None in reached else Place(*reached))


async def note(connection: Connection, job_id: JobId, new: Note, *, stops: bool = True) -> None:
    """Note that the job has runs that have not followed. `stops`: none of them is claimed before they have."""
    since = Instant(new.since + BATCH_SPREAD)
    await connection.execute(_SQL["note"], job_id, since, stops, new.drop_before, new.purge)


async def forget(connection: Connection, job_id: JobId) -> None:
    await connection.execute("delete from unfinished where job_id = $1", job_id)


async def next_bite(connection: Connection, job_id: JobId, now: Instant) -> Bite:
    """Take one bite of an unfinished job, in its current state. A one-shot's runs follow only its cancel."""
    row = await connection.fetchrow(_SQL["lock_job"], job_id)
    if row is None:
        await lock_one_shot(connection, job_id)
    note = await noted(connection, job_id)
    if note is None:
        return Bite()
    if row is None or STATUSES[row["status"]] is JobStatus.CANCELLED:
        bite = await cancel_some(connection, job_id, now)
    else:
        bite = Bite(done=await _follow(connection, job_id, note, now))
    if bite.done and note.purge:
        return msgspec.structs.replace(bite, purge=True)
    if bite.done:
        await forget(connection, job_id)
    return bite


async def give_up(connection: Connection, job_id: JobId, cursor: Cursor, now: Instant) -> None:
    """Write down the occurrences that are due and not planned, before their job is cancelled."""
    row = await connection.fetchrow(_SQL["read_recurring"], job_id)
    if row is not None:
        entries = given_up(rows.recurring(row), cursor, now)
        await write_ledger(connection, [(row["uid"], row["class_id"], entry) for entry in entries], now)


async def cancel_some(connection: Connection, job_id: JobId, now: Instant) -> Bite:
    """Tell or end the runs that one read finds; done, if a second read finds none that is not."""
    found = await connection.fetch(_SQL["live_of_job"], job_id, BITE)
    told = await connection.fetch(_SQL["cancel_running"], [row["run_id"] for row in found if row["running"]], now)
    touched = lanes.TouchedLanes(now)
    waiting = [row for row in found if not row["running"]]
    for row in waiting:
        touched.free(row["lane"], row["gate"])
    ended = await end_waiting(connection, [row["run_id"] for row in waiting], touched, State.CANCELLED, now)
    return Bite(
        ended,
        tuple((row["run_id"], row["worker_id"]) for row in told),
        done=not await connection.fetchval(_SQL["has_unstopped_runs"], job_id),
    )


async def walk(connection: Connection, job_id: JobId, after: Place = START) -> list[WaitingRun]:
    """Return waiting runs of a recurring job after this position, up to one bite."""
    found = await connection.fetch(_SQL["walk"], job_id, after.wanted, after.run_id, BITE)
    return [
        WaitingRun(
            run_id=row["run_id"],
            wanted=row["wanted"],
            nominal=row["nominal"],
            scheduled=row["origin"] is None and not row["token"],
            held=Held(row["held"]),
            by_hand=row["origin"] is not None,
            version=row["job_version"],
        )
        for row in found
    ]


class Follow(msgspec.Struct, frozen=True):
    """The runs that a change holds or releases, up to the last one read; done, if these are all."""

    meant: tuple[RunId, ...] = ()
    done: bool = True
    last: WaitingRun | None = None


async def first_bite(connection: Connection, change: JobChange) -> Follow:
    """Return the first bite. If an earlier change left runs, all is done later: those runs follow both changes."""
    if change.job is None or not (change.pauses_or_resumes or change.crowded):
        return Follow()
    if change.crowded or await noted(connection, change.job_id) is not None:
        return Follow(done=False)
    runs = await walk(connection, change.job_id)
    gone = set(change.withdraw)
    meant = tuple(run.run_id for run in runs if run.run_id not in gone and is_meant(change.job, run, NEVER))
    return Follow(meant, len(runs) < BITE, runs[-1] if runs else None)


async def _follow(connection: Connection, job_id: JobId, note: Note, now: Instant) -> bool:
    """Let one bite of runs follow; return whether it was the last."""
    found = await connection.fetchrow(_SQL["read_recurring"], job_id)
    assert found is not None, "its row is locked"
    job, runs, touched = rows.recurring(found), await walk(connection, job_id, note.reached), lanes.TouchedLanes(now)
    outdated = {run.run_id: run for run in runs if is_outdated(job, run, note.drop_before)}
    meant = [run.run_id for run in runs if run.run_id not in outdated and is_meant(job, run, note.since)]
    await lock_lanes(connection, [*outdated, *meant], touched)
    tokens = await withdraw(connection, list(outdated), job.uid, job.version, now)
    taken = [run for run_id, run in outdated.items() if run_id in tokens]
    after_all = followed(job, found["class_id"], taken, note.drop_before, now)
    await insert_runs(connection, [(run, None) for run in after_all.add], touched, tokens)
    await write_ledger(connection, [(job.uid, found["class_id"], entry) for entry in after_all.ledger], now)
    if after_all.uncounted:
        await connection.execute(_SQL["uncount"], job_id, after_all.uncounted)
    await hold_or_release(connection, meant, touched, pause=job.status is JobStatus.PAUSED)
    await lanes.tend(connection, touched)
    if len(runs) < BITE:
        return True
    await reach(connection, job_id, runs[-1])
    return False


async def reach(connection: Connection, job_id: JobId, last: WaitingRun) -> None:
    """Record for a noted job that its runs up to this one have followed."""
    reached = "update unfinished set wanted = $2, run_id = $3 where job_id = $1"
    await connection.execute(reached, job_id, last.wanted, last.run_id)


async def withdraw(
    connection: Connection, run_ids: Sequence[RunId], uid: UserNumber, version: int, now: Instant
) -> dict[RunId, int]:
    """Withdraw runs; return their tokens. A run that is added again continues its token, to fence older attempts."""
    if not run_ids:
        return {}
    gone = await connection.fetch(_SQL["withdraw"], sorted(run_ids), uid, version)
    await count(connection, Tally((row["uid"], row["class_id"], Count.WITHDRAWN) for row in gone), now)
    return {row["run_id"]: row["token"] for row in gone}


async def lock_lanes(connection: Connection, members: Sequence[RunId], touched: lanes.TouchedLanes) -> None:
    if members:
        for row in await connection.fetch("select lane, gate from waiting where run_id = any($1::uuid[])", members):
            touched.free(row["lane"], row["gate"])
        await lanes.lock(connection, touched, leaving=len(members))


async def hold_or_release(
    connection: Connection, run_ids: Sequence[RunId], touched: lanes.TouchedLanes, *, pause: bool
) -> set[RunId]:
    """Hold or release runs; return those that still waited. Locks their lanes; the caller tends them."""
    if not run_ids:
        return set()
    which = (sorted(run_ids), Held.PAUSED)
    found = await (
        connection.fetch(_SQL["hold"], *which) if pause else connection.fetch(_SQL["release"], *which, touched.now)
    )
    for row in found:
        touched.wait_for_rate(row["meter"], row["held"], row["due"])
    return {row["run_id"] for row in found}
