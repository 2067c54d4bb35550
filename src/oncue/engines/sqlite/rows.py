"""Converts rows to domain values and back. The order of columns here is the order in the statements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import is_
from typing import Any, TypeVar
from uuid import UUID

import apsw
import msgspec

from oncue.domain.ids import SCHEDULE, JobId, RunId, created_at
from oncue.domain.instants import Instant
from oncue.domain.job import Cursor, Job, Spec, decode_spec, encode_spec
from oncue.domain.ledger import Entry, Outcome
from oncue.domain.run import Claimed, NewRun, Peeked, RunView, Settlement
from oncue.engines.first_start import first_start
from oncue.engines.port import AuditEntry, EndedRun, JobRow
from oncue.engines.stored import STATES, STATUS_NUMBER, STATUSES, TRIGGERS, held_of
from oncue.engines.unreadable import name_of

Row = tuple[Any, ...]
Id = TypeVar("Id", bound=UUID)


RUNS = (
    "run_id job_id uid class_id due wanted nominal origin trigger job_version token failures losses held lane gate"
    " meter expires_at updated_at parent name spec payload free_at"
).split()
HISTORY = (
    "run_id job_id uid class_id state wanted nominal trigger job_version token failures losses parent"
    " started_at ended_at worker_id error_type error result attempts name spec payload"
).split()
DEAD = [*HISTORY, "fingerprint"]
JOBS = "job_id uid version status class_id name created_at updated_at spec payload".split()
AGENDA = "job_id uid next_at floor planned rules".split()
AUDIT = "at uid key_id action object_id detail address".split()
LEDGER = "job_id first_at last_at n outcome reason run_id at".split()

_decode_ids = msgspec.msgpack.Decoder(list[UUID]).decode


def ids(column: Sequence[bytes]) -> list[Any]:
    """Decode ids. Decoding all of them at once takes a seventh of the time of one UUID after the other."""
    return _decode_ids(b"\xdd%b%b" % (len(column).to_bytes(4, "big"), b"".join([b"\xc4\x10" + one for one in column])))


def id_or_none(stored: bytes | None) -> Any:
    return None if stored is None else UUID(bytes=stored)


def bytes_or_none(identifier: UUID | None) -> bytes | None:
    return None if identifier is None else identifier.bytes


def blobs(identifiers: Iterable[bytes]) -> apsw.CArrayBinding:
    """Encode ids as one parameter. There must be at least one."""
    return apsw.carray(tuple(identifiers))


def peeked(found: Sequence[Row]) -> list[Peeked]:
    if not found:
        return []
    run_ids, due, class_ids, uids = zip(*found, strict=True)
    return list(map(Peeked, ids(run_ids), due, class_ids, uids))


def claimed(found: Sequence[Row], known: Mapping[bytes, RunId]) -> list[Claimed]:
    """Decode claimed runs: the columns are the fields of Claimed, in order. `known` are the requested ids."""
    if not found:
        return []
    fields: dict[str, Sequence[Any]] = dict(zip(Claimed.__struct_fields__, zip(*found, strict=True), strict=True))
    run_ids = [known[run_id] for run_id in fields["run_id"]]
    one_shots = fields["job_id"] == fields["run_id"]
    fields |= {
        "run_id": run_ids,
        "job_id": run_ids if one_shots else ids(fields["job_id"]),
        "origin": [SCHEDULE if origin is None else UUID(bytes=origin) for origin in fields["origin"]],
        "trigger": [TRIGGERS[trigger] for trigger in fields["trigger"]],
        "inline": [inline == 1 for inline in fields["inline"]],
        "parent": [id_or_none(parent) for parent in fields["parent"]],
    }
    return list(map(Claimed, *fields.values()))


def new_run(run: NewRun, name: str | None, token: int, now: Instant) -> tuple[Any, ...]:
    """Return a new run as a row of `runs`."""
    lanes = run.lanes
    held = lanes.held | run.held
    return (
        run.run_id.bytes,
        run.job_id.bytes,
        run.uid,
        run.class_id,
        run.wanted,
        run.wanted,
        run.nominal,
        None if run.origin is SCHEDULE or run.origin == SCHEDULE else run.origin.bytes,
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
        bytes_or_none(run.parent),
        name,
        run.spec,
        run.payload,
        -now if held else None,
    )


def ended(settlements: Iterable[Settlement], worker_id: bytes, *, whole: bool = False) -> list[tuple[Any, ...]]:
    """Return final runs as rows of history; `whole`: always with their definition, as for dead letters."""
    return [
        (
            run_id,
            run_id if is_(run.job_id, run.run_id) else run.job_id.bytes,
            run.uid,
            run.class_id,
            settled.state,
            run.wanted,
            run.nominal,
            run.trigger,
            run.job_version,
            run.token,
            settled.failures,
            settled.losses,
            None if run.parent is None else run.parent.bytes,
            settled.started_at,
            settled.ended_at,
            worker_id,
            settled.error_type,
            settled.error,
            settled.result,
            settled.attempts,
            name_of(spec) if spec is not None and b'"name":' in spec else None,
            spec,
            None if spec is None else run.payload,
        )
        for settled in settlements
        for run in (settled.run,)
        for run_id in (run.run_id.bytes,)
        for spec in (run.spec if whole or run.inline else None,)
    ]


def dead(settlements: Sequence[Settlement], worker_id: bytes) -> list[tuple[Any, ...]]:
    """Return dead letters: the rows of history, always with their definition."""
    faults = (settled.fault for settled in settlements)
    numbers = [None if fault is None else fault.fingerprint for fault in faults]
    return [(*row, number) for row, number in zip(ended(settlements, worker_id, whole=True), numbers, strict=True)]


def job_row(job: Job, class_id: int) -> tuple[Any, ...]:
    return (
        job.job_id.bytes,
        job.uid,
        job.version,
        STATUS_NUMBER[job.status],
        class_id,
        job.spec.name,
        job.created_at,
        job.updated_at,
        encode_spec(job.spec),
        job.payload,
    )


def job(row: Row) -> JobRow:
    """Return a job of either kind, from a row of the views or of a partition."""
    job_id, uid, version, status, _, _, made, updated, spec, payload, next_at, *_ = row
    identifier = JobId(UUID(bytes=job_id))
    made = created_at(identifier) if made is None else made
    return JobRow(
        Job(
            job_id=identifier,
            uid=uid,
            spec=decode_spec(spec),
            payload=payload,
            created_at=made,
            updated_at=made if updated is None else updated,
            version=version,
            status=STATUSES[status],
        ),
        next_at,
    )


def agenda_row(job_id: JobId, uid: int, cursor: Cursor) -> tuple[Any, ...]:
    return (job_id.bytes, uid, cursor.next_at, cursor.floor, cursor.planned, cursor.rules)


def tag_rows(uid: int, job_id: JobId, spec: Spec) -> list[tuple[int, str, bytes]]:
    return [(uid, tag, job_id.bytes) for tag in sorted(set(spec.tags))]


def view(row: Row) -> RunView:
    """Return a run from a row of any reading statement: the columns are the fields of RunView, in order."""
    values = list(row)
    for i, read in _READ:
        if values[i] is not None:
            values[i] = read(values[i])
    return RunView(*values)


_FIELDS = RunView.__struct_fields__
_READ: list[tuple[int, Callable[[Any], Any]]] = [
    *((_FIELDS.index(name), id_or_none) for name in ("run_id", "job_id", "worker_id", "parent")),
    (_FIELDS.index("state"), STATES.__getitem__),
    (_FIELDS.index("trigger"), TRIGGERS.__getitem__),
    (_FIELDS.index("held"), held_of),
]


def ended_run(row: Row) -> EndedRun:
    run_id, state, wanted, nominal, started_at, ended_at, attempts = row
    began = first_start(started_at, attempts)
    return EndedRun(RunId(UUID(bytes=run_id)), STATES[state], wanted, nominal, started_at, ended_at, began)


def ledger_row(entry: Entry, now: Instant) -> tuple[Any, ...]:
    return (
        entry.job_id.bytes,
        entry.first,
        entry.last,
        entry.count,
        entry.outcome.value,
        entry.reason,
        bytes_or_none(entry.run_id),
        now,
    )


def entry(row: Row) -> Entry:
    job_id, first, last, n, outcome, reason, run_id = row
    return Entry(JobId(UUID(bytes=job_id)), first, last, n, Outcome(outcome), reason, id_or_none(run_id))


def audit_row(audit_entry: AuditEntry) -> tuple[Any, ...]:
    return (
        audit_entry.at,
        audit_entry.uid,
        bytes_or_none(audit_entry.key_id),
        audit_entry.action,
        bytes_or_none(audit_entry.object_id),
        audit_entry.detail,
        audit_entry.address,
    )
