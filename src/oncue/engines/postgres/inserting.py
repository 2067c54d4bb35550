"""Writing many rows at once, for every verb that adds runs, ledger entries or lines of the audit log."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Sequence
from typing import Any

from oncue.domain.instants import Instant
from oncue.domain.ledger import Entry
from oncue.domain.run import NewRun
from oncue.engines.port import Count, Deed
from oncue.engines.postgres import rows
from oncue.engines.postgres.counting import count
from oncue.engines.postgres.lanes import Touched
from oncue.engines.postgres.store import Connection

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
