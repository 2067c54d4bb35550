"""What is near to jobs and runs: the last and next run of jobs, the last runs that ended, what jobs are called."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from uuid import UUID

import msgspec

from oncue.domain.ids import JobId, RunId, UserNumber
from oncue.domain.instants import Instant
from oncue.domain.job import MOST_READ, JobStatus
from oncue.domain.run import RunView, State, Status
from oncue.engines.capped import counts_of
from oncue.engines.earliest_end import earliest_end
from oncue.engines.port import Counts, EndedRun, JobName, LastAndNext
from oncue.engines.sql import statements
from oncue.engines.sqlite import rows
from oncue.engines.sqlite.partitions import Piece, find_ended, pieces
from oncue.engines.sqlite.store import Connection, fetch, first
from oncue.engines.stored import STATUSES
from oncue.engines.unreadable import key_of

_SQL = statements("oncue.engines.sqlite")
USUAL_RUNS = 10  # of a job that have not ended; on average, of the jobs of a page

# The runs of a job: the run that is the job, and those that an index finds by their job.
OF_JOB = ("run_id = ?1", "job_id = ?1 and job_id <> run_id")


def counts(db: Connection, uid: UserNumber | None, most: int, now: Instant) -> Counts:
    return counts_of(_counted(db, {"uid": uid, "most": most, "now": now}), most)


def _counted(db: Connection, given: dict[str, int | None]) -> Iterator[tuple[str, str, int]]:
    who, newest = ("", "rowid desc") if given["uid"] is None else ("where uid = :uid", "ended_at desc, run_id desc")
    for status, n in fetch(db, _SQL["count_jobs"].format(who=who), given):
        yield "job", STATUSES[status], n
    for state, is_job, held, later, tries, stopping, n in fetch(db, _SQL["count_live"].format(who=who), given):
        if is_job:
            yield "job", JobStatus.CANCELLED if stopping else JobStatus.PAUSED if held else JobStatus.ACTIVE, n
        if state == State.RUNNING:
            yield "run", Status.CANCELLING if stopping else Status.RUNNING, n
        else:
            yield "run", Status.RETRYING if tries else Status.SCHEDULED if later else Status.QUEUED, n
    left = given["most"] or 0
    for piece in pieces(db):
        ended = _SQL["count_ended"].format(piece=piece.name, who=who, newest=newest)
        for state, is_job, n in fetch(db, ended, {**given, "most": left}):
            left -= n
            yield "run", Status[State(state).name], n
            if is_job:
                yield "job", JobStatus.CANCELLED if state == State.CANCELLED else JobStatus.FINISHED, n
        if left <= 0:
            break
    [(n,)] = fetch(db, f"select count(*) from (select 1 from dead {who} limit :most)", given)
    yield "letter", "", n


def last_ended(db: Connection, job_ids: Sequence[JobId], limit: int) -> dict[JobId, list[EndedRun]]:
    found = defaultdict[JobId, list[EndedRun]](list)
    for piece in pieces(db):
        short = [job_id for job_id in job_ids if len(found[job_id]) < limit and _may_have_ended(job_id, piece)]
        if not short:
            break
        for of_job, *run in fetch(db, _SQL["last_ended"].format(piece=piece.name), (_listed(short), limit)):
            found[JobId(UUID(bytes=of_job))].append(rows.ended_run(tuple(run)))
    return {job_id: runs[:limit] for job_id, runs in found.items() if runs}


def _may_have_ended(job_id: JobId, piece: Piece) -> bool:
    return earliest_end(job_id) < piece.until_at


def job_names(db: Connection, runs: Sequence[RunView]) -> dict[RunId, JobName]:
    of_jobs, found = dict[JobId, JobName | None](), dict[RunId, JobName]()
    for run in runs:
        if run.job_id not in of_jobs:
            row = first(db, "select name, spec from jobs where job_id = ?", (run.job_id.bytes,))
            of_jobs[run.job_id] = None if row is None else JobName(row[0], key_of(row[1]))
        if (name := of_jobs[run.job_id] or _name_in_run(db, run)) is not None:
            found[run.run_id] = name
    return found


def _name_in_run(db: Connection, run: RunView) -> JobName | None:
    """The name in a run that carries its definition; else that of the one-shot whose further run it is."""
    for run_id in (run.run_id, run.job_id):
        row = first(db, _SQL["name_in_run"].format(table="runs"), (run_id.bytes,))
        row = row or find_ended(db, run_id, _SQL["name_in_run"])
        if row is not None:
            return JobName(row[0], key_of(row[1]))
    return None


def runs_of(db: Connection, job_id: JobId) -> list[rows.Row]:
    """Return run_id, wanted, nominal, origin, held, token, tries, running: of its runs that have not ended, in order.

    Reads only as many as a snapshot holds.
    """
    return fetch(db, _SQL["runs_of_job"], (job_id.bytes, MOST_READ + 1))


def last_and_next(db: Connection, job_ids: Sequence[JobId]) -> dict[JobId, LastAndNext]:
    live = _runs_of_each(db, job_ids)
    tried = {job_id: max(_tried(runs), default=None) for job_id, runs in live.items()}
    untried = {job_id: all(run[0] != job_id.bytes for run in live[job_id]) for job_id in job_ids if not tried[job_id]}
    last = _last_ended_of_each(db, untried)
    newest = [found[1] for found in tried.values() if found is not None]
    for view in map(rows.view, fetch(db, _SQL["live_runs"], (rows.blobs(newest),)) if newest else ()):
        last[view.job_id] = view
    return {job_id: LastAndNext(last.get(job_id), _next(job_id, live[job_id])) for job_id in job_ids}


def _tried(live: Sequence[rows.Row]) -> Iterator[tuple[int, bytes]]:
    return ((wanted, run_id) for run_id, wanted, *_, tries, running in live if running or tries)


def _next(job_id: JobId, live: Sequence[rows.Row]) -> Instant | None:
    own = [
        wanted
        for run_id, wanted, _, origin, _, token, _, running in live
        if not running and (run_id == job_id.bytes or (origin is None and not token))
    ]
    return min(own, default=None)


def _runs_of_each(db: Connection, job_ids: Sequence[JobId]) -> dict[JobId, list[rows.Row]]:
    """Read the runs of all these jobs, see runs_of, with one statement, unless they have very many."""
    most = USUAL_RUNS * len(job_ids)
    read = fetch(db, _SQL["runs_of_jobs"], (_listed(job_ids), most))
    if len(read) >= most:
        return {job_id: runs_of(db, job_id) for job_id in job_ids}
    found = defaultdict[bytes, list[rows.Row]](list)
    for of_job, *run in read:
        found[of_job].append(tuple(run))
    return {job_id: found[job_id.bytes] for job_id in job_ids}


def _last_ended_of_each(db: Connection, asked: Mapping[JobId, bool]) -> dict[JobId, RunView]:
    """Find the last run of each job that ended. True: the run that is the job may be it."""
    found: dict[JobId, RunView] = {}
    for piece in pieces(db):
        left = [job_id for job_id in asked if job_id not in found and _may_have_ended(job_id, piece)]
        if not left:
            break
        given = _listed(left), _listed([job_id for job_id in left if asked[job_id]])
        read = fetch(db, _SQL["last_ended_of_jobs"].format(piece=piece.name), given)
        ended = map(rows.view, sorted(read, key=lambda row: (row[15], row[0])))  # its own and another: the later one
        found |= {view.job_id: view for view in ended}
    return found


def _listed(job_ids: Sequence[JobId]) -> str:
    """Return ids as `json_each` takes them: a statement for any number of them stays prepared."""
    return msgspec.json.encode([job_id.hex for job_id in job_ids]).decode()
