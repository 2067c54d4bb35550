"""What is near to jobs and runs: the last and next run of jobs, the last runs that ended, what jobs are called."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice

from oncue.domain.ids import JobId, RunId, UserNumber
from oncue.domain.instants import NEVER, Instant
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
LAST = b"\xff" * 16
PIECES_AT_ONCE = 16  # partitions that a statement looks into

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
    newest_first = pieces(db)
    found = {job_id: list(islice(_last_ended_runs(db, job_id, newest_first, limit), limit)) for job_id in job_ids}
    return {job_id: runs for job_id, runs in found.items() if runs}


def _last_ended_runs(db: Connection, job_id: JobId, newest_first: list[Piece], limit: int) -> Iterator[EndedRun]:
    for piece in newest_first:
        looks = [_SQL["last_ended"].format(piece=piece.name, which=which) for which in OF_JOB]
        found = [row for look in looks for row in fetch(db, look, (job_id.bytes, limit))]
        yield from map(rows.ended_run, sorted(found, key=lambda row: (row[5], row[0]), reverse=True))


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
    newest_first = pieces(db)
    return {job_id: _last_and_next(db, job_id, newest_first) for job_id in job_ids}


def _last_and_next(db: Connection, job_id: JobId, newest_first: list[Piece]) -> LastAndNext:
    live = runs_of(db, job_id)
    tried = [(wanted, run_id) for run_id, wanted, *_, tries, running in live if running or tries]
    if tried:
        row = first(db, _SQL["live_run"], (max(tried)[1],))
    else:
        itself_ended = all(run_id != job_id.bytes for run_id, *_ in live)
        row = _last_ended(db, job_id, newest_first, OF_JOB if itself_ended else OF_JOB[1:])
    own = [
        wanted
        for run_id, wanted, _, origin, _, token, _, running in live
        if not running and (run_id == job_id.bytes or (origin is None and not token))
    ]
    return LastAndNext(None if row is None else rows.view(row), min(own, default=None))


def _last_ended(db: Connection, job_id: JobId, newest_first: list[Piece], of_job: tuple[str, ...]) -> rows.Row | None:
    since = earliest_end(job_id)
    names = [piece.name for piece in newest_first if piece.until_at > since]
    for start in range(0, len(names), PIECES_AT_ONCE):
        statement = _newest_ended(tuple(names[start : start + PIECES_AT_ONCE]), of_job)
        if (row := first(db, statement, (job_id.bytes, NEVER, LAST))) is not None:
            return row
    return None


@lru_cache
def _newest_ended(newest_first: tuple[str, ...], of_job: tuple[str, ...]) -> str:
    """One statement for some partitions. SQLite looks into the next of them only if it finds nothing before."""
    read = _SQL["list_ended_of_job"]
    found = []
    for name in newest_first:
        looks = [f"select * from ({read.format(piece=name, which=which)} limit 1)" for which in of_job]
        found.append(f"select * from ({' union all '.join(looks)} order by ended_at desc, run_id desc limit 1)")
    return f"{' union all '.join(found)} limit 1"
