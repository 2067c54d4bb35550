"""Converts rows to domain values and back. The order of columns here is the order in the statements."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any
from uuid import UUID

from asyncpg import Record

from oncue.domain.ids import SCHEDULE, JobId, UserNumber, WorkerId, created_at
from oncue.domain.instants import NEVER, Instant
from oncue.domain.job import Cursor, Job, JobStatus, decode_spec, encode_spec
from oncue.domain.lane import Held
from oncue.domain.ledger import Entry, Outcome
from oncue.domain.run import Claimed, NewRun, Peeked, RunView, Settlement, State
from oncue.engines.first_start import first_start
from oncue.engines.port import EndedRun, JobRow
from oncue.engines.stored import STATES, STATUS_NUMBER, STATUSES, TRIGGERS, held_of
from oncue.engines.unreadable import name_of

WAITING = (
    "run_id job_id uid class_id due wanted nominal origin trigger job_version token failures losses held lane gate"
    " meter expires_at updated_at parent name attempts checkpoint spec payload free_at"
).split()
HISTORY = (
    "run_id job_id uid class_id state wanted nominal origin trigger job_version token failures losses parent"
    " started_at ended_at worker_id error_type error result attempts name spec payload"
).split()
DEAD = [*HISTORY, "fingerprint"]
JOBS = "job_id uid version status class_id name spec payload created_at updated_at".split()
AGENDA = "job_id uid next_at floor planned rules".split()


def peeked(rows: Iterable[Record]) -> list[Peeked]:
    return [Peeked(*row) for row in rows]


def claimed(row: Iterable[Any]) -> Claimed:
    (run_id, token, job_id, uid, class_id, due, wanted, nominal, origin, trigger, *rest) = row
    return Claimed(
        run_id, token, job_id, uid, class_id, due, wanted, nominal, origin or SCHEDULE, TRIGGERS[trigger], *rest
    )


def new_waiting(run: NewRun, name: str | None, token: int, now: Instant) -> tuple[Any, ...]:
    """Return a new run as a row of `waiting`."""
    lanes = run.lanes
    held = lanes.held | run.held if run.held else lanes.held
    return (
        run.run_id,
        run.job_id,
        run.uid,
        run.class_id,
        run.wanted,
        run.wanted,
        run.nominal,
        _origin(run.origin),
        run.trigger,
        run.job_version,
        token,
        0,
        0,
        held,
        lanes.lane,
        lanes.gate,
        None if lanes.meter is None else lanes.meter.key,
        run.expires_at,
        run.updated_at,
        run.parent,
        name,
        None,
        None,
        run.spec,
        run.payload,
        -now if held else None,
    )


def final(settlements: Sequence[Settlement]) -> tuple[list[Any] | None, ...]:
    """Return the outcomes of runs that end, as arrays. A column without new values is left out: see _alike."""
    return (
        [s.run.run_id for s in settlements],
        [s.started_at for s in settlements],
        [s.ended_at for s in settlements],
        _if_new([s.failures for s in settlements], [s.run.failures for s in settlements]),
        _if_new([s.losses for s in settlements], [s.run.losses for s in settlements]),
        _if_any([s.error_type for s in settlements]),
        _if_any([s.error for s in settlements]),
        _if_any([s.result for s in settlements]),
        _if_any([s.attempts for s in settlements]),
    )


def again(settlements: Sequence[Settlement], paused: Container[JobId]) -> tuple[list[Any], ...]:
    """Return the same for runs that wait again."""
    return (
        [s.run.run_id for s in settlements],
        [s.due for s in settlements],
        [s.failures for s in settlements],
        [s.losses for s in settlements],
        [s.attempts for s in settlements],
        [
            Held.PAUSED.value if s.run.job_id in paused else 0 for s in settlements
        ],  # a flag iterates, and so reads as an array,
    )


def _if_new(values: list[Any], known: list[Any]) -> list[Any] | None:
    return None if values == known else values


def _if_any(values: list[Any]) -> list[Any] | None:
    return values if any(value is not None for value in values) else None


def dead(settled: Settlement, worker_id: WorkerId) -> tuple[Any, ...]:
    """Return a dead letter: the row of `history`, always with its definition."""
    run = settled.run
    return (
        run.run_id,
        run.job_id,
        run.uid,
        run.class_id,
        State.DEAD,
        run.wanted,
        run.nominal,
        _origin(run.origin),
        run.trigger,
        run.job_version,
        run.token,
        settled.failures,
        settled.losses,
        run.parent,
        settled.started_at,
        settled.ended_at,
        worker_id,
        settled.error_type,
        settled.error,
        settled.result,
        settled.attempts,
        name_of(run.spec),
        run.spec,
        run.payload,
        None if settled.fault is None else settled.fault.fingerprint,
    )


def _origin(origin: UUID) -> UUID | None:
    return None if origin is SCHEDULE else origin


def job_row(job: Job, class_id: int) -> tuple[Any, ...]:
    return (
        job.job_id,
        job.uid,
        job.version,
        STATUS_NUMBER[job.status],
        class_id,
        job.spec.name,
        encode_spec(job.spec),
        job.payload,
        job.created_at,
        job.updated_at,
    )


def recurring(row: Record) -> Job:
    return Job(
        job_id=row["job_id"],
        uid=row["uid"],
        spec=decode_spec(row["spec"]),
        payload=row["payload"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        version=row["version"],
        status=STATUSES[row["status"]],
    )


def one_shot(row: Record) -> Job:
    """Return a one-shot, read from its only run in any state."""
    made = created_at(row["job_id"])
    return Job(
        job_id=row["job_id"],
        uid=row["uid"],
        spec=decode_spec(row["spec"]),
        payload=row["payload"],
        created_at=made,
        updated_at=row["ended_at"] or row["updated_at"] or made,
        version=row["job_version"],
        status=_one_shot_status(State(row["state"]), row["held"]),
    )


def listed(row: Record) -> JobRow:
    """Return a job of either kind, as the lists show it."""
    job_id, uid, version, status, spec, payload, made, updated, next_at, *_ = row
    made = created_at(job_id) if made is None else made
    job = Job(
        job_id, uid, decode_spec(spec), payload, made, made if updated is None else updated, version, STATUSES[status]
    )
    return JobRow(job, None if next_at == NEVER else next_at)


def _one_shot_status(state: State, held: int) -> JobStatus:
    if state.final:
        return JobStatus.CANCELLED if state is State.CANCELLED else JobStatus.FINISHED
    return JobStatus.PAUSED if held & Held.PAUSED else JobStatus.ACTIVE


def view(row: Iterable[Any]) -> RunView:
    """Return a run from a row of any reading statement: the columns are the fields of RunView, in order."""
    (
        run_id,
        job_id,
        uid,
        class_id,
        state,
        due,
        wanted,
        nominal,
        trigger,
        token,
        failures,
        losses,
        version,
        held,
        *rest,
    ) = row
    ids, tries = (run_id, job_id, uid, class_id), (token, failures, losses, version)
    return RunView(*ids, STATES[state], due, wanted, nominal, TRIGGERS[trigger], *tries, held_of(held), *rest)


def ended_run(row: Record) -> EndedRun:
    _, run_id, state, wanted, nominal, started_at, ended_at, attempts, _ = row
    began = first_start(started_at, attempts)
    return EndedRun(run_id, STATES[state], wanted, nominal, started_at, ended_at, began)


def entry(row: Record) -> Entry:
    return Entry(
        row["job_id"], row["first_at"], row["last_at"], row["n"], Outcome(row["outcome"]), row["reason"], row["run_id"]
    )


def cursor(row: Record) -> Cursor:
    return Cursor(row["next_at"], row["floor"], row["planned"], row["rules"])


def agenda_row(job_id: JobId, uid: UserNumber, cursor: Cursor) -> tuple[Any, ...]:
    return (job_id, uid, cursor.next_at, cursor.floor, cursor.planned, cursor.rules)
