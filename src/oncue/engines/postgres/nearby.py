"""What is near to jobs and runs: the last and next run of jobs, the last runs that ended, what jobs are called."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from heapq import merge
from itertools import islice
from typing import NamedTuple
from uuid import UUID

from oncue.domain.ids import JobId, RunId, UserNumber
from oncue.domain.instants import DAY, Instant
from oncue.domain.run import RunView, State
from oncue.engines.capped import counts_of
from oncue.engines.earliest_end import earliest_end
from oncue.engines.port import Counts, EndedRun, JobName, LastAndNext
from oncue.engines.postgres import rows
from oncue.engines.postgres.store import Store
from oncue.engines.sql import statements
from oncue.engines.unreadable import key_of, name_of

_SQL = statements("oncue.engines.postgres")
MORE = 8  # times as many ends are read in each further look at the users who have more
FURTHER = 14 * DAY  # how far back before the two newest partitions ends are looked for, before it is everywhere


async def counts(store: Store, uid: UserNumber | None, most: int, now: Instant) -> Counts:
    """Count what is open and what has ended at once, on two connections: each takes some ten milliseconds."""
    of, who = ("_of_all", []) if uid is None else ("", [[uid]])
    found = await asyncio.gather(
        store.fetch(_SQL[f"count_open{of}"], *who, most, now), store.fetch(_SQL[f"count_ended{of}"], *who, most)
    )
    return counts_of([tuple(row) for rows_ in found for row in rows_], most)


async def last_ended(store: Store, job_ids: Sequence[JobId], limit: int) -> dict[JobId, list[EndedRun]]:
    found: dict[JobId, list[EndedRun]] = {}
    for row in await store.fetch(_SQL["last_ended"], job_ids, limit):
        found.setdefault(row["of_job"], []).append(rows.ended_run(row))
    return found


async def job_names(store: Store, runs: Sequence[RunView]) -> dict[RunId, JobName]:
    """Read names, but for dead letters of one-shots, which come with their definitions."""
    own = [run for run in runs if run.spec is not None and run.run_id == run.job_id]
    names = {run.run_id: JobName(name_of(run.spec), key_of(run.spec)) for run in own}
    asked = [(run.run_id, run.job_id, run.ended_at) for run in runs if run.run_id not in names]
    found = await store.fetch(_SQL["job_names"], *zip(*asked, strict=True)) if asked else []
    return names | {row["run_id"]: JobName(row["name"], key_of(row["spec"])) for row in found}


async def last_and_next(store: Store, job_ids: Sequence[JobId]) -> dict[JobId, LastAndNext]:
    """Read what has not ended; then, of jobs without a run that was tried, what ended last."""
    last, next_at, waiting = dict[JobId, RunView](), dict[JobId, Instant](), set[JobId]()
    for near, *run, wanted, waits in await store.fetch(_SQL["last_and_next"], job_ids):
        if wanted is not None:
            next_at[near] = min(wanted, next_at.get(near, wanted))
        if waits:
            waiting.add(near)
        if run[0] is not None and (found := rows.view(run)).failures + found.losses + (found.state is State.RUNNING):
            last[near] = max(found, last.get(near, found), key=_by_wanted)
    untried = [job_id for job_id in job_ids if job_id not in last]
    since, own = [earliest_end(job_id) for job_id in untried], [job_id not in waiting for job_id in untried]
    for near, *run in await store.fetch(_SQL["ended_of_jobs"], untried, since, own) if untried else ():
        last[near] = rows.view(run)
    return {job_id: LastAndNext(last.get(job_id), next_at.get(job_id)) for job_id in job_ids}


def _by_wanted(run: RunView) -> tuple[Instant, RunId]:
    return run.wanted, run.run_id


class Place(NamedTuple):
    """Where a run is found. No index has everybody's in the order of time: it would cost every run."""

    at: int
    run_id: UUID
    uid: int


async def newest_ends(store: Store, at: int, last: UUID, want: int, since: Instant | None = None) -> list[Place]:
    """Return the `want` newest ends before a position, not older than `since`.

    They are looked for in few partitions, and in more of them until there are enough: each costs a look for each user.
    """
    begins = [row["from_at"] for row in await store.fetch(_SQL["newest_pieces"], at)]
    oldest = -(2**62) if since is None else since
    found: list[Place] = []
    for lower in (*begins, *(begin - FURTHER for begin in begins[-1:]), oldest):
        lower = max(oldest, lower)
        found = await _merged(store, (at, last), want, "newest_ends", lower, at)
        if len(found) >= want or lower == oldest:
            break
    return found


async def next_wanted(store: Store, at: int, last: UUID, until: int, want: int) -> list[Place]:
    """Return the first `want` runs of everybody's that wait, after a position and up to `until`."""
    return await _merged(store, (at, last), want, "next_wanted", until)


async def _merged(store: Store, start: tuple[int, UUID], want: int, statement: str, *bounds: int) -> list[Place]:
    """Merge the users' own orders: those whose last row that was read is among those wanted are read further."""
    found: list[Place] = []
    unread, look, newest = dict[int, tuple[int, UUID]](), 1 + want // 500, statement == "newest_ends"
    everybody: tuple[int | None, UUID | None] = start
    while unread or everybody[0] is not None:
        ats, ids = [place[0] for place in unread.values()], [place[1] for place in unread.values()]
        rows = await store.fetch(_SQL[statement], list(unread), ats, ids, look, *everybody, *bounds, want)
        read = [Place(at, run_id, uid) for uid, at, run_id in rows]
        counts, last = Counter(place.uid for place in read), {place.uid: place[:2] for place in read}
        found = list(islice(merge(found, read, reverse=newest), want))
        edge = found[-1][:2] if len(found) == want else None
        more = ((uid, last[uid]) for uid, n in counts.items() if n == look)
        unread = {uid: at for uid, at in more if edge is None or (at > edge if newest else at < edge)}
        everybody, look = (None, None), min(look * MORE, want)
    return found
