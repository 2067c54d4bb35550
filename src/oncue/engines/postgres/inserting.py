"""Batch inserts, for every verb that adds runs, ledger entries or audit entries."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from oncue.domain.ids import ClassId, JobId, RunId, UserNumber, created_at
from oncue.domain.instants import Instant
from oncue.domain.lane import FREE
from oncue.domain.ledger import Entry
from oncue.domain.run import NewRun
from oncue.engines.port import AuditEntry, Count, IdempotencyKey, NewJob
from oncue.engines.postgres import rows
from oncue.engines.postgres.counting import Counted, count
from oncue.engines.postgres.lanes import TouchedLanes
from oncue.engines.postgres.store import Connection, Fetch
from oncue.engines.series import minute_of
from oncue.engines.sql import statements

_SQL = statements("oncue.engines.postgres")
AUDIT = "at uid key_id action object_id detail address".split()
NO_KEY = (None, None)
NO_ENTRY = (None,) * len(AUDIT)
NO_TOLD = (None,) * (len(AUDIT) - 1)
MOST_KINDS = 20  # of jobs, which are matched one by one
NO_TOKENS: Mapping[RunId, int] = {}
LEDGER = "job_id first_at last_at n outcome reason run_id at".split()


async def copy(connection: Connection, table: str, columns: Sequence[str], records: list[tuple[Any, ...]]) -> None:
    if records:
        await connection.copy_records_to_table(table, records=records, columns=columns)


async def insert_runs(
    connection: Connection,
    runs: Sequence[tuple[NewRun, str | None]],
    touched: TouchedLanes,
    tokens: Mapping[RunId, int] = NO_TOKENS,
) -> None:
    """Add runs with their names, count them, and note the lanes that have to be tended before the transaction ends.

    `tokens`: of runs that existed before.
    """
    records = []
    for run, name in runs:
        records.append(rows.new_waiting(run, name, tokens.get(run.run_id, 0), touched.now))
        touched.add(run)
    await copy(connection, "waiting", rows.WAITING, records)
    created = Tally((run.uid, run.class_id) for run, _ in runs)
    await count(connection, Tally({(*whose, Count.CREATED): n for whose, n in created.items()}), touched.now)


async def write_ledger(
    connection: Connection, entries: Sequence[tuple[UserNumber, ClassId, Entry]], now: Instant
) -> None:
    """Write entries, and count their occurrences for the user and the class of their jobs."""
    await copy(
        connection,
        "ledger",
        LEDGER,
        [(e.job_id, e.first, e.last, e.count, e.outcome, e.reason, e.run_id, now) for _, _, e in entries],
    )
    tally: Counted = Tally()
    for uid, class_id, entry in entries:
        tally[uid, class_id, Count(entry.outcome)] += entry.count
    await count(connection, tally, now)


async def write_audit(connection: Connection, audit_entries: Iterable[AuditEntry]) -> None:
    await copy(connection, "audit", AUDIT, list(map(audit_row, audit_entries)))


def audit_row(audit_entry: AuditEntry) -> tuple[Any, ...]:
    return (
        audit_entry.at,
        audit_entry.uid,
        audit_entry.key_id,
        audit_entry.action,
        audit_entry.object_id,
        audit_entry.detail,
        audit_entry.address,
    )


def is_plain(new: NewJob) -> bool:
    """Return whether one row holds the whole job: a one-shot without tags, lanes and notices. Most jobs are."""
    return new.run is not None and new.run.lanes is FREE and not new.job.spec.tags and not new.notices


def is_uncontended(new: NewJob) -> bool:
    """Return whether the job takes nothing but an idempotency key that others could have taken: no stable key, no part
    of a quota.
    """
    return new.quota is None and new.job.spec.key is None


async def create_plain(fetch: Fetch, new: Sequence[NewJob], now: Instant, *, look: bool) -> set[JobId]:
    """Store all of these, with their audit entries, by one statement; return the stored ones.

    With `look`, nothing is stored if one of them exists already.
    """
    looked_for = [job.job.job_id for job in new] if look else []
    since = min(map(created_at, looked_for), default=Instant(0))
    alike = _alike(new)
    if alike is not None:
        given = (*alike.rows, looked_for, since, minute_of(now), *alike.kinds)
        [(stored,)] = await fetch(_SQL["create_alike"], *given)
        return {job.job.job_id for job in new} if stored else set()
    runs = [_run_row(job.run, job.job.spec.name) for job in new if job.run is not None]
    audit_entries = [audit_row(job.audit_entry) for job in new if job.audit_entry is not None]
    told = zip(*audit_entries, strict=True) if audit_entries else [()] * len(AUDIT)
    [(stored,)] = await fetch(_SQL["create_plain"], *zip(*runs, strict=True), since, *told, looked_for, minute_of(now))
    return {job.job.job_id for job in new} if stored else set()


class _Alike(NamedTuple):
    """One-shots of a few kinds, as arrays: ids, kinds and payloads; and what those of a kind have in common."""

    rows: tuple[list[JobId], list[int], list[bytes | None]]
    kinds: tuple[Sequence[Any], ...]


def _alike(new: Sequence[NewJob]) -> _Alike | None:
    """None: they are of too many kinds, or the audit log is to tell of other objects."""
    kinds: dict[tuple[Any, ...], int] = {}
    numbers = list[int]()
    for job in new:
        run, entry = job.run, job.audit_entry
        if run is None or (entry is not None and entry.object_id != run.run_id) or len(kinds) > MOST_KINDS:
            return None
        told = (
            NO_TOLD if entry is None else (entry.at, entry.uid, entry.key_id, entry.action, entry.detail, entry.address)
        )
        kind = (run.uid, run.class_id, run.wanted, run.nominal, run.expires_at, job.job.spec.name, run.spec, *told)
        numbers.append(kinds.setdefault(kind, len(kinds)))
    ids, payloads = [job.job.job_id for job in new], [job.job.payload for job in new]
    return _Alike((ids, numbers, payloads), (range(len(kinds)), *zip(*kinds, strict=True)))


async def create_keyed(fetch: Fetch, new: Sequence[NewJob], now: Instant) -> set[JobId]:
    """Store each of these, some with idempotency keys, unless its key is taken or it exists; return the stored ones.

    One statement. For a job that it does not return, only a later one sees who was first.
    """
    rows = [
        (*_run_row(job.run, job.job.spec.name), *_key_row(job.idempotency_key), *_entry_row(job.audit_entry))
        for job in new
        if job.run is not None
    ]
    since = min(created_at(job.job.job_id) for job in new)
    found = await fetch(_SQL["create_keyed"], *zip(*rows, strict=True), since, minute_of(now))
    return {row["run_id"] for row in found}


def _key_row(key: IdempotencyKey | None) -> tuple[Any, ...]:
    return NO_KEY if key is None else (key.key_hash, key.body_hash)


def _entry_row(audit_entry: AuditEntry | None) -> tuple[Any, ...]:
    return NO_ENTRY if audit_entry is None else audit_row(audit_entry)


def _run_row(run: NewRun, name: str | None) -> tuple[Any, ...]:
    return (run.run_id, run.uid, run.class_id, run.wanted, run.nominal, run.expires_at, name, run.spec, run.payload)
