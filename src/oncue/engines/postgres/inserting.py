"""Writing many rows at once, for every verb that adds runs, ledger entries or lines of the audit log."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Sequence
from typing import Any

from oncue.domain.ids import created_at
from oncue.domain.instants import Instant
from oncue.domain.lane import FREE
from oncue.domain.ledger import Entry
from oncue.domain.run import NewRun
from oncue.engines.port import Count, Deed, NewJob
from oncue.engines.postgres import rows
from oncue.engines.postgres.counting import count
from oncue.engines.postgres.lanes import Touched
from oncue.engines.postgres.store import Connection, Store
from oncue.engines.sql import statements

_SQL = statements("oncue.engines.postgres")
AUDIT = "at uid key_id action object_id detail address".split()
LEDGER = "job_id first_at last_at n outcome reason run_id at".split()


async def copy(connection: Connection, table: str, columns: Sequence[str], records: list[tuple[Any, ...]]) -> None:
    if records:
        await connection.copy_records_to_table(table, records=records, columns=columns)


async def insert_runs(connection: Connection, runs: Sequence[tuple[NewRun, str | None]], touched: Touched) -> None:
    """Add runs with their names, count them, and note the lanes that have to be tended before the transaction ends."""
    records = []
    for run, name in runs:
        records.append(rows.new_waiting(run, name))
        touched.add(run)
    await copy(connection, "waiting", rows.WAITING, records)
    created = Tally((run.uid, run.class_id) for run, _ in runs)
    await count(connection, Tally({(*whose, Count.CREATED): n for whose, n in created.items()}))


async def write_ledger(connection: Connection, entries: Iterable[Entry], now: Instant) -> None:
    await copy(
        connection,
        "ledger",
        LEDGER,
        [(e.job_id, e.first, e.last, e.count, e.outcome, e.reason, e.run_id, now) for e in entries],
    )


async def write_deeds(connection: Connection, deeds: Iterable[Deed]) -> None:
    await copy(connection, "audit", AUDIT, list(map(deed_row, deeds)))


def deed_row(deed: Deed) -> tuple[Any, ...]:
    return (deed.at, deed.uid, deed.key_id, deed.action, deed.object_id, deed.detail, deed.address)


def is_plain(new: NewJob) -> bool:
    """Nothing about it is what others could have or wait for: a one-shot without keys, tags, quota, lanes. Most are."""
    spec, run = new.job.spec, new.run
    plain = new.repeat is None and new.quota is None and spec.key is None and not spec.tags
    return plain and run is not None and run.lanes is FREE


async def create_plain(store: Store, new: Sequence[NewJob]) -> bool:
    """All of these, by one statement: the general way takes nine trips to the server.

    False: one of them is there already, and nothing was stored.
    """
    runs = [_run_row(job.run, job.job.spec.name) for job in new if job.run is not None]
    deeds = [deed_row(job.deed) for job in new if job.deed is not None]
    since = min(created_at(job.job.job_id) for job in new)
    told = zip(*deeds, strict=True) if deeds else [()] * len(AUDIT)
    [(stored,)] = await store.fetch(_SQL["create_plain"], *zip(*runs, strict=True), since, *told, hot=True)
    return bool(stored)


def _run_row(run: NewRun, name: str | None) -> tuple[Any, ...]:
    return (run.run_id, run.uid, run.class_id, run.wanted, run.nominal, run.expires_at, name, run.spec, run.payload)
